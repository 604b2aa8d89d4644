"""Long records of many ranks are read by their rollups, with the results of reading all of them."""

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from made_records import make_session

from lightning_gpuprof.analysis.run.ranks import rank_steps, rolled_waits
from lightning_gpuprof.analysis.run.run import analyze_run
from lightning_gpuprof.records import rolled, rolled_run, rollup
from lightning_gpuprof.records.facts import CoreWait
from lightning_gpuprof.records.files import record_files
from lightning_gpuprof.records.phases import EXCHANGE, Phase
from lightning_gpuprof.records.reader import RunReader
from lightning_gpuprof.records.schema import Memory, ProfilerCycle, RunStart, StepsWindow
from lightning_gpuprof.records.writer import RecordWriter
from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.report.charts.query import Query
from lightning_gpuprof.report.charts.run_views import run_view

MS = 1_000_000
RANKS, STEPS, LATE = 4, 2_600, 2
_MEANS = {True: (), False: ("mean_ns", "phase_mean_ns", "exchange_ns")}
SHARED = Phase.BACKWARD.value


def rank_session(
    rank, *, steps=STEPS, world_size=RANKS, session=0, records=(), since=0, until=None, **options
):
    """Return a rank's records of a training in which one rank is late in forward."""
    random = np.random.default_rng(rank)
    forward = random.normal(20 * MS, MS / 5, steps).astype(np.int64)
    delay = np.zeros(steps, dtype=np.int64)
    delay[since:until] = 8 * MS
    forward += delay if rank == LATE else 0
    exchange = MS + (0 if rank == LATE else delay)
    exchange = np.broadcast_to(exchange, steps) + np.zeros(steps, dtype=np.int64)
    flags = np.zeros(steps, dtype=np.int64)
    flags[:3] = 1
    return make_session(
        {"data_wait": MS, "forward": forward, "backward": 30 * MS + exchange},
        steps=steps, flags=flags, parts={f"{SHARED}/{EXCHANGE}": exchange}, rank=rank,
        world_size=world_size, session=session, host=f"node{rank // 2}", records=records, **options,
    )  # fmt: skip


def write(run, ranks=RANKS, **options):
    for rank in range(ranks):
        write_rank(run, rank, rank_session(rank, **options))


def write_rank(run, rank, records, *, flushed=7):
    """Write records as the callback does, some at a time."""
    writer = RecordWriter(run, rank=rank)
    for number, record in enumerate(records):
        writer.write(record)
        if number % flushed == 0:
            writer.flush()
    writer.flush()
    writer.close()


@pytest.fixture
def run(tmp_path):
    write(tmp_path)
    return tmp_path


@pytest.fixture
def few_cells(monkeypatch):
    """Compare ranks by few steps."""
    for module in (rolled_run, rank_steps, rolled_waits):
        monkeypatch.setattr(module, "COMPARED_CELLS", RANKS * 400)


def raw(run):
    return RunReader(str(run)).read()


def by_rollups(run):
    return RunReader(str(run), most_raw_bytes=1).read()


def rollup_of(run, rank):
    return Path(rollup.rollup_path(record_files(str(run))[rank]))


def same_ranks(run, *, by_all_steps=True):
    """Check that both ways of reading give the same ranks, but for medians; return them.

    Where ranks have other steps, means are over all steps of each, and not over those of all ranks.
    """
    whole, short = analyze_run(raw(run), {}), analyze_run(by_rollups(run), {})
    assert short.ranks.rolled_steps is not None
    assert short.ranks.waits == whole.ranks.waits
    assert short.ranks.difference == whole.ranks.difference
    views = zip(whole.ranks.views, short.ranks.views, strict=True)
    for view, rolled_view in views:
        assert rolled_view.median_ns == pytest.approx(view.median_ns, rel=0.01)
        steady = {name: getattr(view, name) for name in ("median_ns", *_MEANS[by_all_steps])}
        assert replace(rolled_view, **steady) == view
    for name in ("wall", "steps", "phases", "account", "memory", "facts", "warnings"):
        assert getattr(short, name) == getattr(whole, name), name
    return short.ranks


def test_results_are_those_of_reading_all_steps(run):
    ranks = same_ranks(run)
    assert ranks.waits.late == (LATE,)
    assert list(ranks.waits.causes) == [Phase.FORWARD]


def test_only_the_lowest_rank_holds_all_its_steps(run, few_cells):
    ranks = by_rollups(run)
    steps = {rank: records.sessions[0].steps for rank, records in ranks.items()}
    assert steps[0] == STEPS
    assert 400 <= steps[1] <= 400 * 1.25 + rollup.STRETCH_STEPS + 50
    assert ranks[1].sessions[0].recorded_steps == STEPS
    assert ranks[1].sessions[0].columns["step"][-1] == STEPS - 1


