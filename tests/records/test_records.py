import errno
import os
import sys
from io import FileIO

import msgspec
import numpy as np
import pytest

from lightning_gpuprof.errors import RecordError
from lightning_gpuprof.records.files import find_runs, plugin_dir, record_files, written_whole
from lightning_gpuprof.records.phases import CONSOLE_GROUPS, Phase
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import (
    NOT_MEASURED,
    SCHEMA_VERSION,
    Column,
    Note,
    RunEnd,
    RunStart,
    StepsWindow,
)
from lightning_gpuprof.records.writer import RecordWriter, next_session


def start(session=0, schema_version=SCHEMA_VERSION, phases=("forward", "backward")):
    return RunStart(
        schema_version=schema_version,
        session=session,
        stage="fit",
        started_unix_ns=1,
        rank=0,
        phases=list(phases),
    )


def window(first_step=0, **columns):
    count = len(next(iter(columns.values())))
    columns = {"start_ns": [0] * count, **columns}
    return StepsWindow(
        first_step=first_step,
        count=count,
        total_ns=0,
        phase_total_ns={},
        columns={name.replace("__", "/"): Column.pack(values) for name, values in columns.items()},
    )


def write(run, *records, rank=0):
    writer = RecordWriter(run, rank=rank)
    for record in records:
        writer.write(record)
    writer.flush()
    return writer.path


def test_what_is_written_is_read_back(tmp_path):
    end = RunEnd(status="finished", wall_ns=9, steps=3)
    write(
        tmp_path, start(), window(dur_ns=[5, 6], phase__forward=[2, 3]), window(2, dur_ns=[7]), end
    )

    (session,) = read_run(str(tmp_path))[0].sessions

    assert session.steps == 3
    assert session.columns["dur_ns"].tolist() == [5, 6, 7]
    assert session.end == end


def test_a_host_column_missing_from_a_window_is_zero_and_a_device_column_is_not_measured(tmp_path):
    write(
        tmp_path,
        start(),
        window(dur_ns=[5], phase__forward=[2], device__forward=[1]),
        window(1, dur_ns=[7]),
    )

    (session,) = read_run(str(tmp_path))[0].sessions

    assert session.phase_ns(Phase.FORWARD).tolist() == [2, 0]
    assert session.columns["device/forward"].tolist() == [1, NOT_MEASURED]


def test_a_phase_that_the_session_does_not_measure_is_none_and_a_measured_one_without_column_zero(
    tmp_path,
):
    write(tmp_path, start(), window(dur_ns=[5]))
    (session,) = read_run(str(tmp_path))[0].sessions

    assert session.phase_ns(Phase.CHECKPOINT) is None
    assert session.phase_ns(Phase.BACKWARD).tolist() == [0]


def test_an_incomplete_last_record_is_left_out_and_ended_by_the_next_writer(tmp_path):
    path = write(tmp_path, start(), window(dur_ns=[5]))
    path.write_bytes(path.read_bytes() + b'{"kind":"steps","first')

    cut = read_run(str(tmp_path))[0]
    assert cut.sessions[0].steps == 1
    assert "the last record is incomplete" in cut.warnings[0]

    write(tmp_path, start(session=1), window(dur_ns=[5, 5]))
    mended = read_run(str(tmp_path))[0]
    assert [session.steps for session in mended.sessions] == [1, 2]
    assert "line 3 of rank0.jsonl cannot be read" in mended.warnings[0]


@pytest.mark.parametrize(
    ("unreadable", "message"),
    [
        ({"schema_version": SCHEMA_VERSION + 1}, f"schema {SCHEMA_VERSION + 1}"),
        ({"schema_version": SCHEMA_VERSION - 1}, "Train again to see it"),
        ({"phases": ("forward", "dreaming")}, "does not know (dreaming). Upgrade"),
    ],
)
def test_a_session_of_another_version_is_named_and_left_out(tmp_path, unreadable, message):
    other = window(dur_ns=[6], phase__dreaming=[6])
    write(tmp_path, start(), window(dur_ns=[5]), start(session=1, **unreadable), other)

    records = read_run(str(tmp_path))[0]

    assert [session.steps for session in records.sessions] == [1]
    assert message in records.warnings[0]


def test_foreign_lines_and_files_do_no_harm(tmp_path):
    path = write(tmp_path, start(), window(dur_ns=[5]))
    path.write_bytes(b'{"kind":"else"}\nhello\n' + path.read_bytes())
    (path.parent / "notes.txt").write_text("mine")

    records = read_run(str(tmp_path))[0]

    assert records.sessions[0].steps == 1
    assert len(records.warnings) == 2


