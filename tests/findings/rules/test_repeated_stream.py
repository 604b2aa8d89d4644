from rule_cases import MS, span

from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.facts import StreamBatches
from lightning_gpuprof.records.schema import Loader

STREAM = Loader(num_workers=4, dataset_kind="iterable", dataset="Clicks")
WORK = {"forward": 8 * MS}
SAME = [StreamBatches(workers=4, same=True)]


def test_an_epoch_that_has_every_sample_four_times_takes_four_times_as_long(evaluate):
    finding = evaluate(WORK, records=SAME, loader=STREAM)
    assert finding.title == "Each sample comes 4 times per epoch, once from each worker"
    assert "Clicks does not look which worker it is in" in finding.advice
    assert "get_worker_info()" in finding.change
    assert finding.severity is Severity.CRITICAL
    assert span(finding) == (5_400_000, 6 * MS)


def test_where_the_number_of_steps_is_given_no_time_is_saved(evaluate):
    for trainer in ({"max_steps": 100}, {"limit_train_batches": 50}):
        finding = evaluate(WORK, records=SAME, loader=STREAM, trainer=trainer)
        assert finding.severity is Severity.WARNING
        assert span(finding) == (0, 0)
    endless = {"max_steps": -1, "limit_train_batches": 1.0}
    assert evaluate(WORK, records=SAME, loader=STREAM, trainer=endless).saving_ns.low > 0


def test_batches_that_differ_are_no_finding(evaluate):
    assert evaluate(WORK, records=[StreamBatches(workers=4)], loader=STREAM) is None
