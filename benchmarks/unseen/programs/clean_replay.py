"""A heater is steered by double Q-learning from a memory of tensors, with a slow second net."""

import torch
from case import Module, Run, mlp
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

STEPS, STATE, MOVES, KEPT, DRAWN = 220, 32, 5, 100_000, 256


class Memory(IterableDataset):
    def __init__(self):
        self.before, self.after = torch.rand(KEPT, STATE), torch.rand(KEPT, STATE)
        self.moves, self.rewards = torch.randint(MOVES, (KEPT,)), torch.rand(KEPT)

    def __iter__(self):
        while True:
            rows = torch.randint(KEPT, (DRAWN,))
            yield self.before[rows], self.moves[rows], self.rewards[rows], self.after[rows]


class Heater(Module):
    def __init__(self):
        super().__init__()
        self.values, self.slow = (mlp(STATE, 384, 384, MOVES) for _ in range(2))
        self.slow.requires_grad_(False).load_state_dict(self.values.state_dict())

    def loss(self, batch):
        before, moves, rewards, after = batch
        with torch.no_grad():
            best = self.values(after).argmax(1, keepdim=True)
            wanted = rewards + 0.98 * self.slow(after).gather(1, best).squeeze(1)
        told = self.values(before).gather(1, moves.unsqueeze(1)).squeeze(1)
        return nn.functional.smooth_l1_loss(told, wanted)

    def on_train_batch_end(self, *_):
        if self.global_step % 50 == 0:
            self.slow.load_state_dict(self.values.state_dict())

    def configure_optimizers(self):
        return torch.optim.Adam(self.values.parameters(), lr=5e-4, fused=True)


def main(run: Run) -> None:
    run.fit(Heater(), DataLoader(Memory(), batch_size=None))
