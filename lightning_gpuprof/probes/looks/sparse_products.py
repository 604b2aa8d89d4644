"""Notes products with one matrix of nearly all zeros, and tries them with a sparse one."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from lightning_gpuprof.probes.looks.call_places import first_shown
from lightning_gpuprof.probes.looks.each_batch import in_each
from lightning_gpuprof.probes.looks.on_data import OnData
from lightning_gpuprof.probes.looks.tensor_values import readable, version
from lightning_gpuprof.probes.stacks.stack_lines import Place
from lightning_gpuprof.records.sparse_products import SparseProduct

_PRODUCTS = frozenset({"matmul", "mm", "__matmul__"})
_SURE = (torch.float32, torch.float64)
LEAST_NUMBERS, MOST_NUMBERS = 1 << 16, 1 << 26
"""Of smaller matrices there is little to gain; larger ones are not counted, for that takes long."""
MOST_NONZERO = 0.1
"""Where more is not 0 a sparse product is slower as a rule: then it is not even tried."""
ROUNDS = 3
MOST_NS = 500_000_000
"""A trial that has taken so long is tried no further."""
_SPREAD = 2_654_435_761
"""Places of a trial's numbers are multiples of it: they lie as if drawn, but nothing is drawn."""


class Size(NamedTuple):
    """All that a trial needs to know of a product."""

    rows: int
    columns: int
    nonzero: int
    width: int
    dtype: torch.dtype
    trained: bool


class Product(NamedTuple):
    """A product with such a matrix."""

    place: Place
    matrix: tuple[int, int]
    """Its number and version: what is the same in both batches stays the same."""
    size: Size
    taken_ns: int


@dataclass
class SparseProducts:
    """Such products of one batch; `seen` is told of each function."""

    products: list[Product] = field(default_factory=list)
    _counted: Any = field(default_factory=WeakIdKeyDictionary)

    def seen(self, call: OnData) -> None:
        """Note a product whose first factor is nearly all zeros and gets no gradient."""
        if call.name not in _PRODUCTS or call.place is None or len(call.given) != 2:
            return
        matrix, other = call.given
        if matrix.requires_grad or matrix.ndim != 2 or other.ndim != 2 or other is matrix:
            return
        if matrix.dtype not in _SURE or not LEAST_NUMBERS <= matrix.numel() <= MOST_NUMBERS:
            return
        if not readable(matrix):
            return
        nonzero = self._nonzero(matrix)
        if not 0 < nonzero <= MOST_NONZERO * matrix.numel():
            return
        rows, columns = matrix.shape
        width, trained = other.shape[1], call.result.requires_grad
        size = Size(rows, columns, nonzero, width, matrix.dtype, trained)
        mark = id(matrix), version(matrix)
        self.products.append(Product(call.place, mark, size, call.taken_ns))

    @torch.no_grad()
    def _nonzero(self, matrix: Tensor) -> int:
        """Count what is not 0, once for each matrix."""
        known: tuple[int, int] | None = self._counted.get(matrix)
        if known is None or known[0] != version(matrix):
            known = self._counted[matrix] = version(matrix), int(matrix.count_nonzero())
        return known[1]


def sparse_products(
    batches: Sequence[SparseProducts], clock: Callable[[], int]
) -> tuple[SparseProduct, ...]:
    """Return the lines that multiply with the same matrix in every batch, the dearest first."""
    tried: dict[Size, dict[str, int]] = {}
    found = []
    for every in in_each([one.products for one in batches], lambda one: (one.place, one.matrix)):
        last = every[-1]
        for one in last:
            if one.size not in tried:
                tried[one.size] = _try(one.size, clock)
        dense_ns = sum(tried[one.size]["dense"] for one in last)
        sparse = {
            layout: sum(tried[one.size][layout] for one in last)
            for layout in ("csr", "coo")
            if all(layout in tried[one.size] for one in last)
        }
        if not sparse:
            continue
        layout = min(sparse, key=sparse.__getitem__)
        size = last[0].size
        found.append(
            SparseProduct(
                calls=len(last),
                shape=(size.rows, size.columns),
                nonzero_frac=size.nonzero / (size.rows * size.columns),
                taken_ns=min(sum(one.taken_ns for one in ones) for ones in every),
                dense_ns=dense_ns,
                sparse_ns=sparse[layout],
                layout=layout,
                places=first_shown([last[0].place]),
            )
        )
    return tuple(sorted(found, key=lambda one: -one.dense_ns))


def _try(size: Size, clock: Callable[[], int]) -> dict[str, int]:
    """Return what the product takes, forward and backward, by the matrix's layout."""
    numbers = size.rows * size.columns
    places = torch.arange(size.nonzero, device="cpu") % numbers * (_SPREAD % numbers) % numbers
    indices = torch.stack((places // size.columns, places % size.columns))
    values = torch.ones(size.nonzero, dtype=size.dtype, device="cpu")
    taken: dict[str, int] = {}
    with warnings.catch_warnings(), torch.set_grad_enabled(size.trained):
        warnings.simplefilter("ignore")  # CSR is said to be in beta
        coo = torch.sparse_coo_tensor(indices, values, (size.rows, size.columns)).coalesce()
        for layout, matrix in (
            ("dense", coo.to_dense()),
            ("csr", coo.to_sparse_csr()),
            ("coo", coo),
        ):
            try:
                taken[layout] = _least(matrix, size, clock)
            except (RuntimeError, NotImplementedError):  # a build without such a product
                continue
    return taken


def _least(matrix: Tensor, size: Size, clock: Callable[[], int]) -> int:
    taken: list[int] = []
    while len(taken) < ROUNDS and sum(taken) < MOST_NS:
        taken.append(_pass(matrix, size, clock))
    return min(taken)


def _pass(matrix: Tensor, size: Size, clock: Callable[[], int]) -> int:
    other = torch.ones(size.columns, size.width, dtype=size.dtype, device="cpu")
    other.requires_grad_(size.trained)
    begin_ns = clock()
    result = matrix @ other
    if size.trained:
        torch.autograd.grad(result, other, torch.ones_like(result))
    return clock() - begin_ns
