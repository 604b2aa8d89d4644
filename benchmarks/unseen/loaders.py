"""Eight training loaders, and for each its batches in memory; `benchmarks/try.py` compares them."""

from collections.abc import Callable, Iterator
from typing import Any

import lightning as L
import torch
from case import Supervised, mlp
from torch.utils.data import DataLoader, Dataset, IterableDataset

ROWS, WIDTH, SIZE = 4096, 64, 64
TABLE = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(0))
TEXT = [",".join(f"{value:.4f}" for value in row) for row in TABLE.tolist()]


def make_trainer() -> L.Trainer:
    off = ("enable_progress_bar", "enable_model_summary", "enable_checkpointing", "logger")
    torch.set_num_threads(1)
    return L.Trainer(max_epochs=-1, accelerator="cpu", **dict.fromkeys(off, False))


def make_model() -> L.LightningModule:
    return Supervised(mlp(WIDTH, 512, 512, 1), loss=lambda scores, x: scores.square().mean())


class Rows(Dataset[Any]):
    def __init__(self, make: Callable[[int], torch.Tensor]) -> None:
        self.make = make

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> Any:
        return self.make(index), 0.0


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return ((parsed(index), 0.0) for index in range(ROWS))


def parsed(index: int) -> torch.Tensor:
    return torch.tensor([float(cell) for cell in TEXT[index].split(",")])


def doubled(samples: list[Any]) -> Any:
    rows = [[2 * value for value in row.tolist()] for row, _ in samples]
    return torch.tensor(rows), torch.zeros(len(rows))


def padded(samples: list[Any]) -> Any:
    rows = [row[: 1 + index % WIDTH] for index, (row, _) in enumerate(samples)]
    filled = [torch.nn.functional.pad(row, (0, WIDTH - len(row))) for row in rows]
    return torch.stack(filled), torch.zeros(len(rows))


def _loader(make: Callable[[int], torch.Tensor] = TABLE.__getitem__, **options: Any) -> Any:
    return DataLoader(Rows(make), batch_size=SIZE, **options)


def python_rows() -> Any:
    return _loader(lambda index: torch.tensor(TABLE[index].tolist()))


def csv_text() -> Any:
    return _loader(parsed)


def slow_collate() -> Any:
    return _loader(collate_fn=doubled)


def ragged() -> Any:
    return _loader(collate_fn=padded)


def iterable() -> Any:
    return DataLoader(Stream(), batch_size=SIZE)


def whole_batches() -> Any:
    return DataLoader([(part, 0.0) for part in TABLE.sort(0).values.split(SIZE)], batch_size=None)


def one_worker() -> Any:
    return _loader(parsed, num_workers=1)


def two_workers() -> Any:
    return _loader(parsed, num_workers=2, persistent_workers=True)


def __getattr__(name: str) -> Callable[[], Any]:
    """Return of each loader the form with its batches in memory, such as `ragged_in_memory`."""
    make, suffix, _ = name.partition("_in_memory")
    if not suffix:
        raise AttributeError(name)
    return lambda: DataLoader(list(globals()[make]()), batch_size=None)
