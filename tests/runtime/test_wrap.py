from concurrent.futures import ThreadPoolExecutor

import pytest

from lightning_gpuprof.runtime.wrap import CallInside, LoggingCall, Wrappers


class Told:
    """A region that counts how often it is entered."""

    def __init__(self):
        self.entered = 0

    def __enter__(self):
        self.entered += 1

    def __exit__(self, *raised):
        pass


class Board:
    def __init__(self):
        self.logged = []

    def log(self, value):
        self.logged.append(value)


class Proxy:
    """Has a method of its own, and hands what is set on to the board that it wrappers."""

    def __init__(self, board):
        self.__dict__["board"] = board

    def __setattr__(self, name, value):
        setattr(self.board, name, value)

    def log(self, value):
        self.board.log(value)


class ProxyOfAll(Board):
    """As wrapt's: its `__dict__` is that of the board which its own method wrappers."""

    __slots__ = ("board",)

    def __init__(self, board):
        object.__setattr__(self, "board", board)

    @property
    def __dict__(self):
        return self.board.__dict__

    def log(self, value):
        self.board.log(value)


@pytest.mark.parametrize("kind", [CallInside, LoggingCall])
def test_what_is_called_from_a_thread_of_its_own_is_not_timed(kind):
    board, region, wrappers = Board(), Told(), Wrappers()
    wrappers.call_inside(board, "log", region, kind=kind)

    with ThreadPoolExecutor() as pool:
        pool.submit(board.log, 1).result()
    assert (board.logged, region.entered) == ([1], 0)
    board.log(2)
    assert (board.logged, region.entered) == ([1, 2], 1)


def test_a_proxy_calls_what_it_stands_for_and_is_put_back():
    board, region, wrappers = Board(), Told(), Wrappers()
    proxy = Proxy(board)
    wrappers.call_inside(proxy, "log", region)

    proxy.log(1)
    assert (board.logged, region.entered) == ([1], 1)
    wrappers.restore()
    assert (list(vars(proxy)), list(vars(board))) == (["board"], ["logged"])


def test_a_proxy_that_shows_what_it_stands_for_as_its_own_is_left_alone():
    board, wrappers = Board(), Wrappers()
    proxy = ProxyOfAll(board)
    wrappers.call_inside(proxy, "log", Told())

    proxy.log(1)
    assert board.logged == [1]
    assert list(vars(board)) == ["logged"]


def test_a_method_that_was_an_objects_own_is_its_own_again():
    board, wrappers = Board(), Wrappers()
    board.log = own = board.logged.extend
    wrappers.call_inside(board, "log", Told())
    board.log([1])
    wrappers.restore()
    assert (board.log, board.logged) == (own, [1])


class Refusing:
    @property
    def log(self):
        raise RuntimeError("closed")


class Slotted:
    __slots__ = ()

    def log(self):
        pass


def test_objects_that_refuse_are_left_alone():
    wrappers = Wrappers()
    for owner in (Refusing(), Slotted()):
        wrappers.call_inside(owner, "log", Told())
    wrappers.restore()


def test_what_somebody_else_has_replaced_since_stays_theirs():
    board, wrappers = Board(), Wrappers()
    wrappers.call_instead(board, "log", lambda original, value: original(-value))
    board.log(1)
    board.log = theirs = board.logged.extend
    wrappers.restore()
    assert (board.log, board.logged) == (theirs, [-1])


def test_a_static_method_of_a_class_is_one_again():
    class Target:
        @staticmethod
        def double(value):
            return 2 * value

    wrappers = Wrappers()
    wrappers.call_instead(Target, "double", lambda original, *values: original(values[-1]) + 1)
    assert Target.double(2) == 5
    wrappers.restore()
    assert (Target().double(2), Target.double(2)) == (4, 4)
