from types import SimpleNamespace

import pytest

from lightning_gpuprof.session.hooks import BatchCalls, Hooks, add_hook, drop_hook

HOOK = "on_train_batch_end"


@pytest.fixture
def host():
    return SimpleNamespace()


def call(host, times):
    for number in range(1, times + 1):
        hook = getattr(host, HOOK)
        if hook is not None:
            hook(number)


def test_a_spaced_method_is_called_with_the_last_of_so_many_calls(host):
    always, third, fifth = [], [], []
    add_hook(host, HOOK, always.append)
    add_hook(host, HOOK, third.append, every=3)
    add_hook(host, HOOK, fifth.append, every=5)

    call(host, 11)

    assert always == list(range(1, 12))
    assert third == [3, 6, 9]
    assert fifth == [5, 10]


def test_one_that_goes_in_the_call_in_which_another_is_due_does_not_stop_it(host):
    visits, spaced = [], []
    add_hook(host, HOOK, spaced.append, every=2)

    def visit(number):
        visits.append(number)
        if number == 2:
            drop_hook(host, HOOK, visit)

    add_hook(host, HOOK, visit)
    call(host, 6)

    assert visits == [1, 2]
    assert spaced == [2, 4, 6]


def test_a_hook_that_nothing_is_left_of_is_passed_over(host):
    def one(*_):
        raise AssertionError("it was dropped")

    add_hook(host, HOOK, one)
    add_hook(host, HOOK, one, every=2)
    drop_hook(host, HOOK, one)

    assert getattr(host, HOOK) is None


def test_hooks_added_together_call_once_each_until_they_are_dropped(host):
    begun, ended = [], []
    hooks = Hooks({"on_train_batch_start": begun.append, HOOK: ended.append})
    hooks.add(host)
    hooks.add(host)

    host.on_train_batch_start(1)
    call(host, 1)

    assert (begun, ended) == ([1], [1])
    assert (hooks.drop(), hooks.drop()) == (True, False)
    assert (host.on_train_batch_start, host.on_train_batch_end) == (None, None)


def counted(host, calls, batches):
    """Run batches that somebody else counts; return those that had a hook."""
    with_hook = []
    for number in range(1, batches + 1):
        calls.left -= 1
        if calls.left == 0:
            calls.ring()
        if getattr(host, HOOK, None) is not None:
            with_hook.append(number)
            getattr(host, HOOK)(number)
    return with_hook


def test_where_batches_are_counted_anyway_there_is_a_hook_for_those_that_are_due_alone(host):
    calls, third, fifth = BatchCalls.counted_by(host), [], []
    add_hook(host, HOOK, third.append, every=3)
    add_hook(host, HOOK, fifth.append, every=5)

    assert counted(host, calls, 11) == [3, 5, 6, 9, 10]
    assert third == [3, 6, 9]
    assert fifth == [5, 10]


def test_what_needs_no_arguments_is_called_without_a_hook_but_beside_one_that_is_due(host):
    calls, bare, other = BatchCalls.counted_by(host), [], []
    calls.add(lambda: bare.append(calls.batches), 3, bare=True)
    calls.add(lambda *args: other.append(calls.batches), 5)
    assert counted(host, calls, 15) == [5, 10, 15]
    assert bare == [3, 6, 9, 12, 15]
    assert other == [5, 10, 15]


def test_what_is_dropped_is_not_called_where_batches_are_counted(host):
    calls, third, fifth = BatchCalls.counted_by(host), [], []
    add_hook(host, HOOK, third.append, every=3)
    add_hook(host, HOOK, fifth.append, every=5)
    counted(host, calls, 4)
    drop_hook(host, HOOK, third.append)

    assert counted(host, calls, 6) == [1, 6]


def test_a_hook_counts_on_where_the_one_that_did_has_failed(host):
    calls, seen = BatchCalls.counted_by(host), []
    add_hook(host, HOOK, seen.append, every=3)
    counted(host, calls, 4)
    calls.hand_over()

    call(host, 5)

    assert seen == [3, 2, 5]
