"""Microseconds as JSON writes them to exact integer nanoseconds."""

from collections.abc import Sequence

import numpy as np

from lightning_gpuprof.arrays import Int64

EXACT_US = 2.0**43
"""Below this a float64's last bit is under 0.001 us, so three decimals survive. Kineto moves
its time base four times a year for just this reason; older files count from 1970 and do not."""

LIMIT_NS = 2**62
"""Times and durations beyond it are damage: 1970 is 1.8e18 ns ago, and int64 ends at 9.2e18."""


def exact_ns(text: bytes) -> int:
    """Return decimal microseconds as nanoseconds, without going through a float.

    >>> exact_ns(b"1683564901548726.123"), exact_ns(b"12"), exact_ns(b"-0.5"), exact_ns(b"1.5e3")
    (1683564901548726123, 12000, -500, 1500000)
    """
    text = text.strip().strip(b'"')
    whole, point, decimals = text.partition(b".")
    if not point and whole.lstrip(b"-").isdigit():
        return int(whole) * 1000
    if not decimals.isdigit():  # an exponent, or nothing that is a number
        return round(float(text) * 1000) if text not in (b"", b"null") else 0
    digits = int(decimals[:3].ljust(3, b"0")) + (decimals[3:4] >= b"5")
    ns = abs(int(whole or b"0")) * 1000 + digits
    return -ns if whole.startswith(b"-") else ns


def to_ns(us: Sequence[int | float | None]) -> Int64 | None:
    """Convert microseconds; None where a fraction is beyond what a float64 holds.

    >>> to_ns([1419247332972.313, 5]).tolist(), to_ns([1683564901548726]).tolist()
    ([1419247332972313, 5000], [1683564901548726000])
    >>> to_ns([1683564901548726.5]) is None
    True
    """
    values = np.array(us)
    if values.dtype == np.int64:
        if len(values) and np.abs(values).max() > LIMIT_NS // 1000:
            return None
        exact: Int64 = values * 1000
        return exact
    values = values.astype(np.float64)
    if len(values) and np.abs(values).max() >= EXACT_US:
        return None
    whole = np.floor(values)
    ns: Int64 = np.rint((values - whole) * 1000).astype(np.int64)
    ns += whole.astype(np.int64) * 1000
    return ns
