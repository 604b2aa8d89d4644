"""The models whose memory is predicted and measured: small ones, and large ones for a GPU.

Each function here fits `--model benchmarks/memory_models.py:mlp`: it returns the model and what
gives a batch of a size.
"""

from collections.abc import Callable
from typing import Any

import torch
from lightning.pytorch import LightningModule
from torch import nn
from torch.nn import functional

Made = tuple[LightningModule, Callable[[int], Any]]


class Model(LightningModule):
    """A network whose output is a loss, trained by AdamW."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def training_step(self, batch: Any, batch_idx: int = 0) -> torch.Tensor:
        loss: torch.Tensor = self.network(batch)
        return loss

    def transfer_batch_to_device(self, batch: Any, device: torch.device, _: int) -> Any:
        return batch.to(device, non_blocking=True, copy=True)  # a copy on a CPU too: it counts

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-5, foreach=True)  # as CUDA chooses


class Squared(nn.Module):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.network(batch).float().square().mean()


class Residual(nn.Module):
    def __init__(self, wide: int, out: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(wide, out, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(inplace=True),
            nn.Conv2d(out, out, 3, padding=1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.skip = nn.Conv2d(wide, out, 1, stride=2, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.body(x) + self.skip(x))


class Transformer(nn.Module):
    def __init__(self, words: int, wide: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, wide)
        layer = nn.TransformerEncoderLayer(
            wide, wide // 64, 4 * wide, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(wide, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.layers(self.embed(tokens)))
        return functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def mlp(*, large: bool = False) -> Made:
    wide = 2048 if large else 256
    layers: list[nn.Module] = [nn.Linear(64, wide), nn.GELU()]
    for _ in range(2):
        layers += [nn.Linear(wide, wide), nn.GELU()]
    return Model(Squared(nn.Sequential(*layers, nn.Linear(wide, 16)))), Fixed(64)


def resnet(*, large: bool = False) -> Made:
    wide, side = (64, 64) if large else (16, 32)
    blocks = [Residual(wide * 2**i, wide * 2 ** (i + 1)) for i in range(3)]
    stem = [nn.Conv2d(3, wide, 3, padding=1, bias=False), nn.BatchNorm2d(wide), nn.ReLU()]
    tail = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(wide * 8, 10)]
    network: nn.Module = Squared(nn.Sequential(*stem, *blocks, *tail))
    # Channels last, as it should be trained: otherwise cuDNN converts in workspaces of its own.
    return Model(network.to(memory_format=torch.channels_last)), Fixed(3, side, side)


def transformer(*, large: bool = False) -> Made:
    words, wide, layers, length = (8192, 512, 6, 256) if large else (512, 64, 2, 64)
    return Model(Transformer(words, wide, layers)), Tokens(words, length, length)


def varying(*, large: bool = False) -> Made:
    """A transformer whose batches are padded to their longest sample."""
    words, wide, layers, length = (8192, 512, 6, 256) if large else (512, 64, 2, 64)
    return Model(Transformer(words, wide, layers)), Tokens(words, length // 4, length)


class Fixed:
    """Batches of samples of one shape; images lie channels last."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape

    def __call__(self, size: int) -> torch.Tensor:
        batch = torch.randn(size, *self.shape)
        return batch.contiguous(memory_format=torch.channels_last) if batch.dim() == 4 else batch

    longest = __call__


class Tokens:
    """Batches of tokens of a length between two, drawn anew for each batch."""

    def __init__(self, words: int, shortest: int, longest: int) -> None:
        self.words, self.lengths = words, (shortest, longest)
        self.random = torch.Generator().manual_seed(0)

    def __call__(self, size: int) -> torch.Tensor:
        low, high = self.lengths
        # Padded to the longest; of a few, since samplers put such of one length together.
        drawn = torch.randint(low, high + 1, (4,), generator=self.random)
        return torch.randint(0, self.words, (size, int(drawn.max())))

    def longest(self, size: int) -> torch.Tensor:
        return torch.randint(0, self.words, (size, self.lengths[1]))


def longest_of(name: str, *, large: bool = False) -> Any:
    """Return a model with batches of its longest samples: the peak is theirs."""
    model, batches = MODELS[name](large=large)
    return model, batches.longest  # type: ignore[attr-defined]


MODELS = {"mlp": mlp, "resnet": resnet, "transformer": transformer, "varying": varying}
