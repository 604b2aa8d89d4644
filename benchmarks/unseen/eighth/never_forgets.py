"""Curious about what it has not seen: a reward for states far from those remembered.

seen in: a guise of: memory growth (something kept that makes each step dearer)

cause: the memory of seen states is meant to hold the last 2000, but nothing ever leaves it, so
    each step stacks and searches more states than the one before
right: says that steps become slower as something is kept and grows (the memory of seen states),
    or points at a marked line first; its change bounds the memory
"""

from collections import deque

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

STEPS = 600
GROWS = True  # measure it over its whole run
SEEN, WIDTH, ACTIONS, STATES, NEAR = 32, 48, 6, 64, 10


class Episodes(IterableDataset):
    """Transitions, a batch at a time."""

    def __iter__(self):
        while True:
            state = torch.randn(STATES, SEEN)
            yield {
                "state": state,
                "next": state + 0.1 * torch.randn(STATES, SEEN),
                "action": torch.randint(ACTIONS, (STATES,)),
            }


class Novelty:
    """Tells how far states are from the nearest remembered ones.

    Args:
        batches: How many batches of states are remembered.
    """

    def __init__(self, batches: int | None) -> None:
        self.seen = deque(maxlen=batches)

    def __call__(self, states):
        if not self.seen:
            self.seen.append(states)
            return torch.zeros(len(states))
        apart = torch.cdist(states, torch.cat(list(self.seen)))  # cause
        near = apart.topk(NEAR, largest=False).values  # cause
        self.seen.append(states)  # cause
        return near.mean(dim=1)


class Curious(L.LightningModule):
    def __init__(self, remembered: int | None) -> None:
        super().__init__()
        self.novelty = Novelty(remembered)
        self.embed = nn.Sequential(nn.Linear(SEEN, 512), nn.ReLU(), nn.Linear(512, WIDTH))
        self.inverse = nn.Sequential(nn.Linear(2 * WIDTH, 512), nn.ReLU(), nn.Linear(512, ACTIONS))
        self.policy = nn.Sequential(nn.Linear(SEEN, 512), nn.ReLU(), nn.Linear(512, ACTIONS))

    def training_step(self, batch, batch_idx):
        before, after = self.embed(batch["state"]), self.embed(batch["next"])
        told = self.inverse(torch.cat([before, after], dim=1))
        guessed = nn.functional.cross_entropy(told, batch["action"])
        with torch.no_grad():
            reward = self.novelty(after.detach())
            advantage = reward - reward.mean()
        scores = self.policy(batch["state"]).log_softmax(dim=1)
        chosen = scores.gather(1, batch["action"][:, None])[:, 0]
        loss = guessed - (advantage * chosen).mean()
        self.log("train_loss", loss)
        self.log("reward", reward.mean())
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=5e-4, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Episodes(), batch_size=None)
    trainer = L.Trainer(callbacks=run.callbacks, gradient_clip_val=0.5, **run.trainer)
    trainer.fit(Curious(2000 // STATES if run.fixed else None), data)


if __name__ == "__main__":
    main(arguments(STEPS))