def without(record, name):
    """Return a window as a version that had no such column, or damage to its line, would leave."""
    return msgspec.structs.replace(
        record, columns={key: column for key, column in record.columns.items() if key != name}
    )


def test_windows_that_lack_what_every_reader_needs_are_left_out_and_named(tmp_path):
    short = window(2, dur_ns=[3, 4])
    short.columns["flags"] = Column("i4", b"\0\0\0\0")
    damaged = window(4, dur_ns=[5])
    damaged.columns["dur_ns"] = Column("i4", b"\0\0\0")
    old = without(window(5, dur_ns=[6]), "start_ns")
    write(tmp_path, start(), window(dur_ns=[1, 2]), short, damaged, old, window(6, dur_ns=[7]))

    records = read_run(str(tmp_path))[0]

    assert records.sessions[0].columns["dur_ns"].tolist() == [1, 2, 7]
    assert [text.split(":")[0] for text in records.warnings] == [
        f"line {number} of rank0.jsonl cannot be read" for number in (3, 4, 5)
    ]


def test_two_runs_that_write_to_the_same_folder_are_reported_by_writers_and_reader(tmp_path):
    first, second = RecordWriter(tmp_path, rank=0), RecordWriter(tmp_path, rank=0)
    for writer, records in (
        (first, [start(), window(dur_ns=[1, 2])]),
        (second, [start(1), window(dur_ns=[3, 4])]),
        (first, [window(2, dur_ns=[5])]),
        (second, [window(2, dur_ns=[6])]),
    ):
        for record in records:
            writer.write(record)
        writer.flush()

    assert first.shared
    assert second.shared
    first, last = read_run(str(tmp_path))[0].sessions
    assert not first.warnings
    assert "mixes the steps of several runs" in last.warnings[0]


def test_sessions_one_after_the_other_are_not_said_to_be_mixed(tmp_path):
    for session in range(2):
        writer = RecordWriter(tmp_path, rank=0)
        for record in (start(session), window(dur_ns=[1]), window(1, dur_ns=[2])):
            writer.write(record)
            writer.flush()
        assert not writer.shared
    assert not any(session.warnings for session in read_run(str(tmp_path))[0].sessions)


def test_a_missing_run_and_a_run_without_records_say_what_to_do(tmp_path):
    with pytest.raises(RecordError, match="does not exist"):
        read_run(str(tmp_path / "nowhere"))
    with pytest.raises(RecordError, match=r"GpuProfCallback"):
        read_run(str(tmp_path))


def test_sessions_are_numbered_on(tmp_path):
    assert next_session(tmp_path, rank=0) == 0
    write(tmp_path, start(), start(session=1))
    assert next_session(tmp_path, rank=0) == 2


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/full")])
def test_a_pipe_or_a_device_in_the_place_of_records_is_refused_and_never_waited_for(tmp_path, make):
    writer = RecordWriter(tmp_path, rank=0)
    writer.path.parent.mkdir(parents=True)
    make(writer.path)
    assert next_session(tmp_path, rank=0) == 0
    writer.write(Note(step=0, name="n"))
    with pytest.raises(OSError, match=r"rank0\.jsonl"):
        writer.flush()


def test_a_name_that_is_not_utf_8_is_written_with_escapes(tmp_path):
    writer = RecordWriter(tmp_path, rank=0)
    writer.write(start())
    writer.write(Note(step=0, name="n", value={"\udcff": ["na\udcefve", 1]}))
    writer.flush()
    (note,) = read_run(tmp_path)[0].sessions[0].all(Note)
    assert note.value == {"\\udcff": ["na\\udcefve", 1]}


def test_a_failed_flush_keeps_the_lines_for_the_next(tmp_path):
    blocked = tmp_path / "plugins"
    blocked.write_text("a file where a folder must be")
    writer = RecordWriter(tmp_path, rank=0)
    writer.write(start())
    with pytest.raises(OSError, match="plugins"):
        writer.flush()
    blocked.unlink()
    writer.flush()
    assert len(read_run(str(tmp_path))[0].sessions) == 1


