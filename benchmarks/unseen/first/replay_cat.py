"""Q-learning with a replay memory kept as tensors on the module.

cause: every step appends its transitions by torch.cat, which copies the whole memory
accept: memory-growth @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

STEPS = 900
STATE, ACTIONS, NEW = 64, 5, 48


class Environment(IterableDataset):
    def __iter__(self):
        while True:
            yield {
                "state": torch.randn(NEW, STATE),
                "next": torch.randn(NEW, STATE),
                "action": torch.randint(ACTIONS, (NEW,)),
                "reward": torch.randn(NEW),
            }


class CatMemory:
    def __init__(self) -> None:
        self.held: dict[str, torch.Tensor] = {}

    def add(self, new):
        for key, value in new.items():
            old = self.held.get(key)
            self.held[key] = value if old is None else torch.cat([old, value])  # cause

    def sample(self, count):
        rows = torch.randint(len(self.held["reward"]), (count,))
        return {key: value[rows] for key, value in self.held.items()}


class RingMemory(CatMemory):
    def __init__(self, size: int = 32_768) -> None:
        super().__init__()
        self.size, self.at, self.full = size, 0, 0

    def add(self, new):
        count = len(new["reward"])
        rows = (torch.arange(count) + self.at) % self.size
        for key, value in new.items():
            if key not in self.held:
                self.held[key] = value.new_empty(self.size, *value.shape[1:])
            self.held[key][rows] = value
        self.at, self.full = (self.at + count) % self.size, min(self.full + count, self.size)

    def sample(self, count):
        rows = torch.randint(self.full, (count,))
        return {key: value[rows] for key, value in self.held.items()}


class QLearning(L.LightningModule):
    def __init__(self, memory: CatMemory) -> None:
        super().__init__()
        self.memory = memory
        self.q = nn.Sequential(nn.Linear(STATE, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU())
        self.head = nn.Linear(400, ACTIONS)

    def training_step(self, batch, batch_idx):
        self.memory.add(batch)  # cause
        old = self.memory.sample(256)
        with torch.no_grad():
            target = old["reward"] + 0.99 * self.head(self.q(old["next"])).amax(1)
        value = self.head(self.q(old["state"])).gather(1, old["action"][:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(value, target)
        self.log("td_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-4)


def main(run: Run) -> None:
    model = QLearning(RingMemory() if run.fixed else CatMemory())
    data = DataLoader(Environment(), batch_size=None)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


GROWS = True  # the longer the run, the more the cause takes of a step

if __name__ == "__main__":
    main(arguments(STEPS))
