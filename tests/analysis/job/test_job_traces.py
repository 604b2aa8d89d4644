"""Ranks' traces with known waits: three ranks, steps of 1 ms, a collective of 100 us in each."""

import gzip
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from job_traces import collective, host, kernel, step, write_rank

from lightning_gpuprof.analysis.job.read_job import job_files, read_job
from lightning_gpuprof.analysis.trace_analysis import analyze_file
from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.traces.kineto.collectives import JobRank, job_rank

DATA = Path(__file__).parents[2] / "data" / "job"
"""Recorded by torch 2.13 on a CPU: three steps of a small model under DDP."""
LATE_US = {0: 0, 1: 200, 2: 50}
"""How much later than rank 0 each rank computes until, in each step."""
STEPS, STEP_US, WIRE_US = 4, 1000, 100


def rank_events(rank, *, steps=range(STEPS), wire_us=WIRE_US, **options):
    """Return steps of a rank: it computes, waits for the last rank, and reduces."""
    latest, late = max(LATE_US.values()), LATE_US[rank]
    events = []
    for number in steps:
        begin = 100 + number * STEP_US
        compute = 300 + late
        events += [step(number, begin, STEP_US - 50)]
        events += kernel(begin + 10, compute, number=10 * number + 1)
        events += collective(
            begin + 10 + compute,
            latest - late + wire_us,
            number=10 * number + 2,
            **options,
        )
    return events


@pytest.fixture
def job(tmp_path):
    for rank in range(3):
        write_rank(tmp_path, rank, rank_events(rank), offset_us=3e6 * rank)
    return tmp_path


def read(folder):
    files = job_files([str(folder)])
    assert files is not None
    return read_job(files, processes=1)


def test_waits_are_differences_of_durations_whatever_the_clocks_say(job):
    found = read(job)
    (row,) = found.collectives
    assert (row.kind, row.group, row.group_size, row.ranks) == (
        "all_reduce",
        "0 [0, 1, 2]",
        3,
        3,
    )
    assert (row.count, row.matched) == (STEPS, STEPS)
    assert row.wire_ns == STEPS * WIRE_US * 1000
    # Rank 0 waits 200 us, rank 2 150, rank 1 none.
    assert [rank.waited_ns for rank in found.ranks] == [800_000, 0, 600_000]
    assert row.waited_ns == round((800_000 + 600_000) / 3)
    assert [rank.last_count for rank in found.ranks] == [0, STEPS, 0]
    (delay,) = found.delays
    assert (delay.rank, delay.count, delay.waited_ns) == (1, STEPS, 700_000)
    assert delay.cause == "compute"
    assert found.missing == found.warnings == ()


def test_bandwidths_are_those_of_the_time_on_the_wire(job):
    (row,) = read(job).collectives
    assert row.num_bytes == STEPS * 4_000_000
    assert row.algorithm_bytes_per_s == pytest.approx(4_000_000 / 100e-6)
    assert row.bus_bytes_per_s == pytest.approx(4_000_000 / 100e-6 * 2 * 2 / 3)


def test_a_rank_alone_has_the_times_that_analyze_gives(job):
    for rank in read(job).ranks:
        alone = analyze_file(str(job / rank.file)).gpu
        assert rank.device.busy_ns == alone.busy_ns
        assert rank.device.exposed_comm_ns == alone.exposed_comm_ns
        assert rank.device.idle_ns == alone.idle_ns


def test_a_missing_rank_is_named_and_its_waits_are_not_known(job):
    (job / "rank1.pt.trace.json.gz").unlink()
    found = read(job)
    assert found.missing == (1,)
    (row,) = found.collectives
    # Both wait for rank 1: what rank 0 waits longer than rank 2 is all that can be told.
    assert (row.ranks, row.wire_ns) == (2, STEPS * 250_000)
    assert [rank.waited_ns for rank in found.ranks] == [200_000, 0]


def test_a_step_that_a_rank_lacks_is_not_compared(job):
    write_rank(job, 2, rank_events(2, steps=range(1, STEPS)))
    found = read(job)
    (row,) = found.collectives
    assert (row.count, row.matched) == (STEPS, STEPS - 1)
    assert found.delays[0].count == STEPS - 1
    assert any(
        warning.startswith("Collectives that are not in the traces of all ranks of their group: 1.")
        for warning in found.warnings
    )


def test_a_step_of_which_a_rank_recorded_a_part_is_not_compared(tmp_path):
    """Which of the two collectives rank 1 lacks in step 1 is not known."""
    for rank, counts in enumerate(((2, 2), (2, 1))):
        events = []
        for number, count in enumerate(counts):
            events += [step(number, 1000 * number, 900)]
            for place in range(count):
                begin, dur = 1000 * number + 100 + 300 * place, 100 + 50 * (1 - rank)
                events += collective(begin, dur, number=10 * number + place + 1)
        write_rank(tmp_path, rank, events)
    (row,) = read(tmp_path).collectives
    assert (row.count, row.matched, row.wire_ns, row.waited_ns) == (4, 2, 200_000, 50_000)


