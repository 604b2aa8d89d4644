"""How a time spreads over steps."""

from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.arrays import Int64


@dataclass(frozen=True)
class Distribution:
    """Count, mean and percentiles of a time per step, in whole nanoseconds."""

    count: int
    mean_ns: int
    min_ns: int
    p50_ns: int
    p95_ns: int
    p99_ns: int
    max_ns: int


def distribution(values_ns: Int64) -> Distribution | None:
    """Describe the values (shape `(n,)`), or return None where there are none.

    >>> distribution(np.array([10, 20, 30, 40])).p50_ns
    25
    """
    if not len(values_ns):
        return None
    p50, p95, p99 = np.percentile(values_ns, (50, 95, 99))
    return Distribution(
        count=len(values_ns),
        mean_ns=mean(values_ns),
        min_ns=int(values_ns.min()),
        p50_ns=round(float(p50)),
        p95_ns=round(float(p95)),
        p99_ns=round(float(p99)),
        max_ns=int(values_ns.max()),
    )


def mean(values_ns: Int64) -> int:
    """Return the mean of at least one value, rounded to whole nanoseconds.

    >>> mean(np.array([1, 2]))
    2
    """
    return round(int(values_ns.sum()) / len(values_ns))


def median(values_ns: Int64) -> int:
    """Return the median of at least one value, rounded to whole nanoseconds.

    >>> median(np.array([1, 2, 30]))
    2
    """
    return round(float(np.median(values_ns)))
