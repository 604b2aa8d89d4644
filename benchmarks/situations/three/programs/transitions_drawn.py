"""A valve is to be turned: Q-learning from half a million transitions that a plant has written.

report: sdpkjc/abcdrl pull request 31, "Fix replaybuffer random replace" ("np.random.choice(...,
    replace=False) in ReplayBuffer will make it very slow")
cause: choice without replacement puts all half a million numbers into a random order, of which it
    takes the first 128, for each batch
right: the wait for data (the memory's draw of a batch, a marked line: np.random.choice with
    replace=False) holds the training back; the change is to draw with replacement (randint), or a
    Generator's choice, which does not shuffle the whole
The mended form draws without replacement, too, but other transitions.
"""

import numpy as np
import torch
from case import Module, Run, mlp
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

STEPS, SIZE, STATE, MOVES, BATCH = 400, 500_000, 12, 5, 128


class Memory(IterableDataset):
    def __init__(self, fixed):
        draw = np.random.default_rng(6)
        self.states = draw.standard_normal((SIZE + 1, STATE), np.float32)
        self.moves = draw.integers(0, MOVES, SIZE)
        self.rewards = draw.standard_normal(SIZE, np.float32)
        self.generator = np.random.default_rng(7) if fixed else None

    def sample(self):
        if self.generator is None:
            rows = np.random.choice(SIZE, BATCH, replace=False)  # cause
        else:
            rows = self.generator.choice(SIZE, BATCH, replace=False)
        columns = self.states[rows], self.moves[rows], self.rewards[rows], self.states[rows + 1]
        return tuple(torch.from_numpy(column) for column in columns)

    def __iter__(self):
        while True:
            yield self.sample()


class Valve(Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(STATE, 256, 256, MOVES)
        self.slow = mlp(STATE, 256, 256, MOVES).requires_grad_(False)

    def loss(self, batch):
        states, moves, rewards, after = batch
        with torch.no_grad():
            wanted = rewards + 0.97 * self.slow(after).amax(1)
        found = self.net(states).gather(1, moves[:, None])[:, 0]
        return nn.functional.smooth_l1_loss(found, wanted)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        if batch_idx % 50 == 0:
            self.slow.load_state_dict(self.net.state_dict())


def main(run: Run) -> None:
    run.fit(Valve(), DataLoader(Memory(run.fixed), batch_size=None))
