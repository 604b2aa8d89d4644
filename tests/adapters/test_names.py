"""Names that a version of Lightning lacks are said once, and the run goes on without them."""

from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.records.schema import Note
from lightning_gpuprof.timing import run


def noted(planted, timer):
    notes = planted.sessions(timer)[0].session.all(Note)
    return [note for note in notes if note.name == "missing_names"]


def test_nothing_is_missing_in_this_lightning(planted, clock, timer, tmp_path):
    planted.fit(timer, clock, tmp_path)
    assert noted(planted, timer) == []


def test_a_missing_name_is_said_once(planted, clock, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(run, "PRIVATE", ("fit_loop._gone", "_active_loop"))
    timer = PhaseTimer(window=4, clock=clock)
    with caplog.at_level("INFO", logger="lightning_gpuprof"):
        planted.fit(timer, clock, tmp_path)
    (note,) = noted(planted, timer)
    assert list(note.value) == ["fit_loop._gone"]
    lines = [record.getMessage() for record in caplog.records]
    assert [line for line in lines if "fit_loop._gone" in line] == [f"[PROFILE] {note.message}"]
