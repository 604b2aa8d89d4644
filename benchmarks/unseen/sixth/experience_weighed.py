"""A lander learns from recorded flights; what surprised it most is drawn most often.

seen in: sfujim/TD7 issue 3, "Buffer Priorities Implementation" (O(n) against O(log n): "running on
CPU, ... the sum tree version is probably faster"), and facebookresearch/rlmeta pull request 46

cause: for each batch the priorities of the whole memory become shares, for np.random.choice
right: names the drawing of batches in the loader (the memory's or dataset's function), or a marked
    line; its change takes that work out of the step (a sum tree, kept sums, or a worker process)
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

STEPS = 1900
SIZE, LEVELS, STATE, ACTIONS, BATCH = 2**18, 18, 8, 4, 128


class Priorities:
    def __init__(self) -> None:
        self.weights = np.random.random(SIZE) + 0.1

    def draw(self):
        shares = self.weights**0.6  # cause
        shares /= shares.sum()  # cause
        rows = np.random.choice(SIZE, BATCH, p=shares)  # cause
        return rows, shares[rows]

    def update(self, rows, errors) -> None:
        self.weights[rows] = errors + 0.01


class SumTree:
    def __init__(self) -> None:
        self.sums = np.zeros(2 * SIZE)
        self.update(np.arange(SIZE), np.random.random(SIZE) + 0.09)

    def draw(self):
        left_over = np.random.random(BATCH) * self.sums[1]
        places = np.ones(BATCH, dtype=np.int64)
        for _ in range(LEVELS):
            left = self.sums[2 * places]
            rightwards = left_over >= left
            left_over -= left * rightwards
            places = 2 * places + rightwards
        return places - SIZE, self.sums[places] / self.sums[1]

    def update(self, rows, errors) -> None:
        places = rows + SIZE
        self.sums[places] = (errors + 0.01) ** 0.6
        for _ in range(LEVELS):
            places = places // 2
            self.sums[places] = self.sums[2 * places] + self.sums[2 * places + 1]


class Flights(IterableDataset):
    def __init__(self, priorities) -> None:
        self.priorities = priorities
        self.states = torch.randn(SIZE, 2, STATE)
        self.actions = torch.randint(ACTIONS, (SIZE,))
        self.rewards = torch.randn(SIZE)

    def __iter__(self):
        while True:
            rows, shares = self.priorities.draw()
            weights = torch.from_numpy((SIZE * shares) ** -0.4).float()
            rows = torch.from_numpy(rows)
            yield rows, weights, self.states[rows], self.actions[rows], self.rewards[rows]


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(STATE, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, ACTIONS)
    )


class Lander(L.LightningModule):
    def __init__(self, priorities) -> None:
        super().__init__()
        self.priorities = priorities
        self.net, self.slow = network(), network().requires_grad_(False)

    def training_step(self, batch, batch_idx):
        rows, weights, states, actions, rewards = batch
        before, after = states.unbind(dim=1)
        with torch.no_grad():
            best = self.net(after).argmax(dim=1, keepdim=True)
            goal = rewards + 0.98 * self.slow(after).gather(1, best)[:, 0]
        errors = goal - self.net(before).gather(1, actions[:, None])[:, 0]
        loss = (weights * errors.square()).mean()
        self.priorities.update(rows.numpy(), errors.detach().abs().numpy())
        self.log("train_loss", loss)
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        if self.global_step % 200 == 0:
            self.slow.load_state_dict(self.net.state_dict())

    def configure_optimizers(self):
        return torch.optim.Adam(self.net.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    np.random.seed(1)
    priorities = SumTree() if run.fixed else Priorities()
    data = DataLoader(Flights(priorities), batch_size=None)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Lander(priorities), data)


if __name__ == "__main__":
    main(arguments(STEPS))
