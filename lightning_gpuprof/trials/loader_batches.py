"""Batches of any size, as the train loader of the user's program would make them."""

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain, cycle, islice
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from lightning_gpuprof.adapters.fake_tensors import real_tensors, value_errors
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.tensors import count_samples, leaves_of

SAMPLES_READ = 64
"""Samples to read of a dataset, unless a batch of the program has more. Larger batches repeat
them."""


@dataclass(frozen=True)
class LoaderBatches:
    """Makes batches of any size, and says how."""

    batch: Callable[[int], Any]
    own_size: int
    """The batch size of the program."""
    samples: int | None
    """The number of samples of the dataset; None if unknown."""
    note: str
    """How batches of other sizes are made, as a sentence."""


def batches_like(loader: Any, first: Any, to_device: Callable[[Any], Any]) -> LoaderBatches:
    """Make batches of other sizes than the program does.

    If the loader collates samples, its `collate_fn` collates as many as are wanted. If it
    receives whole batches, from an iterable dataset or a loader of the user's own, the tensors of
    the first batch get another first dimension.

    Args:
        loader: The train loader, or several of them in a list or dict.
        first: The first batch, as `training_step` receives it.
        to_device: Applies the hooks that transfer a batch to the device.

    Raises:
        ConfigError: Batches of other sizes cannot be made.
    """
    own_size = count_samples(first)
    if isinstance(loader, DataLoader) and loader.batch_sampler is not None:
        # The first batch of a short dataset has fewer samples than the program asks for.
        return _collated(loader, loader.batch_size or own_size or 1, to_device)
    sizes = {leaf.shape[0] for leaf in _tensors(first) if leaf.dim()}
    if len(sizes) != 1 or sizes != {own_size}:
        lengths = " and ".join(str(size) for size in sorted(sizes))
        tensors = f"tensors have lengths of {lengths}" if sizes else "tensors are unknown"
        raise ConfigError(
            "There are several train loaders, or one that makes whole batches. Batches of other "
            f"sizes cannot be made from the first, whose {tensors}. "
            "Pass --model with a function that makes batches."
        )
    assert own_size is not None
    return LoaderBatches(
        lambda size: _stretched(first, size),
        own_size,
        samples=None,
        note="There are several train loaders, or one that makes whole batches, here of "
        f"{own_size}. A batch of another size is the first batch with another first dimension of "
        "all tensors; later batches may be longer.",
    )


def _collated(
    loader: "DataLoader[Any]", own_size: int, to_device: Callable[[Any], Any]
) -> LoaderBatches:
    read = list(islice(_samples(loader), max(SAMPLES_READ, own_size)))
    collate: Any = loader.collate_fn

    def batch(size: int) -> Any:
        samples = list(islice(cycle(read), size))
        try:
            collated = collate(samples)
        except value_errors():
            # It reads values of the samples, such as their lengths: spend the memory.
            with real_tensors():
                collated = collate(samples)
        return to_device(collated)

    return LoaderBatches(
        batch,
        own_size,
        samples=None if _is_iterable(loader) else len(loader.dataset),  # type: ignore[arg-type]
        note="A batch of another size is made by the train loader's collate_fn from the first "
        f"{len(read)} samples that the loader draws, repeated if it is larger; others may "
        "be longer.",
    )


def _is_iterable(loader: "DataLoader[Any]") -> bool:
    return isinstance(loader.dataset, IterableDataset)


def _samples(loader: "DataLoader[Any]") -> Iterator[Any]:
    if _is_iterable(loader):
        return iter(loader.dataset)
    batches: Iterable[list[int]] = loader.batch_sampler or ()
    return (loader.dataset[index] for index in chain.from_iterable(batches))


def _tensors(batch: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in leaves_of(batch) if isinstance(leaf, torch.Tensor))


def _stretched(batch: Any, size: int) -> Any:
    longer = {
        id(leaf): leaf.new_empty((size, *leaf.shape[1:])) for leaf in _tensors(batch) if leaf.dim()
    }
    return deepcopy(batch, longer)
