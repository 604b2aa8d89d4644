"""Tensors that a line takes apart by indexing, part after part."""

from msgspec import Struct

from lightning_gpuprof.records.module_calls import CallPlace


class TakenApart(Struct, frozen=True):
    """Tensors that a line indexes part after part (`x[:, t]`), and which get a gradient.

    Args:
        slices: Parts that are taken per batch.
        tensors: Of how many tensors.
        numbers: Numbers in one of these.
        dim: Along which dimension.
        single: Each part is one place of it (`x[:, t]`, not `x[:, t:u]`).
        with_ns: Forward and backward pass of these parts as they are, tried with zeros; None where
            that was not tried.
        without_ns: The same with all parts of a tensor made at once (`unbind`, `split`).
        places: The line.
    """

    slices: int
    tensors: int
    numbers: int
    dim: int
    single: bool
    with_ns: int | None
    without_ns: int | None
    places: tuple[CallPlace, ...]
