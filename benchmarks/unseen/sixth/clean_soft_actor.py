"""Reaching for a target: soft actor-critic from a replay of tensors, optimized by hand.

accept: none
"""

import copy

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

STEPS = 1500
BATCH, SEEN, MOVES, WIDTH = 384, 24, 6, 256


class Replay(IterableDataset):
    """Yields whole batches, drawn by one index each, for ever."""

    def __init__(self, size: int) -> None:
        self.states, self.after = torch.randn(2, size, SEEN)
        self.moves = torch.rand(size, MOVES) * 2 - 1
        self.rewards = torch.randn(size)

    def __iter__(self):
        while True:
            rows = torch.randint(len(self.rewards), (BATCH,))
            yield self.states[rows], self.moves[rows], self.rewards[rows], self.after[rows]


def layers(into: int, out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(into, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, out)
    )


class SoftActor(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.actor, self.critic = layers(SEEN, 2 * MOVES), layers(SEEN + MOVES, 1)
        self.target = copy.deepcopy(self.critic).requires_grad_(False)

    def act(self, states):
        mean, spread = self.actor(states).chunk(2, dim=1)
        spread = spread.clamp(-5, 1)
        noise = torch.randn_like(mean)
        moves = torch.tanh(mean + noise * spread.exp())
        chance = -0.5 * noise.square() - spread - torch.log(1 - moves.square() + 1e-6)
        return moves, chance.sum(dim=1)

    def training_step(self, batch, batch_idx):
        states, moves, rewards, after = batch
        actors, critics = self.optimizers()

        with torch.no_grad():
            next_moves, chance = self.act(after)
            worth = self.target(torch.cat([after, next_moves], dim=1)).squeeze(1)
            wanted = rewards + 0.99 * (worth - 0.1 * chance)
        guess = self.critic(torch.cat([states, moves], dim=1)).squeeze(1)
        critic_loss = nn.functional.mse_loss(guess, wanted)
        critics.zero_grad()
        self.manual_backward(critic_loss)
        critics.step()

        self.toggle_optimizer(actors)
        own, chance = self.act(states)
        worth = self.critic(torch.cat([states, own], dim=1)).squeeze(1)
        actor_loss = (0.1 * chance - worth).mean()
        actors.zero_grad()
        self.manual_backward(actor_loss)
        actors.step()
        self.untoggle_optimizer(actors)

        with torch.no_grad():
            torch._foreach_lerp_(
                list(self.target.parameters()), list(self.critic.parameters()), 0.005
            )
        self.log_dict({"critic_loss": critic_loss, "actor_loss": actor_loss})

    def configure_optimizers(self):
        return [
            torch.optim.Adam(self.actor.parameters(), lr=3e-4, fused=True),
            torch.optim.Adam(self.critic.parameters(), lr=3e-4, fused=True),
        ]


def main(run: Run) -> None:
    data = DataLoader(Replay(50_000), batch_size=None)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(SoftActor(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