def test_few_records_are_read_whole(run):
    assert all(
        session.rollup is None for records in raw(run).values() for session in records.sessions
    )


def test_a_rank_is_read_whole_when_it_is_asked_for(run):
    reader = RunReader(str(run), most_raw_bytes=1)
    assert reader.read()[1].sessions[0].rollup is not None
    assert reader.whole(1).sessions[0].steps == STEPS


def test_a_single_rank_writes_no_rollup(tmp_path):
    write(tmp_path, ranks=1, world_size=1)
    assert not rollup_of(tmp_path, 0).exists()


def test_a_rollup_is_small(run):
    for rank, path in record_files(str(run)).items():
        assert rollup_of(run, rank).stat().st_size < Path(path).stat().st_size / 30


def test_sums_are_those_of_steady_steps(run):
    (session,) = raw(run)[1].sessions
    (short,) = by_rollups(run)[1].sessions
    steady = session.columns["flags"] == 0
    assert int(short.rollup.steady.sum()) == steady.sum() == STEPS - 3
    for name in ("dur_ns", "phase/forward", f"part/{SHARED}/{EXCHANGE}"):
        assert short.rollup.sums[name].sum() == session.columns[name][steady].sum(), name
    first, last = short.rollup.first_step, short.rollup.last_step
    assert first[0] == 0
    assert last[-1] == STEPS - 1
    assert (first[1:] == last[:-1] + 1).all()


def remove(path):
    path.unlink()


