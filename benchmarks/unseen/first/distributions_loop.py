"""Policy gradient for an arm of 12 joints, updated on stored trajectories.

cause: one torch.distributions.Normal per joint in a loop, each with its arguments validated
accept: host-bound small-kernels
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.distributions import Independent, Normal
from torch.utils.data import DataLoader, TensorDataset

STEPS = 1000
JOINTS, STATE = 12, 32


class Policy(L.LightningModule):
    def __init__(self, per_joint: bool) -> None:
        super().__init__()
        self.per_joint = per_joint
        self.body = nn.Sequential(nn.Linear(STATE, 400), nn.Tanh(), nn.Linear(400, 400), nn.Tanh())
        self.mean = nn.Linear(400, JOINTS)
        self.log_std = nn.Parameter(torch.zeros(JOINTS))

    def log_prob(self, mean, action):
        std = self.log_std.exp()
        if not self.per_joint:
            dist = Independent(Normal(mean, std, validate_args=False), 1, validate_args=False)
            return dist.log_prob(action), dist.entropy().mean()
        total, entropy = 0.0, 0.0
        for joint in range(JOINTS):  # cause
            dist = Normal(mean[:, joint], std[joint])  # cause
            total = total + dist.log_prob(action[:, joint])  # cause
            entropy = entropy + dist.entropy().mean()  # cause
        return total, entropy

    def training_step(self, batch, batch_idx):
        state, action, advantage = batch
        log_prob, entropy = self.log_prob(self.mean(self.body(state)), action)  # cause
        loss = -(log_prob * advantage).mean() - 0.01 * entropy
        self.log_dict({"policy_loss": loss, "entropy": entropy})
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-4)


def main(run: Run) -> None:
    rollout = TensorDataset(torch.randn(8192, STATE), torch.randn(8192, JOINTS), torch.randn(8192))
    data = DataLoader(rollout, batch_size=128, shuffle=True)
    model = Policy(per_joint=not run.fixed)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
