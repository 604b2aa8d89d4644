from rule_cases import EPOCH_FLAGS, EPOCHS, MS, US, WORK, every, span

from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.schema import Loader

IN_PROCESS = {"flags": EPOCH_FLAGS, "loader": Loader(num_workers=0)}
ONE_WORKER = {"flags": EPOCH_FLAGS, "loader": Loader(num_workers=1)}


def test_names_what_a_dataset_does_before_its_first_sample(evaluate):
    finding = evaluate(EPOCHS, **IN_PROCESS)
    assert finding.evidence["first_batch_per_epoch_ns"] == 99_900 * US
    assert span(finding) == (0, 9 * 99_900 * US // 100)
    assert finding.severity is Severity.WARNING


def test_is_silent_if_workers_start_or_epochs_begin_without_a_wait(evaluate):
    assert evaluate(EPOCHS, **ONE_WORKER) is None
    assert evaluate({**WORK, "data_wait": 100 * US}, **IN_PROCESS) is None


PERSISTENT = Loader(num_workers=1, persistent_workers=True)


def test_persistent_workers_that_begin_an_epoch_with_work_are_reported(evaluate):
    finding = evaluate(EPOCHS, flags=EPOCH_FLAGS, loader=PERSISTENT)
    # Of 99.9 ms each the one worker's first batch is none of the dataset's doing.
    step_ns = finding.evidence["step_ns"]
    assert finding.evidence["first_batch_per_epoch_ns"] == 99_900 * US - step_ns
    assert finding.cause_ns.low == 9 * (99_900 * US - step_ns) // 100
    assert "shuffle buffer" in finding.advice
    assert finding.title.endswith("of the run)")


def test_the_first_batch_of_a_persistent_worker_is_not_reported(evaluate):
    short = {**WORK, "data_wait": every(10, 9 * MS, 100 * US)}
    assert evaluate(short, flags=EPOCH_FLAGS, loader=PERSISTENT) is None


def test_the_class_of_the_dataset_is_named(evaluate):
    for workers in (0, 1):
        options = {"num_workers": workers, "persistent_workers": bool(workers)}
        loader = Loader(dataset="Shuffled", **options)
        assert "Shuffled" in evaluate(EPOCHS, flags=EPOCH_FLAGS, loader=loader).advice
