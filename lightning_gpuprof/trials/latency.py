"""Times one function call by call: device events on a GPU, the host's clock elsewhere."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any

import torch
from torch import Tensor

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.tensors import leaves_of

Timer = Callable[[Callable[[], Any]], int]
"""Makes a call, waits until its work is done and returns the time in nanoseconds."""
_NS_PER_MS = 1_000_000


@dataclass(frozen=True)
class Latency:
    """How long calls took, in milliseconds; warm-up calls are left out.

    `latency["mean_ms"]` is `latency.mean_ms`.
    """

    mean_ms: float
    median_ms: float
    std_ms: float
    min_ms: float
    max_ms: float
    p95_ms: float
    iterations: int
    first_call_ms: float
    """By the host's clock, with compilation, graph capture and lazy initialisation."""
    clock: str
    """device events or host."""
    times_ns: tuple[int, ...]

    def __getitem__(self, name: str) -> Any:
        """Return a figure by its name; raises KeyError for any other."""
        if name not in self.__dataclass_fields__:
            raise KeyError(name)
        return getattr(self, name)


class Prepared:
    """A warmed-up call with the timer that fits its device, which the first call shows."""

    def __init__(
        self, fn: Callable[..., Any], args: Sequence[Any], *, warmup: int, clock: Callable[[], int]
    ) -> None:
        self._call: Callable[[], Any] = partial(fn, *args)
        began = clock()
        result = self._call()
        device = _device_of(fn, args, result)
        _wait_for(device, result)
        self._first_ns = clock() - began
        on_cuda = device is not None and device.type == "cuda"  # ROCm devices too
        self._clock_name = "device events" if on_cuda else "host"
        self._timer = device_timer(device) if on_cuda else _host_timer(device, clock)
        for _ in range(warmup - 1):
            self.time_ns()

    def time_ns(self) -> int:
        """Make one call and return its time."""
        return self._timer(self._call)

    def summarize(self, times_ns: Sequence[int]) -> Latency:
        """Return the figures of the timed calls."""
        times_ms = sorted(time_ns / _NS_PER_MS for time_ns in times_ns)
        return Latency(
            mean_ms=statistics.fmean(times_ms),
            median_ms=statistics.median(times_ms),
            std_ms=statistics.stdev(times_ms) if len(times_ms) > 1 else 0.0,
            min_ms=times_ms[0],
            max_ms=times_ms[-1],
            p95_ms=times_ms[ceil(0.95 * len(times_ms)) - 1],
            iterations=len(times_ms),
            first_call_ms=self._first_ns / _NS_PER_MS,
            clock=self._clock_name,
            times_ns=tuple(times_ns),
        )


def benchmark_latency(
    fn: Callable[..., Any],
    *args: Any,
    warmup: int = 10,
    iterations: int = 100,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> Latency:
    """Time `fn(*args)`, one call after the other.

    On a GPU (the device of the arguments, of a module's parameters or of the result) events on
    the current stream are the clock. Elsewhere it is the host's, and a result with
    `block_until_ready`, such as a JAX array, is waited for. Wrap the call in
    `torch.inference_mode()` to time inference.

    Args:
        fn: Any function or module.
        *args: Its arguments, the same each time.
        warmup: Calls before the timed ones; the first is reported apart.
        iterations: Timed calls.
        clock: The host's clock in nanoseconds; tests pass a fake.

    Returns:
        The distribution of the timed calls, in ms, and the clock that timed them.

    >>> benchmark_latency(sorted, [3, 1, 2], warmup=1, iterations=5).clock
    'host'
    """
    check_counts(warmup, iterations)
    prepared = Prepared(fn, args, warmup=warmup, clock=clock)
    return prepared.summarize([prepared.time_ns() for _ in range(iterations)])


def check_counts(warmup: int, iterations: int) -> None:
    """Refuse to time nothing."""
    if min(warmup, iterations) < 1:
        raise ConfigError(
            f"warmup={warmup}, iterations={iterations} would time nothing. Pass 1 or more of each."
        )


def device_timer(device: torch.device | None, *, cuda: Any = torch.cuda) -> Timer:
    """Return a timer with an event before and after a call on a device's current stream.

    It waits for the second event, so each call begins on an idle stream. Other streams go on and
    are not timed.
    """
    before, after = (cuda.Event(enable_timing=True) for _ in range(2))

    def time_ns(call: Callable[[], Any]) -> int:
        stream = cuda.current_stream(device)
        before.record(stream)
        call()
        after.record(stream)
        after.synchronize()
        elapsed_ms: float = before.elapsed_time(after)
        return round(elapsed_ms * _NS_PER_MS)

    return time_ns


def _host_timer(device: torch.device | None, clock: Callable[[], int]) -> Timer:
    def time_ns(call: Callable[[], Any]) -> int:
        began = clock()
        _wait_for(device, call())
        return clock() - began

    return time_ns


def _device_of(fn: Any, args: Sequence[Any], result: Any) -> torch.device | None:
    """Return the first device that is no CPU; None without any tensor."""
    parameters = list(fn.parameters()) if isinstance(fn, torch.nn.Module) else []
    leaves = leaves_of([list(args), result, parameters])
    devices = [leaf.device for leaf in leaves if isinstance(leaf, Tensor)]
    return next((device for device in devices if device.type != "cpu"), next(iter(devices), None))


def _wait_for(device: torch.device | None, result: Any) -> None:
    """Wait for a device, and for the parts of a result that can be waited for (JAX arrays)."""
    for leaf in leaves_of(result):
        wait = getattr(leaf, "block_until_ready", None)
        if wait is not None and not isinstance(leaf, Tensor):
            wait()
    if device is not None and device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()
    elif device is not None and device.type == "mps":
        torch.mps.synchronize()
