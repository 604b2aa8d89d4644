"""Policy gradient for an arm of 12 joints, updated on stored trajectories.

cause: one torch.distributions.Normal per joint in a loop, each with its arguments validated
accept: host-bound small-kernels
"""

import torch
from case import Module, Run, mlp, shuffled
from torch import nn
from torch.distributions import Independent, Normal

STEPS, JOINTS, STATE = 1000, 12, 32


class Policy(Module):
    def __init__(self, per_joint):
        super().__init__()
        self.per_joint = per_joint
        self.net = mlp(STATE, 400, 400, JOINTS, act=nn.Tanh)
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

    def loss(self, batch):
        state, action, advantage = batch
        log_prob, entropy = self.log_prob(self.net(state), action)  # cause
        self.log("entropy", entropy)
        return -(log_prob * advantage).mean() - 0.01 * entropy


def main(run: Run) -> None:
    rollout = torch.randn(8192, STATE), torch.randn(8192, JOINTS), torch.randn(8192)
    run.fit(Policy(per_joint=not run.fixed), shuffled(128, *rollout))
