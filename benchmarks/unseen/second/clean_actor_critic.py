"""Continuous control: actor and critic by manual optimization, from a replay buffer in arrays.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

STEPS = 350
STATE, ACTION, CAPACITY, BATCH = 32, 8, 20_000, 192


class Replay(IterableDataset):
    """Draws whole batches from a ring of transitions, allocated once."""

    def __init__(self) -> None:
        self.states = torch.randn(CAPACITY, STATE)
        self.next_states = torch.randn(CAPACITY, STATE)
        self.actions = torch.rand(CAPACITY, ACTION) * 2 - 1
        self.rewards = torch.rand(CAPACITY)

    def __iter__(self):
        while True:
            picked = torch.randint(CAPACITY, (BATCH,))
            yield (
                self.states[picked],
                self.actions[picked],
                self.rewards[picked],
                self.next_states[picked],
            )


def net(inside: int, outside: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inside, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, outside)
    )


class Agent(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.actor, self.critic = net(STATE, ACTION), net(STATE + ACTION, 1)
        self.slow_critic = net(STATE + ACTION, 1).requires_grad_(False)
        self.slow_critic.load_state_dict(self.critic.state_dict())

    def worth(self, critic, states, actions):
        return critic(torch.cat([states, actions], dim=1)).squeeze(1)

    def training_step(self, batch, batch_idx):
        states, actions, rewards, next_states = batch
        actor_optimizer, critic_optimizer = self.optimizers()
        with torch.no_grad():
            then = self.actor(next_states).tanh()
            wanted = rewards + 0.98 * self.worth(self.slow_critic, next_states, then)
        critic_loss = nn.functional.mse_loss(self.worth(self.critic, states, actions), wanted)
        critic_optimizer.zero_grad()
        self.manual_backward(critic_loss)
        critic_optimizer.step()

        self.toggle_optimizer(actor_optimizer)
        actor_loss = -self.worth(self.critic, states, self.actor(states).tanh()).mean()
        actor_optimizer.zero_grad()
        self.manual_backward(actor_loss)
        actor_optimizer.step()
        self.untoggle_optimizer(actor_optimizer)

        slow, quick = list(self.slow_critic.parameters()), list(self.critic.parameters())
        with torch.no_grad():
            torch._foreach_lerp_(slow, quick, 0.005)
        self.log_dict({"critic_loss": critic_loss, "actor_loss": actor_loss})

    def configure_optimizers(self):
        return (
            torch.optim.Adam(self.actor.parameters(), lr=3e-4, fused=True),
            torch.optim.Adam(self.critic.parameters(), lr=3e-4, fused=True),
        )


def main(run: Run) -> None:
    data = DataLoader(Replay(), batch_size=None)
    options = {**run.trainer, "max_steps": 2 * run.steps}  # each optimizer's step counts
    L.Trainer(callbacks=run.callbacks, **options).fit(Agent(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