def test_collectives_whose_size_differs_between_ranks_are_compared(tmp_path):
    for rank, elements in enumerate((1000, 5000, 2000)):
        options = {"kind": "all_to_allv", "elements": elements}
        write_rank(tmp_path, rank, rank_events(rank, **options))
    (row,) = read(tmp_path).collectives
    assert (row.kind, row.matched, row.num_bytes) == ("all_to_all", STEPS, STEPS * 5000 * 4)
    assert row.wire_ns == STEPS * WIRE_US * 1000
    assert row.waited_ns == round((800_000 + 600_000) / 3)


def test_sequence_numbers_match_what_no_step_marks(tmp_path):
    """Rank 1 was recorded from the second collective on, which takes 100 us less there."""
    for rank, first in enumerate((7, 8)):
        events = []
        for number in range(first, 12):
            wait = 100 + number if rank == 0 else 0
            events += collective(1000 * number, 50 + wait, number=number, sequence=number)
        write_rank(tmp_path, rank, events, world=2)
    found = read(tmp_path)
    (row,) = found.collectives
    assert (row.count, row.matched, row.wire_ns) == (5, 4, 200_000)
    assert found.ranks[0].waited_ns == 1000 * sum(100 + number for number in range(8, 12))
    assert (found.delays[0].rank, found.delays[0].count) == (1, 4)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from(["allreduce", "allgather"]), st.integers(1, 10**6)),
            max_size=4,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_counts_bytes_and_times_add_up_to_what_was_written(steps):
    with TemporaryDirectory() as folder:
        for rank in range(2):
            events = [*kernel(1, 1, number=9999)]
            for number, collectives in enumerate(steps):
                events += [step(number, 10_000 * number + 10, 9_000)]
                for place, (kind, elements) in enumerate(collectives):
                    events += collective(
                        10_000 * number + 100 + 1000 * place,
                        100 + 10 * rank,
                        number=10 * number + place + 1,
                        kind=kind,
                        elements=elements,
                    )
            write_rank(Path(folder), rank, events, world=2)
        found = read(folder)
    written = [collective for collectives in steps for collective in collectives]
    rows = found.collectives
    assert sum(row.count for row in rows) == sum(row.matched for row in rows) == len(written)
    assert sum(row.num_bytes for row in rows) == 4 * sum(elements for _, elements in written)
    assert sum(row.wire_ns for row in rows) == 100_000 * len(written)
    assert [rank.collectives for rank in found.ranks] == [len(written)] * 2
    waited = sum(rank.waited_ns or 0 for rank in found.ranks)
    assert waited == 10_000 * len(written) == 2 * sum(row.waited_ns for row in rows)


def test_a_damaged_file_is_named_and_the_others_are_read(job):
    path = job / "rank2.pt.trace.json.gz"
    text = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(text[: text.index(b'"traceEvents"') + 5]))
    found = read(job)
    assert found.missing == (2,)
    assert any("holds no `traceEvents`" in warning for warning in found.warnings)
    (job / "rank0.pt.trace.json.gz").write_bytes(b"")
    (job / "rank1.pt.trace.json.gz").write_bytes(b"")
    assert job_files([str(job)]) is None


def test_when_no_trace_can_be_read_that_is_an_error(job):
    for path in job.iterdir():
        text = gzip.decompress(path.read_bytes())
        path.write_bytes(gzip.compress(text[: text.index(b'"traceEvents"') + 5]))
    with pytest.raises(TraceError, match="No rank's trace can be read"):
        read(job)


def test_older_traces_name_no_group_and_no_size(tmp_path):
    for rank in range(3):
        write_rank(tmp_path, rank, rank_events(rank, group=None))
    (row,) = read(tmp_path).collectives
    assert (row.kind, row.group, row.num_bytes) == ("all_reduce", "not recorded", None)
    assert row.bus_bytes_per_s is None
    assert row.wire_ns == STEPS * WIRE_US * 1000


