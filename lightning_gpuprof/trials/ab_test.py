"""Compares a faster version of a function with the current one: its results, then its time."""

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from lightning_gpuprof.trials.latency import NS_PER_MS, Latency, PreparedCall, check_counts
from lightning_gpuprof.units import duration

_RESAMPLES = 2000
_TAIL = 0.025
"""The share of resamples on either side of the 95 % interval."""


@dataclass(frozen=True)
class ABResult:
    """The comparison of two versions; `correct, speedup = ab_test(...)` unpacks it."""

    difference: str
    """How the results differ beyond the tolerance; empty if they agree."""
    baseline: Latency
    optimized: Latency
    speedup: float
    """The ratio of the medians: 2.0 means twice as fast. The bounds `speedup_low` and
    `speedup_high` come from a bootstrap over the pairs of calls."""
    speedup_low: float
    speedup_high: float

    @property
    def correct(self) -> bool:
        """Whether the optimized version returns what the baseline returns."""
        return not self.difference

    @property
    def faster(self) -> bool:
        """Whether the optimized version is faster, with the whole interval above 1."""
        return self.speedup_low > 1

    def __iter__(self) -> Iterator[bool | float]:
        """Yield `correct` and `speedup`."""
        yield self.correct
        yield self.speedup

    @override
    def __str__(self) -> str:
        """Return both latencies, the speed-up and whether the results agree as a table."""
        lines = [f"{'':10}  {'median':>10}  {'p95':>10}"]
        for name, latency in (("baseline", self.baseline), ("optimized", self.optimized)):
            median, p95 = (duration(ms * NS_PER_MS) for ms in (latency.median_ms, latency.p95_ms))
            lines.append(f"{name:10}  {median:>10}  {p95:>10}")
        bounds = f"{self.speedup_low:.2f} to {self.speedup_high:.2f}, 19 times in 20"
        lines.append(f"{'speed-up':10}  {f'{self.speedup:.2f} x':>10}  {bounds}")
        lines.append(f"{'results':10}  {'agree' if self.correct else f'differ: {self.difference}'}")
        return "\n".join(lines)


def ab_test(
    baseline: Callable[..., Any],
    optimized: Callable[..., Any],
    inputs: Any,
    tolerance: float = 1e-2,
    *,
    warmup: int = 10,
    iterations: int = 100,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> ABResult:
    """Compare the results and the times of two versions of a function.

    Both versions are called with copies of the inputs. The timed calls take turns (A B, B A, ...),
    so that a change in the machine's speed affects both versions alike.

    Args:
        baseline: The version in use.
        optimized: The version to replace it.
        inputs: A tuple or list of positional arguments. Anything else is the only argument.
        tolerance: How far results may differ (see `difference_of`).
        warmup: Calls of each version before its timed calls.
        iterations: Timed calls of each version.
        clock: The host's clock in nanoseconds; tests pass a fake.

    Returns:
        Whether the results agree, and how much faster the new version is, with an interval.

    >>> ab_test(torch.square, lambda x: x * x, torch.ones(8), warmup=1, iterations=5).correct
    True
    """
    check_counts(warmup, iterations)
    args = tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,)
    difference = difference_of(_result(baseline, args), _result(optimized, args), tolerance)
    first = PreparedCall(baseline, args, warmup=warmup, clock=clock)
    second = PreparedCall(optimized, args, warmup=warmup, clock=clock)
    times: dict[PreparedCall, list[int]] = {first: [], second: []}
    for turn in range(iterations):
        for version in (first, second) if turn % 2 == 0 else (second, first):
            times[version].append(version.time_ns())
    before, after = first.summarize(times[first]), second.summarize(times[second])
    low, high = bootstrap_speedup(before.times_ns, after.times_ns)
    return ABResult(
        difference=difference,
        baseline=before,
        optimized=after,
        speedup=before.median_ms / after.median_ms,
        speedup_low=low,
        speedup_high=high,
    )


def difference_of(baseline: Any, optimized: Any, tolerance: float) -> str:
    """Say how two results, which may be nested, differ. The text is empty if they agree.

    Numbers agree if they differ by at most `tolerance * (1 + |baseline|)`, and NaN agrees with NaN.
    Their types may differ: a bfloat16 result is compared with a float32 result by value.

    >>> difference_of([1.0], [1.0, 2.0], 1e-2)
    'The length of the sequences mismatch: 2 != 1'
    """
    try:
        torch.testing.assert_close(
            optimized,
            baseline,
            rtol=tolerance,
            atol=tolerance,
            equal_nan=True,
            check_dtype=False,
            check_device=False,
            check_layout=False,
        )
    except AssertionError as error:
        return " ".join(str(error).split())
    except TypeError:  # the results are neither numbers nor tensors, but text for example
        return "" if baseline == optimized else f"{optimized!r:.40} against {baseline!r:.40}"
    return ""


def bootstrap_speedup(
    baseline_ns: Sequence[int], optimized_ns: Sequence[int]
) -> tuple[float, float]:
    """Return the interval of the ratio of medians, by resampling the pairs of times."""
    pairs = np.array([baseline_ns, optimized_ns], dtype=np.float64)
    chosen = np.random.default_rng(0).integers(pairs.shape[1], size=(_RESAMPLES, pairs.shape[1]))
    before, after = np.median(pairs[:, chosen], axis=2)
    low, high = np.quantile(before / after, [_TAIL, 1 - _TAIL])
    return float(low), float(high)


def _result(fn: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Call a version with copies of the inputs, into which it may write, and a fixed seed."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return fn(*(_copy_of(arg) for arg in args))


def _copy_of(arg: Any) -> Any:
    if isinstance(arg, Tensor):
        return arg.detach().clone().requires_grad_(arg.requires_grad)
    return copy.deepcopy(arg)
