import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from lightning_gpuprof import profile_model
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import ProfilerCycle


def loader(batches=4):
    data = TensorDataset(torch.randn(batches * 2, 8), torch.zeros(batches * 2))
    return DataLoader(data, batch_size=2)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("grad", [False, True])
def test_a_bare_model_is_timed_traced_and_reported_and_stays_as_it_was(folder, grad):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout()).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}

    found = profile_model(model, loader(), warmup=2, steps=5, grad=grad, device="cpu")

    (session,) = read_run(str(folder / "lightning_logs" / "version_0"))[0].sessions
    assert session.steps == 12  # three whole epochs
    (cycle,) = session.all(ProfilerCycle)
    assert (cycle.first_step, cycle.last_step) == (8, 10)
    assert session.phase_ns(Phase.FORWARD).sum() > 0
    assert bool(session.phase_ns(Phase.BACKWARD).sum()) is grad
    assert any(row["name"] == "aten::addmm" for row in found.document.rows("operators"))
    assert not model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(one.grad is None for one in model.parameters())


def test_a_batch_is_passed_by_name_or_by_place():
    class Named(torch.nn.Module):
        def forward(self, tokens, mask=None):
            assert tokens.shape == (2, 8)
            assert mask is not None
            return {"logits": tokens * mask}

    batches = [{"tokens": torch.ones(2, 8), "mask": torch.ones(2, 8)}] * 3
    assert profile_model(Named(), batches, warmup=1, steps=1, device="cpu")
    assert profile_model(
        Named(), [tuple(one.values()) for one in batches], warmup=1, steps=1, device="cpu"
    )


@pytest.mark.parametrize(("options", "said"), [({"steps": 0}, "time nothing"), ({}, "is empty")])
def test_nothing_to_time_is_refused(options, said):
    with pytest.raises(ConfigError, match=said):
        profile_model(torch.nn.Linear(8, 8), [], **options)