def test_what_a_full_disk_took_of_a_flush_is_taken_back(tmp_path, monkeypatch):
    class FullDisk(FileIO):
        def write(self, text):
            super().write(bytes(text[:10]))
            raise OSError(errno.ENOSPC, "No space left on device")

    writer = RecordWriter(tmp_path, rank=0)
    writer.write(start())
    writer.flush()
    before = writer.path.read_bytes()
    writer.close()
    writer.write(start(session=1))
    monkeypatch.setattr("lightning_gpuprof.records.writer.FileIO", FullDisk)
    with pytest.raises(OSError, match="No space"):
        writer.flush()
    monkeypatch.undo()
    assert writer.path.read_bytes() == before

    writer.flush()

    sessions = read_run(str(tmp_path))[0].sessions
    assert [session.start.session for session in sessions] == [0, 1]


class InPieces(FileIO):
    def write(self, text):
        return super().write(bytes(text[:20]))


def interrupted_at(nth, call, file):
    """Call something with Ctrl-C before the nth instruction of a module; return whether it came."""
    left = [nth]

    def look(frame, event, arg):
        if frame.f_code.co_filename != file:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("first", [True, False])
def test_ctrl_c_amid_a_flush_loses_no_record_tears_none_and_doubles_none(
    tmp_path, monkeypatch, first
):
    monkeypatch.setattr("lightning_gpuprof.records.writer.FileIO", InPieces)
    records = [start(), window(dur_ns=[5, 6]), window(2, dur_ns=[7])]
    nth, came = 0, True
    while came:
        nth += 1
        writer = RecordWriter(tmp_path / str(nth), rank=0)
        writer.write(records[0])
        if not first:
            writer.flush()
        writer.write(records[1])
        came = interrupted_at(nth, writer.flush, RecordWriter.flush.__code__.co_filename)
        writer.write(records[2])
        writer.flush()
        writer.close()

        expected = b"".join(msgspec.json.encode(record) + b"\n" for record in records)
        assert writer.path.read_bytes() == expected, nth
        assert not writer.shared, nth
    assert nth > 100


@pytest.mark.parametrize("then", [start(session=1), RunEnd(status="finished", wall_ns=1, steps=9)])
def test_a_deleted_record_file_is_made_anew_with_the_start_of_its_session(tmp_path, then):
    writer = RecordWriter(tmp_path, rank=0)
    writer.write(start())
    writer.flush()
    writer.path.unlink()
    writer.write(then)
    writer.flush()

    (session,) = read_run(str(tmp_path))[0].sessions
    assert then in (session.start, session.end)


def test_runs_are_found_below_a_folder_by_their_records(tmp_path):
    write(tmp_path / "b", start())
    write(tmp_path / "a" / "version_0", start(), rank=1)
    (tmp_path / "c").mkdir()

    runs = list(find_runs(str(tmp_path)))

    assert runs == [str(tmp_path / "a" / "version_0"), str(tmp_path / "b")]
    assert list(record_files(runs[0])) == [1]
    assert plugin_dir(plugin_dir("x")) == plugin_dir("x")


def test_linked_runs_are_found_once_and_no_circle_is_walked(tmp_path):
    write(tmp_path / "elsewhere" / "version_0", start())
    write(tmp_path / "logs" / "version_1", start())
    logs = tmp_path / "logs"
    (logs / "linked").symlink_to(tmp_path / "elsewhere")
    (logs / "twice").symlink_to(tmp_path / "elsewhere")
    (logs / "latest").symlink_to(logs / "version_1")
    (logs / "version_1" / "up").symlink_to(logs)
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_path)

    runs = list(find_runs(str(logs)))

    assert runs == [str(logs / "version_1"), str(logs / "linked" / "version_0")]


@pytest.mark.parametrize("values", [[], [0], [-1, 2**31 - 1], [2**31], [-(2**40), 2**62]])
def test_a_column_keeps_every_int64(values):
    assert Column.pack(values).unpack().tolist() == values
    assert Column.pack(values).unpack().dtype == np.int64


def test_console_groups_cover_every_phase_once():
    grouped = [phase for group in CONSOLE_GROUPS.values() for phase in group]
    assert sorted(grouped) == sorted(Phase)


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_of_a_file_whose_writing_fails_nothing_is_left_and_the_one_before_stays(tmp_path, error):
    path = tmp_path / "whole"
    path.write_text("before")

    def write_half():
        with written_whole(str(path)) as part, open(part, "w") as file:
            file.write("half")
            raise error

    with pytest.raises(type(error)):
        write_half()
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]
    assert path.read_text() == "before"
