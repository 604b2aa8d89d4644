import pytest
from rule_cases import EPOCH_FLAGS, EPOCHS, MS, REMADE, US, WORK, span

from lightning_gpuprof.findings.model import Abstained
from lightning_gpuprof.records.schema import Loader


@pytest.mark.parametrize("workers", [0, 4])
def test_says_what_making_the_loader_again_takes(judge, workers):
    run = {"flags": EPOCH_FLAGS, "loader": Loader(num_workers=workers), "records": [REMADE]}
    finding = judge("rebuilt-loader", EPOCHS, **run)
    assert finding.evidence["remade_per_epoch_ns"] == 20 * MS
    # Half of it at least, where it must be done again; all and a fifth where it need not.
    assert span(finding) == (900 * US, 2_160 * US)
    assert finding.confidence == 0.9
    assert (finding.where[0].name, finding.change) == ("train_dataloader", None)


def test_is_silent_where_the_loader_stays(judge):
    assert judge("rebuilt-loader", EPOCHS, flags=EPOCH_FLAGS) is None


def test_abstains_without_epochs(judge):
    assert isinstance(judge("rebuilt-loader", WORK), Abstained)
