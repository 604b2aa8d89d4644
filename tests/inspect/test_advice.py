import pytest

from lightning_gpuprof.inspect.advice import advice
from lightning_gpuprof.records.schema import SyncSite


def site(source, *, owner="lightning", operation="item", file="train.py"):
    return SyncSite(
        file=file,
        line=1,
        function="training_step",
        source=source,
        owner=owner,
        operation=operation,
        count=3,
        steps_watched=3,
    )


@pytest.mark.parametrize(
    ("found", "said", "unsaid"),
    [
        (site('self.log("loss", loss, prog_bar=True)'), "DeferredLoss", "torch.full"),
        (site('self.log("rate", 0.5)', operation="pageable copy"), "torch.full", "DeferredLoss"),
        (site("scaler.step()", file="/x/plugins/precision/amp.py"), "bf16-mixed", "DeferredLoss"),
        (site("scaler.step()", file="C:\\x\\precision\\amp.py"), "bf16-mixed", "DeferredLoss"),
        (site("optimizer.step()"), "bf16-mixed", "DeferredLoss"),  # manual optimization
        (site("scheduler.step(metric)", file="/x/module.py"), "ReduceLROnPlateau", "overflowed"),
        (site("total += loss.item()", owner="user"), "loss.detach()", "bf16-mixed"),
        (site("x.to(d)", owner="user", operation="pageable copy"), "pinned", "self.log"),
    ],
)
def test_each_kind_of_wait_has_advice_of_its_own(found, said, unsaid):
    assert said in advice(found)
    assert unsaid not in advice(found)
