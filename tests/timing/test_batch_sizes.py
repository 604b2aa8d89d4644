import pytest
import torch
from lightning.pytorch.demos.boring_classes import BoringModel
from torch.utils.data import DataLoader

from lightning_gpuprof.callbacks.phase_timer import PhaseTimer


class Sums(BoringModel):
    def training_step(self, batch, batch_idx):
        return sum(self.layer(row.reshape(-1, 32)).sum() for row in batch[0].unbind())


def nested(samples):
    return (torch.nested.nested_tensor(samples), len(samples))


def stacked(samples):
    return (torch.stack([sample[:1] for sample in samples]), len(samples))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("collate", [nested, stacked])
def test_rows_of_a_batch_are_counted_whatever_lengths_they_have(session_of, collate):
    data = DataLoader(
        [torch.randn(1 + i % 3, 32) for i in range(14)], batch_size=4, collate_fn=collate
    )
    session = session_of(Sums(), PhaseTimer(console=False), data=data)
    assert session.columns["samples"].tolist() == [4, 4, 4, 2]
