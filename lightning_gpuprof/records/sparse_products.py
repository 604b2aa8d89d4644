"""Products with matrices that are nearly all zeros, and what a sparse one took."""

from msgspec import Struct

from lightning_gpuprof.records.module_calls import CallPlace


class SparseProduct(Struct, frozen=True):
    """Products of a line with a matrix that stays the same, and is kept as dense.

    Args:
        calls: How often per batch.
        shape: The matrix's; of several the largest one's.
        nonzero_frac: Share of its numbers that are not 0.
        taken_ns: Host time per batch of the products, forward.
        dense_ns: What they took in a trial of their sizes, forward and, where gradients go back
            through them, backward.
        sparse_ns: The same with as many numbers in a sparse tensor.
        layout: Of that: `csr` or `coo`, whichever was faster.
        places: The line.
    """

    calls: int
    shape: tuple[int, int]
    nonzero_frac: float
    taken_ns: int
    dense_ns: int
    sparse_ns: int
    layout: str
    places: tuple[CallPlace, ...]
