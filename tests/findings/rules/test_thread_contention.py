import pytest

from lightning_gpuprof.analysis.run.host_lines import HostLines, LineCount
from lightning_gpuprof.findings.model import Abstained, Where
from lightning_gpuprof.records.lines import ThreadLoad, ThreadUse
from lightning_gpuprof.records.schema import Device

MS = 1_000_000
PHASES = {"forward": 10 * MS, "data_wait": 2 * MS, "backward": 8 * MS}
BUSY = ThreadLoad("uploader", 60 * MS, "up.py", 7, "run", "sum(rows)")


def line(number, count, *, kind=None, source="x = 1"):
    return LineCount("forward", "train.py", number, "sample", source, None, kind, count)


def seen(*lines, threads=None, whole=200):
    by_phase = {"forward": whole // 2, "backward": whole // 2}
    return [HostLines(whole, lines, by_phase, threads)]


def used(cpu_ns, queued_ns=0, *others):
    return ThreadUse(100 * MS, cpu_ns, queued_ns, others)


def test_a_line_that_takes_a_lock_is_named(judge):
    records = seen(line(3, 50, source="with self.lock:"), line(4, 50, kind="model"))
    finding = judge("thread-contention", PHASES, records=records)
    assert finding.where[0] == Where(
        file="train.py", line=3, source="with self.lock:", phase="forward"
    )
    assert not finding.explains
    # Half of 100 samples is a share of 0.4 to 0.6; three tenths of the least may stay.
    assert (finding.saving_ns.low, finding.saving_ns.high) == (2_800_000, 7_200_000)


@pytest.mark.parametrize(
    ("kind", "source"), [("wait", "item = self.queue.get()"), (None, "self.lock.acquire()")]
)
def test_queues_and_acquired_locks_are_waits_too(judge, kind, source):
    records = seen(line(3, 50, kind=kind, source=source))
    assert judge("thread-contention", PHASES, records=records).evidence["lock_ns"] == 5 * MS


@pytest.mark.parametrize("source", ["with open(path) as file:", "with_lock = 3", "x = lock[0]"])
def test_other_lines_are_no_waits(judge, source):
    records = seen(line(3, 50, source=source), threads=used(95 * MS))
    assert judge("thread-contention", PHASES, records=records) is None


def test_lines_that_wait_are_not_taken_for_python(judge):
    lock, work = line(3, 40, source="with self.lock:"), line(4, 50, kind="python")
    (finding,) = filter(None, judge("slow-python", PHASES, records=seen(lock, work)))
    assert finding.evidence["python_ns"] == 5 * MS


def test_a_thread_that_computes_while_training_stands_still_is_named(judge):
    finding = judge("thread-contention", PHASES, records=seen(threads=used(30 * MS, 0, BUSY)))
    # Off its core for 70% of the time, 10% of which is the wait for data.
    assert finding.evidence["idle_frac"] == pytest.approx(0.6)
    assert (finding.saving_ns.low, finding.saving_ns.high) == (8_400_000, 14_400_000)
    assert (finding.where[0].file, finding.where[0].name) == ("up.py", "thread uploader")
    assert "host-bound" in finding.explains


def test_what_a_callback_waits_for_is_the_callbacks(judge):
    busy = seen(threads=used(30 * MS, 0, BUSY))
    phases = {**PHASES, "callbacks": 20 * MS, "logging": 6 * MS}
    # Off its core for 70% of steps of 46 ms, of which these and the wait for data may be 61%.
    assert judge("thread-contention", phases, records=busy) is None
    phases = {**PHASES, "callbacks": 2 * MS}
    finding = judge("thread-contention", phases, records=busy)
    assert finding.evidence["idle_ns"] == pytest.approx(0.7 * 22 * MS - 4 * MS, abs=2)


def test_the_thread_that_may_hold_the_lock_is_named_where_it_is_in_the_same_file(judge):
    lock = line(3, 50, source="with self.lock:")
    actor = ThreadLoad("actor", MS, "train.py", 30, "collect", "simulate()")
    records = seen(lock, threads=used(30 * MS, 0, BUSY, actor))
    finding = judge("thread-contention", PHASES, records=records)
    assert [place.name for place in finding.where] == [None, "thread actor"]


def test_a_core_that_both_need_may_be_saved_too(judge):
    finding = judge("thread-contention", PHASES, records=seen(threads=used(30 * MS, 20 * MS, BUSY)))
    assert (finding.saving_ns.low, finding.saving_ns.high) == (5_600_000, 14_400_000)


@pytest.mark.parametrize(
    "threads",
    [
        used(90 * MS, 0, BUSY),  # it computes without holding anybody up
        used(30 * MS, 60 * MS, BUSY),  # there is no core: other programs have it
        used(30 * MS, 0, ThreadLoad("logger", 2 * MS)),
        used(30 * MS),
    ],
)
def test_threads_that_hold_nobody_up_are_not_told(judge, threads):
    assert judge("thread-contention", PHASES, records=seen(threads=threads)) is None


def test_on_a_gpu_the_training_thread_may_stand_still_for_the_device(judge):
    records = seen(threads=used(30 * MS, 0, BUSY))
    device = Device(type="cuda")
    assert judge("thread-contention", PHASES, records=records, device=device) is None


def test_abstains_without_samples_or_account(judge):
    assert isinstance(judge("thread-contention", PHASES), Abstained)
    assert judge("thread-contention", PHASES, records=seen(whole=50)) is None
    assert judge("thread-contention", PHASES, records=seen()) is None
