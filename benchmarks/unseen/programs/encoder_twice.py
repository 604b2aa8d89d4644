"""Actor-critic on stacked frames; actor and critic share an encoder.

cause: policy() and value() each run the shared convolutional encoder on the same frames
accept: @line
"""

import torch
from case import Module, Run, shuffled
from torch import nn

STEPS, ACTIONS = 250, 6


class ActorCritic(Module):
    def __init__(self, share):
        super().__init__()
        self.share = share
        convs = nn.Conv2d(4, 16, 8, 4), nn.Conv2d(16, 32, 4, 2), nn.Conv2d(32, 32, 3, 1)
        layers = [layer for conv in convs for layer in (conv, nn.ReLU())]
        self.encoder = nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 256), nn.ReLU())
        self.actor, self.critic = nn.Linear(256, ACTIONS), nn.Linear(256, 1)

    def policy(self, frames):
        return self.actor(self.encoder(frames)).log_softmax(1)  # cause

    def value(self, frames):
        return self.critic(self.encoder(frames)).squeeze(1)  # cause

    def loss(self, batch):
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
        return -(chosen * advantage).mean() + (returns - value).square().mean() - 0.01 * entropy

    def configure_optimizers(self):
        return torch.optim.RMSprop(self.parameters(), lr=7e-4)


def main(run: Run) -> None:
    actions, returns = torch.randint(ACTIONS, (640,)), torch.randn(640)
    data = shuffled(64, torch.rand(640, 4, 64, 64), actions, returns)
    run.fit(ActorCritic(share=run.fixed), data)
