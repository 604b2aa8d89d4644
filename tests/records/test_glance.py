import os
import socket

from msgspec.structs import replace

from lightning_gpuprof.records.files import record_files
from lightning_gpuprof.records.glance import glance, process_lives
from lightning_gpuprof.records.schema import SCHEMA_VERSION, Column


def look(folder):
    return glance(record_files(str(folder))[0])


def test_the_ends_of_a_long_file_tell_its_steps_and_its_end(made_runs, tmp_path):
    made_runs.demo_run(tmp_path, steps=5_000)
    ends = look(tmp_path)
    assert (ends.steps, ends.end.status, ends.start.stage) == (5_000, "finished", "fit")


def test_an_incomplete_last_line_hides_neither_steps_nor_start(made_runs, tmp_path):
    made_runs.live_run(tmp_path)
    ends = look(tmp_path)
    assert (ends.steps, ends.end) == (150, None)
    assert ends.last_unix_ns > ends.start.started_unix_ns


def test_the_end_of_an_earlier_session_is_not_taken_for_the_last_ones(made_runs, tmp_path):
    made_runs.write_run(tmp_path, [made_runs.run_start(), made_runs.run_end(0)])
    made_runs.write_run(tmp_path, [made_runs.run_start(session=1)])
    assert look(tmp_path).end is None


def test_a_damaged_window_is_no_time(made_runs, tmp_path):
    start = made_runs.run_start()
    [window] = made_runs.windows(2, {made_runs.Phase.FORWARD: 1.0})
    window.columns["start_ns"] = Column("i4", b"\0\0\0")
    made_runs.write_run(tmp_path, [start, window])
    assert look(tmp_path).last_unix_ns == start.started_unix_ns


def test_a_newer_schema_is_known_by_its_number(made_runs, tmp_path):
    made_runs.newer_run(tmp_path)
    assert look(tmp_path).start.schema_version == SCHEMA_VERSION + 1


def test_whether_a_process_lives_is_not_asked_on_windows(made_runs, tmp_path, monkeypatch):
    made_runs.live_run(tmp_path)
    here = replace(look(tmp_path).start, pid=os.getpid(), host=socket.gethostname())
    assert process_lives(here) is True
    with monkeypatch.context() as patch:
        patch.setattr(os, "name", "nt")  # there os.kill(pid, 0) would interrupt the training
        patch.setattr(os, "kill", None)
        assert process_lives(here) is None
