import pytest
from rule_cases import WORK

from lightning_gpuprof.findings.model import Abstained, Severity
from lightning_gpuprof.records.facts import DatasetObjects, WorkerMemory

MIB, GIB = 2**20, 2**30
OBJECTS = DatasetObjects("Corpus", "lines", "list", 400_000, "dict")


def readings(private, anonymous=None, *, available=16 * GIB, workers=2):
    """Return a reading in every 50 steps, of so many MiB in all workers together."""
    anonymous = [4_000] * len(private) if anonymous is None else anonymous
    return [
        WorkerMemory(50 * i, 1, workers, own * MIB, all_ * MIB, available)
        for i, (own, all_) in enumerate(zip(private, anonymous, strict=True))
    ]


COPYING = list(range(20, 320, 10))
FULL = [20, 150, 250, 280, 290, *[293] * 25]


def test_pages_that_workers_copy_are_reported_with_what_the_dataset_holds(evaluate):
    finding = evaluate(WORK, records=[*readings(COPYING), OBJECTS])
    assert finding.severity is Severity.WARNING
    assert finding.evidence["growth_per_step_bytes"] == pytest.approx(10 * MIB / 50, rel=0.01)
    assert finding.evidence["copied_bytes"] == 290 * MIB
    assert finding.evidence["most_bytes"] == 4_000 * MIB
    assert "Corpus.lines (400,000 objects)" in finding.advice
    assert finding.places[0].name == "Corpus.lines"
    assert "NumPy" in finding.advice


def test_copies_that_will_fit_do_not_fill_the_memory_and_others_do(evaluate):
    fits = evaluate(WORK, records=readings(COPYING))
    assert "full" not in fits.title
    full = evaluate(WORK, records=readings(COPYING, available=1_000 * MIB))
    assert full.evidence["steps_left_count"] == 5_000
    assert full.title.endswith("full in 5,000 steps")


def test_memory_that_no_process_shared_before_is_a_cache_of_the_workers(evaluate):
    finding = evaluate(WORK, records=[*readings(COPYING, COPYING), OBJECTS])
    assert finding.evidence["copied_bytes"] == 0
    assert "__getitem__" in finding.advice
    assert finding.change is None


def test_copies_that_have_ended_are_a_warning_if_they_are_large_or_take_much(evaluate):
    held = evaluate(WORK, records=[*readings(FULL), OBJECTS])
    assert held.severity is Severity.WARNING
    assert held.title == "The loader's workers hold 273 MiB of copies"
    small = [20, 60, 80, 95, *[100] * 25]
    assert evaluate(WORK, records=[*readings(small), OBJECTS]).severity is Severity.INFO
    tight = evaluate(WORK, records=readings(FULL, available=1_000 * MIB))
    assert tight.severity is Severity.WARNING


@pytest.mark.parametrize(
    "records",
    [
        readings(FULL),  # nothing says that these are the dataset's
        readings([20, 60, 70, *[74] * 20]),  # Python's own modules
        [*readings([20, *[300] * 20], [20, *[300] * 20]), OBJECTS],  # a buffer
    ],
)
def test_memory_that_workers_take_at_their_start_is_not_reported(evaluate, records):
    assert evaluate(WORK, records=records) is None


def test_workers_of_several_epochs_count_by_themselves(evaluate):
    first = readings(COPYING)
    second = [WorkerMemory(2_000 + 50 * i, 2, 2, 20 * MIB, GIB, GIB) for i in range(10)]
    assert evaluate(WORK, records=[*first, *second]).evidence["last_bytes"] == 310 * MIB


def test_without_readings_the_rule_abstains(evaluate):
    assert isinstance(evaluate(WORK), Abstained)
    assert isinstance(evaluate(WORK, records=readings([1, 2, 3])), Abstained)
