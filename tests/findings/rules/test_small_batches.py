import pytest
from rule_cases import MS, US, span

from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.schema import Loader

SINGLE = Loader(num_workers=0, batch_size=1)
PREDICT = {"forward": 600 * US, "data_wait": 100 * US, "other": 300 * US}


@pytest.mark.parametrize("stage", ["predict", "test", "validate"])
def test_an_evaluation_of_single_samples_is_to_take_larger_batches(evaluate, stage):
    finding = evaluate(PREDICT, loader=SINGLE, stage=stage)
    assert finding.title == "A batch holds a single sample and takes 1.00 ms"
    assert finding.change == "DataLoader(..., batch_size=32)"
    assert "(30% of the time)" in finding.advice
    assert finding.severity is Severity.CRITICAL
    # Of what is around the model 31 of 32 go; at most nine tenths of all that.
    assert span(finding) == (290_625, 871_875)


def test_a_long_batch_needs_overhead_to_be_worth_a_larger_one(evaluate):
    long = {"forward": 50 * MS, "other": 400 * US}
    assert evaluate(long, loader=SINGLE, stage="predict") is None
    slow = {"forward": 50 * MS, "other": 10 * MS}
    assert evaluate(slow, loader=SINGLE, stage="predict") is not None


@pytest.mark.parametrize(
    ("size", "stage"), [(8, "predict"), (None, "predict"), (1, "fit")], ids=["8", "none", "fit"]
)
def test_larger_batches_those_of_unknown_size_and_training_are_silent(evaluate, size, stage):
    loader = Loader(num_workers=0, batch_size=size)
    assert evaluate(PREDICT, loader=loader, stage=stage) is None
