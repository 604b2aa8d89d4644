"""A record file that grows is read on from where it was read to, with the same result."""

import io
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest
from made_records import make_session

from lightning_gpuprof.records import reader
from lightning_gpuprof.records.files import FileSystem, record_files
from lightning_gpuprof.records.reader import RecordFile, RunReader, parse_records
from lightning_gpuprof.records.schema import Note, RunStart
from lightning_gpuprof.records.writer import RecordWriter

RANKS = 6
MS = 1_000_000


def lines(*sessions):
    """Return the lines of a file with these sessions."""
    return [msgspec.json.encode(record) + b"\n" for session in sessions for record in session]


@pytest.fixture
def content():
    """Two sessions of several windows, with damage: what every reading must agree on."""
    first = make_session({"forward": 3 * MS}, steps=30, window=10, records=[Note(step=3, name="n")])
    second = make_session(
        {"forward": np.arange(1, 26) * MS}, steps=25, window=5, session=1,
        columns={"device_dur": 7}, parts={"callbacks/Other": 5},
    )  # fmt: skip
    written = lines(first, second)
    later = [line.replace(b'"device_dur"', b'"device_sum"') for line in written[-2:-1]]
    written[3:3] = [b"no record\n", b"\n"]
    written[9:9] = [b'{"kind":"note","step":-4,"name":"x"}\n']
    broken = [line.replace(b'"count":5', b'"count":4') for line in written if b'"count":5' in line]
    return b"".join([*written[:-1], *later, *broken[:1], written[-1]])


def same(one, other):
    assert (one.rank, one.warnings, one.newer) == (other.rank, other.warnings, other.newer)
    assert len(one.sessions) == len(other.sessions)
    for mine, theirs in zip(one.sessions, other.sessions, strict=True):
        assert (mine.start, mine.records, mine.warnings) == (
            theirs.start, theirs.records, theirs.warnings,
        )  # fmt: skip
        assert [*mine.columns] == [*theirs.columns]
        for name, column in mine.columns.items():
            assert column.tolist() == theirs.columns[name].tolist(), name


def test_what_is_read_on_is_what_is_read_as_a_whole_wherever_the_file_ended(content):
    whole = parse_records(0, io.BytesIO(content), name="rank0.jsonl")
    assert sum(session.steps for session in whole.sessions) > 40
    assert len(whole.warnings) >= 3
    random = np.random.default_rng(0)
    for _ in range(60):
        growing = RecordFile(0, "rank0.jsonl")
        for end in sorted(random.integers(0, len(content), random.integers(1, 12)).tolist()):
            part = growing.read(io.BytesIO(content[:end]))
            same(part, parse_records(0, io.BytesIO(content[:end]), name="rank0.jsonl"))
        same(growing.read(io.BytesIO(content)), whole)
        same(growing.read(io.BytesIO(content)), whole)


@pytest.mark.parametrize("cut", [0, 1])
def test_a_line_without_its_end_is_read_when_it_has_it(content, cut):
    at = content.index(b"\n", 200)
    growing = RecordFile(0, "rank0.jsonl")
    growing.read(io.BytesIO(content[: at + cut]))
    same(
        growing.read(io.BytesIO(content)),
        parse_records(0, io.BytesIO(content), name="rank0.jsonl"),
    )


def test_another_file_of_the_same_name_is_read_from_its_beginning(content):
    growing = RecordFile(0, "rank0.jsonl")
    growing.read(io.BytesIO(content))
    other = b"".join(lines(make_session({"forward": 5 * MS}, steps=4)))
    for replaced in (other, other + content, content):
        expected = parse_records(0, io.BytesIO(replaced), name="rank0.jsonl")
        same(growing.read(io.BytesIO(replaced)), expected)


class Counting(FileSystem):
    """Local files, with the bytes that were read of them."""

    def __init__(self):
        self.read = 0

    def read_bytes(self, path, most=1 << 28):
        self.read += 1
        return super().read_bytes(path, most)


@pytest.fixture
def decoded(monkeypatch):
    """The lines that were decoded."""
    texts = []
    original = reader.read_record
    monkeypatch.setattr(reader, "read_record", lambda line: (texts.append(line), original(line))[1])
    return texts


def many_ranks(tmp_path, steps=40):
    """Write a live run of several ranks; return the writers, and the last window of each."""
    left = {}
    for rank in range(RANKS):
        *records, last = make_session(
            {"forward": 3 * MS}, steps=steps, window=10, rank=rank, world_size=RANKS, end=False
        )
        writer = RecordWriter(str(tmp_path), rank=rank)
        for record in records:
            writer.write(record)
        writer.flush()
        left[rank] = writer, last
    return left


@pytest.mark.parametrize("remote", [False, True])
def test_a_refresh_decodes_the_added_line_alone_and_copies_no_other_rank(tmp_path, decoded, remote):
    left = many_ranks(tmp_path)
    fs = Counting() if remote else reader.LOCAL
    growing = RunReader(str(tmp_path), fs)
    before = growing.read()
    assert len(decoded) == RANKS * (1 + 3)
    assert growing.read() == before
    assert len(decoded) == RANKS * (1 + 3)

    writer, window = left[2]
    writer.write(window)
    writer.flush()
    after = growing.read()

    assert len(decoded) == RANKS * (1 + 3) + 1
    if remote:
        assert fs.read == RANKS + 1
    assert all(after[rank] is before[rank] for rank in after if rank != 2)
    assert before[2].sessions[0].steps == 30
    assert after[2].sessions[0].steps == 40
    assert after[2].sessions[0].columns["dur_ns"].tolist() == [3 * MS] * 40


def test_a_growing_column_is_copied_a_few_times_however_often_it_grows(tmp_path):
    *records, _ = make_session({"forward": 3 * MS}, steps=2_000, window=10)
    writer, growing, arrays = RecordWriter(str(tmp_path), rank=0), RunReader(str(tmp_path)), []
    for record in records:
        writer.write(record)
        writer.flush()
        session = growing.read()[0].sessions[0]
        if session.steps:
            arrays.append(session.columns["dur_ns"])
    copies = sum(not np.shares_memory(one, other) for one, other in pairwise(arrays))
    assert len(arrays) == 200
    assert copies <= 30
    assert growing.num_bytes <= 1.3 * sum(c.nbytes for c in session.columns.values()) + 2_000
    assert not arrays[0].flags.writeable
    assert arrays[0].tolist() == [3 * MS] * 10


def test_a_rank_whose_file_goes_is_forgotten(tmp_path):
    many_ranks(tmp_path)
    growing = RunReader(str(tmp_path))
    assert len(growing.read()) == RANKS
    Path(record_files(str(tmp_path))[3]).unlink()
    assert sorted(growing.read()) == [0, 1, 2, 4, 5]


def test_a_new_session_of_another_schema_is_said_when_it_is_appended():
    begun = b"".join(lines(make_session({"forward": 3 * MS}, steps=4)))
    growing = RecordFile(0, "rank0.jsonl")
    assert not growing.read(io.BytesIO(begun)).newer
    start = RunStart(schema_version=99, session=1, stage="fit", started_unix_ns=0, rank=0)
    records = growing.read(io.BytesIO(begun + msgspec.json.encode(start) + b"\n"))
    assert "99" in records.newer
    assert len(records.sessions) == 1
