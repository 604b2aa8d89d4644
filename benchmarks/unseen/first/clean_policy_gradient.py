"""REINFORCE on a batch of simulated carts, stepped together as tensors in the dataset.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.distributions import Categorical
from torch.utils.data import DataLoader, IterableDataset

STEPS = 400


class Rollouts(IterableDataset):
    """All carts of a rollout are one tensor; the policy that plays is the one that is trained."""

    def __init__(self, policy: nn.Module, carts: int = 256, horizon: int = 8) -> None:
        self.policy, self.carts, self.horizon = policy, carts, horizon

    @torch.no_grad()
    def play(self):
        state, rows = torch.randn(self.carts, 16), []
        for _ in range(self.horizon):
            action = Categorical(logits=self.policy(state)).sample()
            push = nn.functional.one_hot(action, 4).float().repeat(1, 4)
            rows.append((state, action, -state.square().mean(1)))
            state = 0.95 * state + 0.05 * push
        states, actions, rewards = (torch.stack(column) for column in zip(*rows, strict=True))
        returns = rewards.flip(0).cumsum(0).flip(0)
        return states.flatten(0, 1), actions.flatten(), (returns - returns.mean()).flatten()

    def __iter__(self):
        while True:
            rollout = self.play()
            for _ in range(8):  # updates on each rollout
                yield rollout


class Policy(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(),
                                 nn.Linear(256, 4))  # fmt: skip

    def training_step(self, batch, batch_idx):
        states, actions, advantage = batch
        scores = self.net(states).log_softmax(1)
        loss = -(scores.gather(1, actions[:, None]).squeeze(1) * advantage).mean()
        self.log("policy_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-4)


def main(run: Run) -> None:
    model = Policy()
    data = DataLoader(Rollouts(model.net), batch_size=None)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
