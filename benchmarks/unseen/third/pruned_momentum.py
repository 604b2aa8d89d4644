"""A sparse network for particle tracks: most weights are cut away early, the others go on.

seen in: coreylowman's issue 59 at chelsea0x3b/dfdx and the PyTorch forum's "Training time gets
slower and slower on CPU": numbers too small for float32's normal range

cause: the momentum of cut weights decays into denormal numbers, with which the processor is slow
accept: @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 700
GROWS = True
HITS, WIDTH, CUT_AFTER = 60, 384, 40


class Sparse(nn.Linear):
    """A layer of which the smallest weights can be cut."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__(inside, outside)
        self.register_buffer("kept", torch.ones_like(self.weight))

    def cut(self, share: float) -> None:
        edge = self.weight.detach().abs().flatten().kthvalue(int(share * self.weight.numel()))
        self.kept.copy_(self.weight.detach().abs() > edge.values)

    def forward(self, x):
        return nn.functional.linear(x, self.weight * self.kept, self.bias)


class Tracks(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            Sparse(HITS, WIDTH), nn.ReLU(), Sparse(WIDTH, WIDTH), nn.ReLU(), Sparse(WIDTH, 5)
        )

    def on_train_batch_start(self, batch, batch_idx):
        if self.trainer.global_step == CUT_AFTER:
            for layer in self.net[::2]:
                layer.cut(0.8)

    def training_step(self, batch, batch_idx):
        hits, tracks = batch
        loss = nn.functional.mse_loss(self.net(hits), tracks)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, betas=(0.7, 0.99))  # cause


def main(run: Run) -> None:
    torch.set_flush_denormal(run.fixed)  # cause
    tracks = TensorDataset(torch.randn(19_200, HITS), torch.randn(19_200, 5))
    data = DataLoader(tracks, batch_size=192, shuffle=True)
    trainer = L.Trainer(callbacks=run.callbacks, **run.trainer)  # cause
    trainer.fit(Tracks(), data)  # cause


if __name__ == "__main__":
    main(arguments(STEPS))
