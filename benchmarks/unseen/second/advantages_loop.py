"""Advantage actor-critic on recorded rollouts, with generalized advantage estimation.

cause: the advantages are taken backwards in time with one-element tensors, five operations a step
accept: host-bound small-kernels @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 400
HORIZON, STATE, ACTIONS = 240, 24, 6
GAMMA, LAMBDA = 0.99, 0.95


def advantages_of(rewards, values, done):
    advantages = torch.zeros(len(rewards))
    last = torch.zeros(())
    for t in reversed(range(len(rewards))):  # cause
        alive = 1 - done[t]  # cause
        delta = rewards[t] + GAMMA * values[t + 1] * alive - values[t]  # cause
        last = delta + GAMMA * LAMBDA * alive * last  # cause
        advantages[t] = last  # cause
    return advantages


def advantages_by_floats(rewards, values, done):
    rewards, values, done = rewards.tolist(), values.tolist(), done.tolist()
    advantages, last = [0.0] * len(rewards), 0.0
    for t in reversed(range(len(rewards))):
        alive = 1 - done[t]
        delta = rewards[t] + GAMMA * values[t + 1] * alive - values[t]
        last = delta + GAMMA * LAMBDA * alive * last
        advantages[t] = last
    return torch.tensor(advantages)


class Rollouts(Dataset):
    def __len__(self) -> int:
        return 200

    def __getitem__(self, i: int):
        states = torch.randn(HORIZON + 1, STATE)
        actions = torch.randint(ACTIONS, (HORIZON,))
        return states, actions, torch.rand(HORIZON), (torch.rand(HORIZON) < 0.01).float()


class ActorCritic(L.LightningModule):
    def __init__(self, by_floats: bool) -> None:
        super().__init__()
        self.advantages = advantages_by_floats if by_floats else advantages_of
        self.body = nn.Sequential(nn.Linear(STATE, 448), nn.Tanh(), nn.Linear(448, 448), nn.Tanh())
        self.policy, self.value = nn.Linear(448, ACTIONS), nn.Linear(448, 1)

    def training_step(self, batch, batch_idx):
        states, actions, rewards, done = batch
        hidden = self.body(states)
        values = self.value(hidden).squeeze(1)
        advantages = self.advantages(rewards, values.detach(), done)  # cause
        log_p = self.policy(hidden[:-1]).log_softmax(-1).gather(1, actions[:, None]).squeeze(1)
        returns = advantages + values[:-1].detach()
        loss = -(advantages * log_p).mean() + 0.5 * (values[:-1] - returns).pow(2).mean()
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-4)


def main(run: Run) -> None:
    data = DataLoader(Rollouts(), batch_size=None, shuffle=True)
    model = ActorCritic(by_floats=run.fixed)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
