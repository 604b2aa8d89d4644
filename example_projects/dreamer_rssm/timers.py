"""The same world model, which dreams as well, with a timer for each of its parts."""

import torch
from rssm import LATENT, STATE, Recurrent, WorldModel
from torch import Tensor, nn
from train import train

DREAMED = 8


class Dream(nn.Module):
    """Goes on without pictures; returns how wide what it expects spreads over the next moments."""

    def __init__(self, world_model: Recurrent) -> None:
        super().__init__()
        self.world_model = world_model

    def forward(self, last: Tensor) -> Tensor:
        state, latent = last.split([STATE, LATENT], dim=1)
        spreads = []
        for _ in range(DREAMED):
            no_torque = state.new_zeros(len(state), 1)
            state, expected = self.world_model.foresee(state, latent, no_torque)
            latent = expected.rsample()
            spreads.append(expected.stddev.mean())
        return torch.stack(spreads).mean()


class Dreamer(WorldModel):
    """Is to be sure of what it expects behind the end of each episode."""

    def __init__(self) -> None:
        super().__init__()
        self.dream = Dream(self.world_model)

    def observe(self, embedded: Tensor, torques: Tensor) -> tuple[Tensor, Tensor]:
        states, kl = super().observe(embedded, torques)
        return states, kl + 0.01 * self.dream(states[:, -1])


if __name__ == "__main__":
    train(Dreamer, batch=8, name="timers", modules=("encoder", "world_model", "dream"))
