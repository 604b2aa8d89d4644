"""Actor-critic on stacked frames; actor and critic share an encoder.

cause: policy() and value() each run the shared convolutional encoder on the same frames
accept: @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 250
ACTIONS = 6


class ActorCritic(L.LightningModule):
    def __init__(self, share: bool) -> None:
        super().__init__()
        self.share = share
        self.encoder = nn.Sequential(
            nn.Conv2d(4, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(),
            nn.Conv2d(32, 32, 3, 1), nn.ReLU(), nn.Flatten(), nn.LazyLinear(256), nn.ReLU(),
        )  # fmt: skip
        self.actor, self.critic = nn.Linear(256, ACTIONS), nn.Linear(256, 1)
        self.encoder(torch.zeros(1, 4, 64, 64))

    def policy(self, frames):
        return self.actor(self.encoder(frames)).log_softmax(1)  # cause

    def value(self, frames):
        return self.critic(self.encoder(frames)).squeeze(1)  # cause

    def training_step(self, batch, batch_idx):
        frames, action, returns = batch
        if self.share:
            features = self.encoder(frames)
            log_prob = self.actor(features).log_softmax(1)
            value = self.critic(features).squeeze(1)
        else:
            log_prob, value = self.policy(frames), self.value(frames)  # cause
        advantage = (returns - value).detach()
        chosen = log_prob.gather(1, action[:, None]).squeeze(1)
        entropy = -(log_prob.exp() * log_prob).sum(1).mean()
        loss = -(chosen * advantage).mean() + (returns - value).square().mean() - 0.01 * entropy
        self.log_dict({"loss": loss, "entropy": entropy})
        return loss

    def configure_optimizers(self):
        return torch.optim.RMSprop(self.parameters(), lr=7e-4)


def main(run: Run) -> None:
    rollout = TensorDataset(
        torch.rand(640, 4, 64, 64), torch.randint(ACTIONS, (640,)), torch.randn(640)
    )
    data = DataLoader(rollout, batch_size=64, shuffle=True)
    model = ActorCritic(share=run.fixed)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