def test_only_ranks_of_a_group_are_compared(tmp_path):
    """Ranks 0 and 1 reduce together, 2 and 3 too; rank 3 takes longest, but not for rank 0."""
    for rank, dur_us in enumerate((100, 400, 100, 900)):
        pair = "[0, 1]" if rank < 2 else "[2, 3]"
        events = collective(50, dur_us, number=1, group=str(rank // 2), ranks=pair, size=2)
        write_rank(tmp_path, rank, events, world=4)
    found = read(tmp_path)
    waits = {row.group: (row.ranks, row.waited_ns) for row in found.collectives}
    assert waits == {"0 [0, 1]": (2, 150_000), "1 [2, 3]": (2, 400_000)}
    assert [rank.last_count for rank in found.ranks] == [1, 0, 1, 0]


def test_a_rank_whose_host_is_late_leaves_its_device_idle(tmp_path):
    for rank, late_us in enumerate((0, 500)):
        events = [*kernel(10, 100, number=1)]
        events += collective(200 + late_us, 600 - late_us, number=2, ranks="[0, 1]", size=2)
        write_rank(tmp_path, rank, events, world=2)
    (delay,) = read(tmp_path).delays
    assert (delay.rank, delay.cause) == (1, "idle")


def test_gloo_ranges_are_matched_by_their_order_in_a_step(tmp_path):
    for rank, sleep_us in enumerate((0, 700)):
        events = [step(3, 0, 2000), host("aten::mm", 10, 100)]
        reduced = {"start_us": 200 + sleep_us, "dur_us": 800 - sleep_us}
        events += [host("gloo:all_reduce", **reduced, cat="user_annotation")]
        write_rank(tmp_path, rank, events, world=2)
    found = read(tmp_path)
    assert not found.on_device
    assert [(delay.rank, delay.cause) for delay in found.delays] == [(1, "outside_operators")]
    assert found.ranks[0].waited_ns == 700_000
    assert found.ranks[0].device is None


@pytest.mark.parametrize(("ranks", "kinds"), [(2, 2), (4, 3)])
def test_recorded_gloo_ranks_wait_for_the_one_that_sleeps(ranks, kinds):
    """Rank 1 sleeps for 5 ms in each step; of four ranks, 0 and 1 have a group of their own."""
    found = read(DATA / f"gloo-{ranks}")
    assert found.world_size == len(found.ranks) == ranks
    assert found.delays[0].rank == 1
    assert found.delays[0].cause == "outside_operators"
    assert found.delays[0].waited_ns >= 3 * 4_000_000
    assert len(found.collectives) == kinds
    assert found.ranks[1].waited_ns == min(rank.waited_ns for rank in found.ranks)
    broadcasts = [row.ranks for row in found.collectives if row.kind == "broadcast"]
    assert broadcasts == ([2] if ranks == 4 else [])


def test_files_of_several_runs_are_no_job(tmp_path):
    first = write_rank(tmp_path / "a", 0, rank_events(0))
    again = write_rank(tmp_path / "b", 0, rank_events(0))
    assert job_files([str(first), str(again)]) is None
    other = write_rank(tmp_path / "c", 1, rank_events(1), world=8)
    assert job_files([str(first), str(other)]) is None
    alone = tmp_path / "alone.json"
    alone.write_text(json.dumps({"traceEvents": []}))
    assert job_files([str(first), str(alone)]) is None


def write_windows(folder, names):
    """Write traces of three ranks under the given names, by rank and window."""
    for rank in range(3):
        for name in names:
            path = write_rank(folder, rank, rank_events(rank))
            path.rename(folder / name.format(rank=rank, own=100 * rank))


def test_of_several_windows_the_last_that_most_ranks_have_is_read(tmp_path):
    names = ["rank{rank}-cycle9.pt.trace.json.gz", "rank{rank}-cycle10.pt.trace.json.gz"]
    write_windows(tmp_path, [*names, "rank{rank}-capture0.pt.trace.json.gz"])
    write_rank(tmp_path, 1, rank_events(1)).rename(tmp_path / "rank1-cycle11.pt.trace.json.gz")
    files = job_files([str(tmp_path)])
    read = [path.rpartition("/")[2] for path in files.ranks]
    assert read == [f"rank{rank}-cycle10.pt.trace.json.gz" for rank in range(3)]
    assert files.unread == (
        "Ranks recorded several windows: 7 traces of others than the last are not read. To read "
        "these, give their files.",
    )


def test_windows_that_are_named_by_the_time_are_each_ranks_last(tmp_path):
    write_windows(
        tmp_path, ["host_{own}.1700.pt.trace.json.gz", "host_{own}.1800.pt.trace.json.gz"]
    )
    files = job_files([str(tmp_path)])
    read = [path.rpartition("/")[2] for path in files.ranks]
    assert read == [f"host_{100 * rank}.1800.pt.trace.json.gz" for rank in range(3)]


def test_two_folders_with_the_same_ranks_are_two_jobs(tmp_path):
    for folder in ("a", "b"):
        for rank in range(2):
            write_rank(tmp_path / folder, rank, rank_events(rank))
    assert job_files([str(tmp_path / "a"), str(tmp_path / "b")]) is None
    assert len(job_files([str(tmp_path / "a")]).ranks) == 2


def test_a_rank_is_known_by_a_header_that_is_longer_than_what_is_read(tmp_path):
    path = tmp_path / "rank5.json"
    group = {"pg_name": "0", "pg_desc": "", "pg_size": 4096, "ranks": list(range(4096))}
    info = {"backend": "nccl", "rank": 5, "world_size": 4096, "pg_config": [group] * 20}
    path.write_text(json.dumps({"distributedInfo": info, "traceEvents": []}))
    assert path.stat().st_size > 64 << 10
    assert job_rank(str(path)) == JobRank(rank=5, world_size=4096)


def test_processes_read_what_one_process_reads(job):
    files = job_files([str(job)])
    done = []
    result = read_job(files, processes=2, progress=lambda *now: done.append(now))
    assert result == read(job)
    assert done == [(1, 3), (2, 3), (3, 3)]