def half(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def first_half_of_lines(path):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: len(lines) // 2]))


def no_json(path):
    path.write_bytes(b"\x00" * 400 + b"\n" + path.read_bytes())


def of_another_version(path):
    path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version":0'))


def of_another_session(path):
    path.write_bytes(path.read_bytes().replace(b'"session_crc":', b'"session_crc":1'))


def negative(path):
    path.write_bytes(path.read_bytes().replace(b'"steady":', b'"steady":-'))


def too_large(path):
    path.write_bytes(path.read_bytes().replace(b'"dur_ns":', b'"dur_ns":99999999999'))


def displaced(path):
    stretches = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    stretches[1]["start"] += 10
    path.write_bytes(b"".join(msgspec.json.encode(stretch) + b"\n" for stretch in stretches))


def repeated(path):
    path.write_bytes(path.read_bytes() * 2)


def beyond_the_end(path):
    lines = path.read_bytes().splitlines(keepends=True)
    stretch = msgspec.json.decode(lines[-1])
    path.write_bytes(b"".join(lines[:-1]) + msgspec.json.encode(stretch | {"end": 10**9}) + b"\n")


@pytest.mark.parametrize(
    "damage",
    [
        remove, half, first_half_of_lines, no_json, of_another_version, of_another_session,
        negative, too_large, displaced, repeated, beyond_the_end,
    ],
)  # fmt: skip
def test_what_a_rollup_lacks_is_folded_from_the_records(run, damage):
    for rank in (0, LATE):
        damage(rollup_of(run, rank))
    assert same_ranks(run).waits.late == (LATE,)
    assert not any(records.warnings for records in by_rollups(run).values())


def test_a_rollup_of_another_run_is_not_believed(run, tmp_path):
    other = tmp_path / "other"
    write_rank(other, 1, rank_session(1, started_unix_ns=7, steps=STEPS))
    rollup_of(run, 1).write_bytes(rollup_of(other, 1).read_bytes())
    same_ranks(run)


@pytest.mark.parametrize("rolled_up", [True, False])
def test_damaged_records_are_named_as_when_all_are_read(run, rolled_up):
    path = Path(record_files(str(run))[3])
    lines = path.read_bytes().splitlines(keepends=True)
    lines[20] = lines[20].replace(b'"count":50', b'"count":49')
    lines[30] = b"no record\n"
    path.write_bytes(b"".join([*lines[:-1], lines[-1][:-20]]))
    if not rolled_up:
        rollup_of(run, 3).unlink()
    named, all_named = by_rollups(run)[3].warnings, raw(run)[3].warnings
    assert len(all_named) == 3
    # Lines that the rollup has sums of are not read again; an incomplete record is named.
    assert named == all_named if not rolled_up else named[-1] == all_named[-1]


def test_a_rank_that_was_killed_and_one_that_joined_late_are_compared_by_the_steps_of_all(tmp_path):
    for rank in range(RANKS):
        records = rank_session(rank)
        windows = [record for record in records if isinstance(record, StepsWindow)]
        if rank == 1:
            records = [records[0], *windows[:40]]
        if rank == 3:
            records = [records[0], *windows[20:], records[-1]]
        write_rank(tmp_path, rank, records)
    ranks = same_ranks(tmp_path, by_all_steps=False)
    assert ranks.waits.late == (LATE,)
    assert ranks.rolled_steps == (1_000, 1_999)
    assert [view.status for view in ranks.views] == ["finished", "open", "finished", "finished"]


def test_sessions_are_kept_apart(tmp_path):
    write(tmp_path)
    write(tmp_path, session=1, steps=900)
    assert same_ranks(tmp_path).rolled_steps == (0, 899)
    first = analyze_run(by_rollups(tmp_path), {}, session=0)
    assert first.ranks.waits == analyze_run(raw(tmp_path), {}, session=0).ranks.waits


def test_a_session_without_steps_has_no_ranks_to_compare(run):
    for rank in range(RANKS):
        records = rank_session(rank, session=1, steps=10)
        write_rank(run, rank, [record for record in records if not isinstance(record, StepsWindow)])
    ranks = analyze_run(by_rollups(run), {}, session=1).ranks
    assert ranks.waits is None
    assert [(view.steps, view.mean_ns) for view in ranks.views] == [(0, None)] * RANKS


def test_a_resumed_run_whose_first_process_was_killed_is_read_whole(tmp_path):
    for rank in range(RANKS):
        records = rank_session(rank, steps=700)
        writer = RecordWriter(tmp_path, rank=rank)
        for record in records[:-1]:
            writer.write(record)
        writer.flush()  # never closed: what followed the last stretch is in no rollup
        with open(record_files(str(tmp_path))[rank], "ab") as file:
            file.write(b'{"kind":"steps","first')
    write(tmp_path, session=1, steps=900)
    sessions = by_rollups(tmp_path)[1].sessions
    assert [session.recorded_steps for session in sessions] == [700, 900]
    same_ranks(tmp_path)


def test_records_of_a_rank_are_all_rare_and_the_last_of_frequent_ones(tmp_path):
    memory = Memory(
        step=0, allocated_bytes=1, reserved_bytes=1, peak_allocated_bytes=1, peak_reserved_bytes=1,
        total_bytes=10,
    )  # fmt: skip
    cycles = [ProfilerCycle(cycle=i, first_step=i, last_step=i, trace_file=f"{i}") for i in (0, 1)]
    waits = [CoreWait(wall_ns=10 * i, queued_ns=i) for i in (1, 2, 3)]
    records = [memory, *cycles, *waits, msgspec.structs.replace(memory, step=9)]
    write(tmp_path, records=records)
    (session,) = by_rollups(tmp_path)[1].sessions
    assert session.all(ProfilerCycle) == cycles
    assert session.all(CoreWait) == waits[-1:]
    assert [record.step for record in session.all(Memory)] == [9]
    assert session.end.status == "finished"


def test_a_growing_run_is_read_on_with_the_same_result(tmp_path, few_cells):
    reader = RunReader(str(tmp_path), most_raw_bytes=1)
    sessions = {rank: rank_session(rank) for rank in range(RANKS)}
    writers = {rank: RecordWriter(tmp_path, rank=rank) for rank in range(RANKS)}
    random = np.random.default_rng(0)
    written = dict.fromkeys(range(RANKS), 0)
    for rank in range(RANKS):
        write_some(writers[rank], sessions[rank], written, rank, 9)
    while min(written.values()) < len(sessions[0]):
        write_some(writers[rank := int(random.integers(RANKS))], sessions[rank], written, rank, 3)
        read_on, anew = reader.read(), by_rollups(tmp_path)
        for number in range(RANKS):
            (one,), (other,) = read_on[number].sessions, anew[number].sessions
            assert one.records == other.records
            assert one.recorded_steps == other.recorded_steps
            assert dict(one.columns).keys() == dict(other.columns).keys()
            for name, column in one.columns.items():
                assert column.tolist() == other.columns[name].tolist()
    same_ranks(tmp_path)


def write_some(writer, records, written, rank, count):
    for record in records[written[rank] : written[rank] + count]:
        writer.write(record)
    writer.flush()
    written[rank] += count


def test_ranks_are_not_compared_again_before_all_have_more_steps(run):
    reader = RunReader(str(run), most_raw_bytes=1)
    before = analyze_run(reader.read(), {}).ranks
    more = rank_session(1, steps=STEPS + 50)
    window = [record for record in more if isinstance(record, StepsWindow)][-1]
    write_rank(run, 1, [window])
    after = analyze_run(reader.read(), {}).ranks
    assert after.waits is before.waits
    for rank in (0, 2, 3):
        more = rank_session(rank, steps=STEPS + 50)
        write_rank(run, rank, [record for record in more if isinstance(record, StepsWindow)][-1:])
    last = analyze_run(reader.read(), {}).ranks
    assert last.rolled_steps[1] == STEPS + 49


def test_a_record_file_that_began_anew_has_a_rollup_of_its_own(run):
    path = Path(record_files(str(run))[1])
    reader = RunReader(str(run), most_raw_bytes=1)
    reader.read()
    path.unlink()
    write_rank(run, 1, rank_session(1, steps=1_200, started_unix_ns=5))
    assert reader.read()[1].sessions[0].recorded_steps == 1_200
    assert b'"start":0' in rollup_of(run, 1).read_bytes()


def test_a_rollup_that_cannot_be_written_stops_nothing(tmp_path):
    (tmp_path / "plugins" / "gpuprof" / "rank1.rollup").mkdir(parents=True)
    write(tmp_path)
    assert raw(tmp_path)[1].sessions[0].steps == STEPS
    rollup_of(tmp_path, 1).rmdir()
    same_ranks(tmp_path)


def test_files_without_rollups_are_folded_in_pieces(run, monkeypatch):
    monkeypatch.setattr(rolled, "_PIECE", 9_000)
    for rank in range(RANKS):
        rollup_of(run, rank).unlink()
    assert same_ranks(run).waits.late == (LATE,)


def test_a_session_of_another_schema_is_left_out(tmp_path):
    write(tmp_path)
    records = rank_session(1, session=1, steps=600)
    newer = msgspec.structs.replace(records[0], schema_version=99)
    assert isinstance(newer, RunStart)
    write_rank(tmp_path, 1, [newer, *records[1:]])
    short, whole = by_rollups(tmp_path)[1], raw(tmp_path)[1]
    assert (short.newer, short.warnings) == (whole.newer, whole.warnings)
    assert [session.start.session for session in short.sessions] == [0]
    same_ranks(tmp_path)


LONG = 12_000


@pytest.mark.parametrize(
    ("since", "until", "span"),
    [
        (0, None, (None, None)),
        (6_000, None, (6_000, None)),
        (4_000, 8_000, (4_000, 7_999)),
        (LONG - 200, None, (LONG - 200, None)),
    ],
)
def test_since_when_a_rank_is_late_is_known_beyond_the_steps_that_are_compared(
    tmp_path, few_cells, since, until, span
):
    write(tmp_path, steps=LONG, since=since, until=until)
    ranks = analyze_run(by_rollups(tmp_path), {}).ranks
    assert ranks.rolled_steps[0] > LONG - 1_500
    waits = ranks.waits
    assert (waits.late, waits.sure_ns is not None) == ((LATE,), True)
    assert list(waits.causes) == [Phase.FORWARD]
    # The first and the last stretch of a past delay are only partly late.
    assert waits.delay_ns == pytest.approx(8 * MS, rel=0.05 if until is None else 0.25)
    begin, end = span
    bounds = (None, None) if waits.span is None else (waits.span.since, waits.span.until)
    for bound, wanted in zip(bounds, (begin, end), strict=True):
        if wanted is None:
            assert bound is None
        else:  # to a stretch
            assert bound == pytest.approx(wanted, abs=rollup.STRETCH_STEPS)
    late_steps = (LONG if end is None else end + 1) - (begin or 0)
    assert waits.steps == pytest.approx(late_steps, abs=2 * rollup.STRETCH_STEPS)


def test_nobody_is_late_in_long_clean_records(tmp_path, few_cells):
    write(tmp_path, steps=LONG, since=LONG)
    waits = analyze_run(by_rollups(tmp_path), {}).ranks.waits
    assert (waits.sure_ns, waits.span) == (None, None)


def test_the_tab_shows_all_steps_of_a_rank_that_is_asked_for(run):
    loaded = LoadedRun(str(run), reader=RunReader(str(run), most_raw_bytes=0))
    assert loaded.ranks[1].sessions[0].rollup is not None
    assert loaded.session(Query({"rank": "1"})).steps == STEPS
    assert loaded.session(Query({"rank": "1"})) is loaded.session(Query({"rank": "1"}))
    header = run_view(loaded, Query({}))
    assert [rank.sessions[0].steps for rank in header.ranks] == [STEPS] * RANKS
    texts = str(loaded.document(Query({})))
    assert "from the rollups of the ranks' records" in texts
