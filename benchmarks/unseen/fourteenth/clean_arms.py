"""How far must the arm reach? A value net learns from a buffer, with a slow target, clean."""

import copy

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

STEPS = 200
COUNT, BATCH, SENSED, WAYS = 40000, 1024, 32, 5
GAMMA, TAU = 0.98, 0.01


class Replay(IterableDataset):
    """Yields whole batches of what was lived through, drawn at random."""

    def __init__(self) -> None:
        self.before = torch.randn(COUNT, SENSED)
        self.after = 0.9 * self.before + 0.1 * torch.randn(COUNT, SENSED)
        self.ways = torch.randint(0, WAYS, (COUNT,))
        self.rewards = self.before[:, 0] * (self.ways == 1)

    def __iter__(self):
        while True:
            drawn = torch.randint(0, COUNT, (BATCH,))
            yield self.before[drawn], self.ways[drawn], self.rewards[drawn], self.after[drawn]


class ValueNet(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(SENSED, 384), nn.ReLU(), nn.Linear(384, 384), nn.ReLU(), nn.Linear(384, WAYS)
        )
        self.target = copy.deepcopy(self.net).requires_grad_(False)

    def training_step(self, batch, batch_idx):
        before, ways, rewards, after = batch
        with torch.no_grad():
            hoped = rewards + GAMMA * self.target(after).amax(dim=1)
        valued = self.net(before).gather(1, ways[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(valued, hoped)
        self.log("train_loss", loss)
        return loss

    @torch.no_grad()
    def on_train_batch_end(self, outputs, batch, batch_idx):
        torch._foreach_lerp_(list(self.target.parameters()), list(self.net.parameters()), TAU)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.net.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Replay(), batch_size=None)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(ValueNet(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
