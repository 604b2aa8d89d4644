"""A four-legged robot learns to trot: the update phase of PPO on a stored rollout.

seen in: nikhilbarhate99/PPO-PyTorch issue 60, "Continuous action space should use Independent
Normal instead of MultivariateNormal", and pytorch/pytorch issue 73582

cause: the policy's joints are independent, yet it is a MultivariateNormal with a diagonal
    covariance matrix for each state, so each step factorizes and solves thousands of small matrices
right: says that the policy's MultivariateNormal (its Cholesky factors and triangular solves) takes
    the time, or points at a marked line first; its change is Independent(Normal(...), 1), or at
    least scale_tril in place of the covariance
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.distributions import Independent, MultivariateNormal, Normal
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 600
BATCH, SEEN, JOINTS, WIDTH = 768, 48, 12, 256


def layers(out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(SEEN, WIDTH), nn.ELU(), nn.Linear(WIDTH, WIDTH), nn.ELU(), nn.Linear(WIDTH, out)
    )


class Trot(L.LightningModule):
    def __init__(self, independent: bool) -> None:
        super().__init__()
        self.independent = independent
        self.actor, self.critic = layers(JOINTS), layers(1)
        self.log_spread = nn.Parameter(torch.full((JOINTS,), -0.5))

    def policy(self, states):
        means = self.actor(states)
        spreads = self.log_spread.exp().expand_as(means)
        if self.independent:
            return Independent(Normal(means, spreads), 1)
        covariances = torch.diag_embed(spreads.square())  # cause
        return MultivariateNormal(means, covariances)  # cause

    def training_step(self, batch, batch_idx):
        states, moves, old_chances, advantages, returns = batch
        policy = self.policy(states)
        ratios = (policy.log_prob(moves) - old_chances).exp()  # cause
        clipped = ratios.clamp(0.8, 1.2)
        actor_loss = -torch.minimum(ratios * advantages, clipped * advantages).mean()
        critic_loss = nn.functional.mse_loss(self.critic(states).squeeze(1), returns)
        entropy = policy.entropy().mean()
        self.log_dict({"actor": actor_loss, "critic": critic_loss, "entropy": entropy})
        return actor_loss + 0.5 * critic_loss - 0.003 * entropy

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-4, eps=1e-5, fused=True)


def main(run: Run) -> None:
    size = 48_000
    moves, advantages, returns = torch.randn(size, JOINTS), torch.randn(size), torch.randn(size)
    old_chances = Independent(Normal(torch.zeros(JOINTS), 1.0), 1).log_prob(moves)
    rollout = TensorDataset(torch.randn(size, SEEN), moves, old_chances, advantages, returns)
    batches = BatchSampler(RandomSampler(rollout), BATCH, drop_last=True)
    data = DataLoader(rollout, sampler=batches, batch_size=None)
    trainer = L.Trainer(callbacks=run.callbacks, gradient_clip_val=1.0, **run.trainer)
    trainer.fit(Trot(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
