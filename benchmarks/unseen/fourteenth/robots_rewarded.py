"""Which way should the robot lean? An actor and a critic learn from recorded episodes.

cause: training_step works out the advantages by a Python loop over the moments of the episodes,
    backwards, with several small tensor operations for each
right: names the loop over moments (advantages(), called in training_step); its change is to do it
    at once (a product with the matrix of discounts), or in numpy or compiled
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 150
COUNT, ROBOTS, MOMENTS, SENSED, WAYS = 64, 8, 320, 48, 6
GAMMA, LAMBDA = 0.99, 0.95


class Episodes(Dataset):
    """Each item is what all robots did in one episode."""

    def __init__(self) -> None:
        self.sensed = torch.randn(COUNT, ROBOTS, MOMENTS + 1, SENSED)
        self.ways = torch.randint(0, WAYS, (COUNT, ROBOTS, MOMENTS))
        self.rewards = (self.ways == 0).float() + 0.1 * torch.randn(COUNT, ROBOTS, MOMENTS)

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return self.sensed[index], self.ways[index], self.rewards[index]


def advantages(rewards, values):
    """Return the generalized advantage of each moment."""
    found = torch.zeros_like(rewards)
    last = torch.zeros(len(rewards), device=rewards.device)
    for t in reversed(range(MOMENTS)):
        surprise = rewards[:, t] + GAMMA * values[:, t + 1] - values[:, t]  # cause
        last = surprise + GAMMA * LAMBDA * last  # cause
        found[:, t] = last  # cause
    return found


def mlp(outside):
    return nn.Sequential(
        nn.Linear(SENSED, 160), nn.Tanh(), nn.Linear(160, 160), nn.Tanh(), nn.Linear(160, outside)
    )


class ActorCritic(L.LightningModule):
    def __init__(self, fixed) -> None:
        super().__init__()
        self.fixed = fixed
        self.actor = mlp(WAYS)
        self.critic = mlp(1)
        apart = torch.arange(MOMENTS)[:, None] - torch.arange(MOMENTS)[None]
        discounts = (GAMMA * LAMBDA) ** apart.clamp(min=0) * (apart >= 0)
        self.register_buffer("discounts", discounts.float())

    def training_step(self, batch, batch_idx):
        sensed, ways, rewards = batch
        values = self.critic(sensed).squeeze(2)
        known = values.detach()
        if self.fixed:
            surprises = rewards + GAMMA * known[:, 1:] - known[:, :-1]
            advantage = surprises @ self.discounts
        else:
            advantage = advantages(rewards, known)
        returns = advantage + known[:, :-1]
        chances = self.actor(sensed[:, :-1]).log_softmax(dim=2)
        taken = chances.gather(2, ways[:, :, None]).squeeze(2)
        weight = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
        valued = nn.functional.mse_loss(values[:, :-1], returns)
        loss = valued - (taken * weight).mean()
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Episodes(), batch_size=None, shuffle=True)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(ActorCritic(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
