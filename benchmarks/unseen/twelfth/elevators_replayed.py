"""Where should the lift wait? Q-learning from a replay buffer with priorities.

cause: each draw from the buffer makes the list of all transitions' weights anew in Python and a
    NumPy array from it, though a step changes the priorities of one batch only
right: names Replay.draw or weights (the data's making, the wait for data) at a marked line; its
    change keeps the weights in an array and changes those that changed, or draws by a sum tree
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

STEPS = 380
CAPACITY, STATE, ACTIONS, BATCH, NEW = 60_000, 40, 8, 128, 4
POWER = 0.5


class Replay:
    """Transitions in a ring; those that surprise more are drawn more often."""

    def __init__(self, as_array: bool):
        self.rng = np.random.default_rng(11)
        self.states = torch.randn(CAPACITY, STATE)
        self.nexts = self.states + 0.1 * torch.randn(CAPACITY, STATE)
        self.actions = torch.randint(0, ACTIONS, (CAPACITY,))
        self.rewards = -self.states.abs().mean(dim=1)
        self.as_array = as_array
        self.priorities = np.ones(CAPACITY) if as_array else [1.0] * CAPACITY
        self.oldest = 0

    def observe(self) -> None:
        for _ in range(NEW):
            self.states[self.oldest] = torch.randn(STATE)
            self.rewards[self.oldest] = -self.states[self.oldest].abs().mean()
            self.priorities[self.oldest] = 1.0
            self.oldest = (self.oldest + 1) % CAPACITY

    def weights(self) -> np.ndarray:
        if self.as_array:
            raised = np.sqrt(self.priorities)
        else:
            raised = np.array([priority**POWER for priority in self.priorities])  # cause
        return raised.cumsum()

    def draw(self):
        bounds = self.weights()  # cause
        places = np.searchsorted(bounds, self.rng.random(BATCH) * bounds[-1])
        at = torch.from_numpy(places)
        return at, self.states[at], self.actions[at], self.rewards[at], self.nexts[at]

    def surprise(self, places: torch.Tensor, errors: torch.Tensor) -> None:
        for place, error in zip(places.tolist(), errors.tolist(), strict=True):
            self.priorities[place] = error + 0.01


class Draws(IterableDataset):
    def __init__(self, replay: Replay):
        self.replay = replay

    def __iter__(self):
        while True:
            self.replay.observe()
            yield self.replay.draw()


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(STATE, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, ACTIONS)
    )


class Waiting(L.LightningModule):
    def __init__(self, replay: Replay):
        super().__init__()
        self.replay = replay
        self.q, self.target = network(), network().requires_grad_(False)
        self.target.load_state_dict(self.q.state_dict())

    def training_step(self, batch, batch_idx):
        places, states, actions, rewards, nexts = batch
        values = self.q(states).gather(1, actions[:, None]).squeeze(1)
        with torch.no_grad():
            best = self.q(nexts).argmax(dim=1, keepdim=True)
            wanted = rewards + 0.97 * self.target(nexts).gather(1, best).squeeze(1)
        self.replay.surprise(places, (values.detach() - wanted).abs())
        loss = nn.functional.huber_loss(values, wanted)
        self.log("td_loss", loss, batch_size=BATCH)
        if batch_idx % 100 == 99:
            self.target.load_state_dict(self.q.state_dict())
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-4, fused=True)


def main(run: Run) -> None:
    replay = Replay(as_array=run.fixed)
    data = DataLoader(Draws(replay), batch_size=None)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Waiting(replay), data)


if __name__ == "__main__":
    main(arguments(STEPS))
