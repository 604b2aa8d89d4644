from rule_cases import EPOCH_FLAGS, EPOCHS, US, WORK, span

from lightning_gpuprof.findings.model import Abstained, Severity
from lightning_gpuprof.records.schema import Loader


def test_names_what_a_dataset_does_before_its_first_sample(judge):
    finding = judge("slow-epoch-start", EPOCHS, flags=EPOCH_FLAGS, loader=Loader(num_workers=0))
    assert finding.evidence["first_batch_per_epoch_ns"] == 99_900 * US
    assert span(finding) == (0, 9 * 99_900 * US // 100)
    assert finding.severity is Severity.WARNING


def test_with_workers_it_is_their_start(judge):
    run = {"flags": EPOCH_FLAGS, "loader": Loader(num_workers=1)}
    assert judge("slow-epoch-start", EPOCHS, **run) is None


def test_is_silent_where_epochs_begin_as_they_go_on(judge):
    run = {"flags": EPOCH_FLAGS, "loader": Loader(num_workers=0)}
    assert judge("slow-epoch-start", {**WORK, "data_wait": 100 * US}, **run) is None


def test_abstains_without_epochs(judge):
    assert isinstance(judge("slow-epoch-start", WORK), Abstained)
