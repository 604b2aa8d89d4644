"""Tests a faster version of a function against the one in use: first right, then fast."""

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from lightning_gpuprof.probes.latency.agreement import Agreement, compare_results
from lightning_gpuprof.probes.latency.latency import (
    CallTimer,
    Latency,
    Prepared,
    check_counts,
    prepare,
    summarize,
)

RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class ABResult:
    """What the comparison showed.

    Args:
        agreement: Whether both return the same within the tolerance.
        speedup: Median time of the baseline by that of the optimized version: 2 is twice as
            fast.
        speedup_low: Lower bound of `speedup`, from a bootstrap over the pairs of calls.
        speedup_high: Upper bound.
    """

    agreement: Agreement
    baseline: Latency
    optimized: Latency
    speedup: float
    speedup_low: float
    speedup_high: float

    @property
    def correct(self) -> bool:
        """Whether the optimized version returns what the baseline returns."""
        return self.agreement.agrees

    @property
    def faster(self) -> bool:
        """Whether it is faster beyond what chance would show."""
        return self.speedup_low > 1

    @override
    def __str__(self) -> str:
        """Return the plain sentence."""
        low, middle, high = (
            100 * (1 - 1 / bound) for bound in (self.speedup_low, self.speedup, self.speedup_high)
        )
        if low > 0:
            speed = f"takes {middle:.0f}% less time ({low:.0f} to {high:.0f})"
        elif high < 0:
            speed = f"takes {-middle:.0f}% more time ({-high:.0f} to {-low:.0f})"
        else:
            speed = f"shows no difference in time over {self.baseline.iterations} calls"
        if self.correct:
            return f"The optimized version agrees and {speed}."
        return f"The optimized version is wrong ({self.agreement.reason}); it {speed}."


def ab_test(
    baseline: Callable[..., Any],
    optimized: Callable[..., Any],
    inputs: Any,
    tolerance: float = 1e-2,
    *,
    warmup: int = 10,
    iterations: int = 100,
    timer: CallTimer | None = None,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> ABResult:
    """Compare two versions of a function in what they return and how long they take.

    Both get copies of the inputs and the same random state for the comparison of results. The
    timed calls take turns (A B, B A, ...), so that a clock or a neighbour that changes meanwhile
    changes both; the interval comes from resampling the pairs.

    Args:
        baseline: The version in use.
        optimized: The version to replace it.
        inputs: A tuple or list of positional arguments; anything else is the one argument.
        tolerance: How far results may differ (see `compare_results`).
        warmup: Calls of each before the timed ones.
        iterations: Timed calls of each.
        timer: What to time both with, where the choice should not be left to the device.
        clock: The host's clock in nanoseconds; tests pass a fake.

    Returns:
        Whether results agree, and how much faster the new version is, with an interval.

    Raises:
        ConfigError: `iterations` or `warmup` is below 1.

    >>> result = ab_test(torch.square, lambda x: x * x, torch.ones(8), warmup=1, iterations=5)
    >>> result.correct
    True
    """
    check_counts(warmup, iterations)
    args = tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,)
    agreement = compare_results(_result(baseline, args), _result(optimized, args), tolerance)
    sides = [
        prepare(fn, args, warmup=warmup, timer=timer, clock=clock) for fn in (baseline, optimized)
    ]
    times = _take_turns(sides, iterations)
    low, high = bootstrap_speedup(*times)
    before, after = (
        summarize(side, taken, warmup=warmup, compiled_count=0)
        for side, taken in zip(sides, times, strict=True)
    )
    return ABResult(
        agreement=agreement,
        baseline=before,
        optimized=after,
        speedup=before.median_ms / after.median_ms,
        speedup_low=low,
        speedup_high=high,
    )


def bootstrap_speedup(
    baseline_ns: Sequence[int], optimized_ns: Sequence[int]
) -> tuple[float, float]:
    """Return the interval of the ratio of medians over resampled pairs of times.

    >>> bootstrap_speedup([20, 20, 20], [10, 10, 10])
    (2.0, 2.0)
    """
    pairs = np.array([baseline_ns, optimized_ns], dtype=np.float64)
    drawn = np.random.default_rng(0).integers(pairs.shape[1], size=(RESAMPLES, pairs.shape[1]))
    before, after = np.median(pairs[:, drawn], axis=2)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(before / after, [tail, 1 - tail])
    return float(low), float(high)


def _take_turns(sides: Sequence[Prepared], iterations: int) -> tuple[list[int], list[int]]:
    times: tuple[list[int], list[int]] = ([], [])
    for turn in range(iterations):
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            times[which].append(sides[which].timer.time_ns(sides[which].call))
    return times


def _result(fn: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Call with copies, as either version may write into its inputs, and a fixed random state."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return fn(*(_copied(arg) for arg in args))


def _copied(arg: Any) -> Any:
    if isinstance(arg, Tensor):
        return arg.detach().clone().requires_grad_(arg.requires_grad)
    return copy.deepcopy(arg)
