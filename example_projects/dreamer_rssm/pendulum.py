"""Pictures of a swinging pendulum under random torques: simulated, nothing to download."""

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

SIDE, LENGTH = 24, 16


def simulate(count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return angles, torques and rewards, each (count, LENGTH)."""
    generator = torch.Generator().manual_seed(0)
    angle = (torch.rand(count, generator=generator) - 0.5) * 6
    speed = torch.randn(count, generator=generator)
    torques = torch.randn(count, LENGTH, generator=generator)
    angles = []
    for moment in range(LENGTH):
        speed = 0.98 * speed + 0.15 * (torch.sin(angle) + torques[:, moment])
        angle = angle + 0.2 * speed
        angles.append(angle)
    swings = torch.stack(angles, dim=1)
    return swings, torques, torch.cos(swings)


def draw(angles: Tensor) -> Tensor:
    """Draw each angle as a picture (..., 1, SIDE, SIDE) of a rod that hangs from the middle."""
    axis = torch.linspace(-1, 1, SIDE)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    sin, cos = torch.sin(angles)[..., None, None], torch.cos(angles)[..., None, None]
    along = (x * sin + y * cos).clamp(0, 0.8)
    distance = (x - along * sin) ** 2 + (y - along * cos) ** 2
    return torch.exp(-distance / 0.01).unsqueeze(-3)


def episodes(count: int) -> TensorDataset:
    """Return (pictures, torques, rewards) of `count` episodes."""
    angles, torques, rewards = simulate(count)
    return TensorDataset(draw(angles), torques, rewards)
