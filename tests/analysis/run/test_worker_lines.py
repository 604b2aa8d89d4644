import pytest

from lightning_gpuprof.analysis.run.worker_lines import (
    batch_lines,
    longer_here,
    made_in_ns,
    worker_line_times,
)
from lightning_gpuprof.records.lines import HostLines, LineCount, WorkerLines
from lightning_gpuprof.records.schema import Loader

MS = 1_000_000
PHASES = {"data_wait": 6 * MS, "forward": 4 * MS}
TWO = Loader(num_workers=2)


def line(number, count, callee=None, function="__getitem__"):
    return LineCount(
        "data_wait", "data.py", number, function, f"line {number}", callee, None, count
    )


def workers(*lines, work=100, waiting=25, handing=0):
    return WorkerLines(2, work, waiting, handing, lines)


def test_a_line_takes_its_share_of_what_a_worker_takes_for_a_batch(analyze):
    lines = line(3, 50), line(3, 10, "json.loads"), line(8, 20), line(9, 4)
    run = analyze(PHASES, loader=TWO, records=[workers(*lines)])
    # Two workers for 10 ms a step, at work in 100 of 125 samples.
    assert made_in_ns(run) == 16 * MS
    first, second = worker_line_times(run)
    assert (first.line, first.count, first.frac, first.callee) == (3, 60, 0.6, None)
    assert first.batch_ns == 9_600_000
    assert first.low_frac == pytest.approx(0.502, abs=1e-3)
    assert (second.line, second.batch_ns) == (8, 3_200_000)


@pytest.mark.parametrize("loader", [None, Loader()])
def test_without_a_number_of_workers_there_are_shares_alone(analyze, loader):
    run = analyze(PHASES, loader=loader, records=[workers(line(3, 60))])
    (time,) = worker_line_times(run)
    assert (time.frac, time.batch_ns) == (0.6, None)
    assert not longer_here(run, 1)


def test_whoever_makes_the_batches_is_asked_at_which_lines(analyze):
    here = HostLines(100, (line(70, 90),), {"data_wait": 100})
    host = here

    def asked(*notes, **options):
        return [line.line for line in batch_lines(analyze(PHASES, records=notes, **options)).lines]

    assert asked(host, loader=Loader(num_workers=0)) == [70]
    assert asked(host, workers(line(3, 60)), loader=TWO) == [3]
    # Settings of several loaders are not recorded: here the training process makes batches too.
    assert asked(host, workers(line(3, 60))) == [70]
    assert asked(workers(line(3, 60))) == [3]


def test_a_batch_may_take_longer_here_even_with_the_cores_to_itself(analyze):
    # 16 ms, on four cores beside two other processes; on two at worst a third less.
    assert longer_here(analyze(PHASES, loader=TWO, records=[workers()]), 16 * MS)
    assert not longer_here(analyze(PHASES, loader=TWO, records=[workers()]), 17 * MS)
    crowded = analyze(PHASES, loader=TWO, records=[workers()], cpu_count=2)
    assert longer_here(crowded, 10 * MS)
    assert not longer_here(crowded, 11 * MS)
