"""Finds the tensors of a batch, and counts its samples and bytes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ctypes import string_at
from dataclasses import fields, is_dataclass
from typing import Any
from zlib import crc32

from torch import Tensor, strided
from torch.nn.utils.rnn import PackedSequence

from lightning_gpuprof.adapters.torch_tensors import storage_key, stored_values, tree_leaves

CHECKSUM_BYTES = 2**20
Path = tuple[Any, ...]
"""The keys and positions that lead to a tensor."""
_COUNTS = ("num_graphs", "batch_size")
"""Attributes in which batches of graph and tensor-dict libraries hold their number of samples."""


def count_samples(batch: Any) -> int | None:
    """Return how many samples a batch holds, or None if that is unknown.

    The first of these that the batch has gives the number: its own count (`num_graphs` of PyTorch
    Geometric, `batch_size` of DGL and TensorDict), a packed sequence, a list with a dict per sample
    (as detection models take), or the first dimension that most of its tensors share. No value is
    read from the device.

    >>> import torch
    >>> count_samples({"image": torch.zeros(8, 3), "label": torch.zeros(8)})
    8
    >>> count_samples((torch.zeros(4, 2), {"mask": torch.zeros(4)}))
    4
    >>> count_samples([{"boxes": torch.zeros(5, 4)}, {"boxes": torch.zeros(2, 4)}])
    2
    >>> count_samples("text") is None
    True
    """
    sizes: Counter[int] = Counter()
    for certain, size in _sizes(batch):
        if certain:
            return size
        sizes[size] += 1
    return sizes.most_common(1)[0][0] if sizes else None


def first_dimension(batch: Any) -> int:
    """Return the first dimension of the first tensor in a batch, or -1.

    This is cheap enough to be called in every step.

    >>> from torch import zeros
    >>> first_dimension((zeros(8, 3), zeros(8)))
    8
    >>> first_dimension({"x": zeros(4)}), first_dimension("text"), first_dimension(zeros(()))
    (4, -1, -1)
    """
    return next(iter(first_shape(batch)), -1)


def first_shape(batch: Any) -> Sequence[int]:
    """Return the shape of the first tensor in a batch; of a nested tensor the first dimension.

    Empty if there is no tensor.

    >>> from torch import zeros
    >>> tuple(first_shape({"x": (zeros(8, 3), zeros(8))})), first_shape("text")
    ((8, 3), ())
    """
    while not isinstance(batch, Tensor):
        if isinstance(batch, (list, tuple)) and batch:
            batch = batch[0]
        elif isinstance(batch, Mapping) and batch:
            batch = next(iter(batch.values()))
        else:
            return ()
    try:
        return batch.shape
    except RuntimeError:  # a nested tensor
        return (batch.size(0),)


def tensors_with_paths(value: Any, path: Path = ()) -> Iterator[tuple[Path, Tensor]]:
    """Yield the tensors in mappings, lists and tuples, with the keys and positions to each.

    >>> import torch
    >>> [path for path, _ in tensors_with_paths({"boxes": [torch.ones(1), torch.ones(2)]})]
    [('boxes', 0), ('boxes', 1)]
    """
    if isinstance(value, Tensor):
        yield path, value
        return
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    for key, item in items:
        yield from tensors_with_paths(item, (*path, key))


def tensor_bytes(batch: Any) -> int:
    """Return the bytes of the tensors in a batch or in a step's outputs.

    >>> import torch
    >>> tensor_bytes({"tokens": torch.zeros(8, 100), "length": torch.zeros(8)})
    3232
    """
    return sum(_bytes(leaf) for leaf in tree_leaves(batch) if isinstance(leaf, Tensor))


def array_bytes(value: Any) -> int:
    """Return the bytes of the tensors and arrays in a value.

    >>> import numpy, torch
    >>> array_bytes([torch.zeros(8), {"text": "abc", "mask": numpy.zeros(4, dtype=bool)}])
    36
    """
    return sum(
        _bytes(leaf) if isinstance(leaf, Tensor) else int(getattr(leaf, "nbytes", 0))
        for leaf in tree_leaves(value)
    )


def held_bytes(value: Any) -> int:
    """Return the memory on the host that a value holds, once it has been moved to the host.

    A tensor on the CPU holds its whole storage, however small the part of it that it shows. Moved
    from a device, it is a copy.

    >>> import torch
    >>> logits = torch.zeros(4, 100)
    >>> held_bytes([logits[:, :1], logits.argmax(1)])
    1632
    """
    storages: dict[int, int] = {}
    for leaf in tree_leaves(value):
        if not isinstance(leaf, Tensor):
            storages[id(leaf)] = int(getattr(leaf, "nbytes", 0))
        elif leaf.device.type == "cpu" and leaf.layout is strided:
            storages[storage_key(leaf)] = leaf.untyped_storage().nbytes()
        else:
            storages[id(leaf)] = _bytes(leaf)
    return sum(storages.values())


def checksum(batch: Any) -> int | None:
    """Return a checksum of a batch: the first MiB of every leaf.

    None if it has no tensor on a CPU.

    Memory is read as it is. Tensors whose values do not lie one after the other are left out.

    >>> import torch
    >>> checksum(torch.arange(3)) == checksum([torch.arange(3)]) != checksum(torch.arange(1, 4))
    True
    >>> checksum("text") is None
    True
    """
    value, tensors = 0, 0
    for leaf in tree_leaves(batch):
        if not isinstance(leaf, Tensor):
            value = crc32(repr(leaf).encode()[:CHECKSUM_BYTES], value) if _is_plain(leaf) else value
        elif leaf.device.type == "cpu" and leaf.layout is strided and leaf.is_contiguous():
            tensors += 1
            value = crc32(string_at(leaf.data_ptr(), min(leaf.nbytes, CHECKSUM_BYTES)), value)
    return value if tensors else None


def _is_plain(leaf: object) -> bool:
    return isinstance(leaf, str | bytes | int | float)


def leaves_of(value: Any) -> Iterator[Any]:
    """Yield the leaves of nested tuples, lists and mappings.

    >>> list(leaves_of({"a": [1, (2,)], "b": None}))
    [1, 2, None]
    """
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        yield value
        return
    for part in value:
        yield from leaves_of(part)


def _bytes(tensor: Tensor) -> int:
    try:
        return tensor.nbytes
    except (RuntimeError, NotImplementedError):  # sparse: count its values
        return stored_values(tensor) * tensor.element_size() if tensor.is_sparse else 0


def _sizes(part: Any) -> Iterator[tuple[bool, int]]:
    """Yield candidates for the number of samples in a batch, as pairs (certain, size)."""
    if isinstance(part, Tensor):
        if part.dim():
            yield False, part.size(0)
        return
    if isinstance(part, PackedSequence):
        # batch_sizes always lies on the CPU, so that reading it is no host sync.
        yield True, int(part.batch_sizes[0])
        return
    declared = _declared(part)
    if declared is not None:
        yield True, declared
    elif isinstance(part, Mapping):
        yield from _sizes_of_all(part.values())
    elif isinstance(part, Sequence) and not isinstance(part, (str, bytes)):
        if part and all(isinstance(sample, Mapping) for sample in part):
            yield True, len(part)
        yield from _sizes_of_all(part)
    elif is_dataclass(part):
        yield from _sizes_of_all(getattr(part, field.name) for field in fields(part))


def _sizes_of_all(parts: Any) -> Iterator[tuple[bool, int]]:
    for part in parts:
        yield from _sizes(part)


def _declared(part: Any) -> int | None:
    for name in _COUNTS:
        value = getattr(part, name, None)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, tuple) and value and isinstance(value[0], int):
            return value[0]  # the batch_size of a TensorDict is a torch.Size
    return None
