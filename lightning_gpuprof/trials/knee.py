"""The batch size from which on more memory buys little throughput."""

from collections.abc import Mapping
from dataclasses import dataclass

MIN_GAIN = 0.05
"""More memory that buys less than this share of throughput is not worth its risks."""


@dataclass(frozen=True)
class Knee:
    """The smallest batch size that trains nearly as fast as any larger one.

    Attributes:
        samples: That size.
        reached: False where it is the largest that was run: a larger one may be faster still.
        left_frac: What the fastest larger size gains over it; 0.0 where none is faster.
    """

    samples: int
    reached: bool
    left_frac: float


def knee(rates: Mapping[int, float]) -> Knee | None:
    """Return the size after which more memory buys less than `MIN_GAIN`; None for one size.

    >>> knee({8: 100.0, 16: 190.0, 32: 240.0, 64: 240.0})
    Knee(samples=32, reached=True, left_frac=0.0)
    >>> knee({8: 100.0, 16: 190.0})
    Knee(samples=16, reached=False, left_frac=0.0)
    """
    sizes = sorted(rates)
    if len(sizes) < 2:
        return None
    for index, size in enumerate(sizes):
        fastest = max((rates[larger] for larger in sizes[index + 1 :]), default=0.0)
        if fastest <= (1 + MIN_GAIN) * rates[size]:
            left = max(0.0, fastest / rates[size] - 1)
            return Knee(size, reached=size != sizes[-1], left_frac=left)
    raise AssertionError("the largest size has none above it")
