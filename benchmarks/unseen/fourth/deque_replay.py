"""A lift is steered by Q-learning from a memory of half a million trips.

seen in: ageron/handson-ml pull request 204 and coax-dev/coax pull request 25: a list instead of a
deque for the replay buffer

cause: trips are drawn from the middle of a deque, which is walked block by block to reach each
accept: data-wait @line
"""

import random
from collections import deque

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

STEPS = 220
TRIPS, DRAWN = 500_000, 192
FLOORS, MOVES = 24, 3


class Ring:
    """A list that forgets its oldest entry for each new one."""

    def __init__(self, entries) -> None:
        self.entries, self.oldest = list(entries), 0

    def append(self, entry) -> None:
        self.entries[self.oldest] = entry
        self.oldest = (self.oldest + 1) % len(self.entries)

    def drawn(self, count):
        return random.sample(self.entries, count)


class Memory(deque):
    def drawn(self, count):
        return random.sample(self, count)  # cause


class Trips(IterableDataset):
    def __init__(self, memory) -> None:
        self.memory = memory

    def __iter__(self):
        while True:
            self.memory.append(self.memory.drawn(1)[0])
            before, moves, rewards, after = zip(*self.memory.drawn(DRAWN), strict=True)  # cause
            yield (
                torch.from_numpy(np.stack(before)),
                torch.tensor(moves),
                torch.tensor(rewards),
                torch.from_numpy(np.stack(after)),
            )


class Lift(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.values, self.slow = self.net(), self.net().requires_grad_(False)
        self.slow.load_state_dict(self.values.state_dict())

    def net(self):
        return nn.Sequential(
            nn.Linear(FLOORS, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, MOVES)
        )

    def training_step(self, batch, batch_idx):
        before, moves, rewards, after = batch
        with torch.no_grad():
            wanted = rewards + 0.97 * self.slow(after).amax(1)
        told = self.values(before).gather(1, moves.unsqueeze(1)).squeeze(1)
        loss = nn.functional.smooth_l1_loss(told, wanted)
        self.log("td_loss", loss)
        return loss

    def on_train_batch_end(self, *_):
        if self.global_step % 100 == 0:
            self.slow.load_state_dict(self.values.state_dict())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=5e-4)


def lived():
    """Yield trips between states of a small pool."""
    pool = list(np.random.default_rng(8).random((4000, FLOORS), dtype=np.float32))
    chance = random.Random(8)
    for _ in range(TRIPS):
        yield chance.choice(pool), chance.randrange(MOVES), chance.random(), chance.choice(pool)


def main(run: Run) -> None:
    memory = Ring(lived()) if run.fixed else Memory(lived(), maxlen=TRIPS)
    data = DataLoader(Trips(memory), batch_size=None)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Lift(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
