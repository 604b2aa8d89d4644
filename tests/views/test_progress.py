import io

import pytest

from lightning_gpuprof.views.progress import Progress


class Stream(io.StringIO):
    terminal = True

    def isatty(self):
        return self.terminal


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def make(clock):
    def progress(*, terminal):
        stream = Stream()
        stream.terminal = terminal
        return Progress("reading", stream=stream, clock=lambda: clock[0]), stream

    return progress


def test_what_takes_no_two_seconds_shows_nothing(make, clock):
    progress, stream = make(terminal=True)
    clock[0] = 1.9
    progress(50, 100)
    assert stream.getvalue() == ""


def test_a_bar_grows_and_goes_away(make, clock):
    progress, stream = make(terminal=True)
    clock[0] = 2.0
    for done in (50, 50, 100):
        progress(done, 100)
    assert stream.getvalue() == f"\rreading [{'#' * 20}{'.' * 20}]\r\033[K"


def test_a_file_gets_one_line(make, clock):
    progress, stream = make(terminal=False)
    clock[0] = 2.0
    for done in (50, 60, 100):
        progress(done, 100)
    assert stream.getvalue() == "reading\n"
