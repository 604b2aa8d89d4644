import pytest
from rule_cases import MS, span

from lightning_gpuprof.findings.model import Place
from lightning_gpuprof.records.lines import HostLines, LineCount

PHASES = {"forward": 10 * MS, "data_wait": 2 * MS, "backward": 8 * MS}


def line(number, count, *, kind=None, source="x = 1"):
    return LineCount("forward", "train.py", number, "sample", source, None, kind, count)


def sampled(*lines, whole=200):
    by_phase = {"forward": whole // 2, "backward": whole // 2}
    return [HostLines(whole, lines, by_phase)]


def test_a_line_that_takes_a_lock_is_named(evaluate):
    records = sampled(line(3, 50, source="with self.lock:"), line(4, 50, kind="model"))
    finding = evaluate(PHASES, records=records)
    place = Place(file="train.py", line=3, source="with self.lock:", phase="forward")
    assert finding.places[0] == place
    # Half of 100 samples is a share of 0.4 to 0.6; three tenths of the least may stay.
    assert span(finding) == (2_800_000, 7_200_000)


@pytest.mark.parametrize(
    ("kind", "source"), [("wait", "item = self.queue.get()"), (None, "self.lock.acquire()")]
)
def test_queues_and_acquired_locks_are_waits_too(evaluate, kind, source):
    records = sampled(line(3, 50, kind=kind, source=source))
    assert evaluate(PHASES, records=records).evidence["lock_ns"] == 5 * MS


@pytest.mark.parametrize("source", ["with open(path) as file:", "with_lock = 3", "x = lock[0]"])
def test_other_lines_are_not_waits(evaluate, source):
    records = sampled(line(3, 50, source=source))
    assert evaluate(PHASES, records=records) is None


def test_lines_that_wait_do_not_count_as_python(judge):
    lock, work = line(3, 40, source="with self.lock:"), line(4, 50, kind="python")
    (finding,) = filter(None, judge("slow-python", PHASES, records=sampled(lock, work)))
    assert finding.evidence["python_ns"] == 5 * MS


def test_few_samples_and_none_of_a_lock_are_silent(evaluate):
    assert evaluate(PHASES, records=sampled(whole=50)) is None
    assert evaluate(PHASES, records=sampled()) is None
