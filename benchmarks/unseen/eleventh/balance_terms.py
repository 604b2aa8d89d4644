"""A walking robot, learnt from logged trajectories: an actor and a critic with many reward terms.

cause: two dozen terms go through self.log at every step, and the Trainer is told to write each one
right: too much logging; names the self.log calls of training_step or log_every_n_steps=1 (or a
    marked line); the change logs every 50th step or so, or fewer values
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

STEPS = 500
MOVES, SEEN, JOINTS, WIDTH = 20_000, 72, 18, 288
TERMS = [
    *("alive", "height", "upright", "speed", "heading", "energy", "jerk", "slip"),
    *(f"torque_{joint}" for joint in range(8)),
    *(f"limit_{joint}" for joint in range(8)),
]


class Trajectories(Dataset):
    def __init__(self) -> None:
        self.seen = torch.randn(MOVES, SEEN)
        self.moves = torch.tanh(torch.randn(MOVES, JOINTS))
        self.terms = torch.randn(MOVES, len(TERMS))

    def __len__(self):
        return MOVES

    def __getitem__(self, indices):
        return self.seen[indices], self.moves[indices], self.terms[indices]


def mlp(into: int, out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(into, WIDTH),
        nn.ELU(),
        nn.Linear(WIDTH, WIDTH),
        nn.ELU(),
        nn.Linear(WIDTH, WIDTH),
        nn.ELU(),
        nn.Linear(WIDTH, out),
    )


class Walker(L.LightningModule):
    def __init__(self, log_every: int) -> None:
        super().__init__()
        self.log_every = log_every
        self.actor = mlp(SEEN, JOINTS)
        self.critic = mlp(SEEN + JOINTS, len(TERMS))

    def training_step(self, batch, batch_idx):
        seen, moves, terms = batch
        worth = self.critic(torch.cat([seen, moves], dim=1))
        value_loss = nn.functional.smooth_l1_loss(worth, terms)
        weights = torch.softmax(worth.detach().sum(1), dim=0) * len(seen)
        missed = (self.actor(seen).tanh() - moves).square().sum(1)
        actor_loss = (weights * missed).mean()
        loss = value_loss + 0.1 * actor_loss
        if (self.global_step + 1) % self.log_every == 0:
            for name, mean in zip(TERMS, terms.mean(0), strict=True):
                self.log(f"reward/{name}", mean, on_step=True, on_epoch=True)  # cause
            self.log("loss/actor", actor_loss)
            self.log("loss/value", value_loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4, fused=True)


def main(run: Run) -> None:
    moves = Trajectories()
    batches = BatchSampler(RandomSampler(moves), batch_size=512, drop_last=True)
    data = DataLoader(moves, sampler=batches, batch_size=None)
    every = 50 if run.fixed else 1
    trainer = L.Trainer(
        callbacks=run.callbacks,
        log_every_n_steps=every,  # cause
        **run.trainer,
    )
    trainer.fit(Walker(log_every=every), data)


if __name__ == "__main__":
    main(arguments(STEPS))
