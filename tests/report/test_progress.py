import io

import pytest

from lightning_gpuprof.report.progress import Progress

BAR = f"\rreading [{'#' * 20}{'.' * 20}]\r\033[K"


@pytest.mark.parametrize(
    ("terminal", "after_s", "steps", "shown"),
    [
        (True, 1.9, (50,), ""),  # what takes no two seconds
        (True, 2.0, (50, 50, 100), BAR),  # it grows and goes away
        (False, 2.0, (50, 60, 100), "reading\n"),
    ],
)
def test_a_terminal_gets_a_bar_and_a_file_one_line(monkeypatch, terminal, after_s, steps, shown):
    now, stream = [0.0], io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    progress = Progress("reading", stream=stream, clock=lambda: now[0])
    now[0] = after_s
    for done in steps:
        progress(done, 100)
    assert stream.getvalue() == shown
