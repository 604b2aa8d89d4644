"""Times a function call by call, with device events on a GPU and the host's clock elsewhere."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.tensors import leaves_of
from lightning_gpuprof.units import duration

Timer = Callable[[Callable[[], Any]], int]
"""Makes a call, waits until its work is done, and returns the time in nanoseconds."""
NS_PER_MS = 1_000_000


@dataclass(frozen=True)
class Latency:
    """How long calls took, in milliseconds, without the calls of the warm-up.

    `latency["mean_ms"]` is the same as `latency.mean_ms`.
    """

    mean_ms: float
    median_ms: float
    std_ms: float
    min_ms: float
    max_ms: float
    p95_ms: float
    iterations: int
    first_call_ms: float
    """The first call by the host's clock, including compilation and lazy initialization."""
    clock: str
    """What has timed the calls: "device events" or "host"."""
    times_ns: tuple[int, ...]
    """The time of every call in nanoseconds, in order."""

    def __getitem__(self, name: str) -> Any:
        """Return a figure by its name. Raises KeyError for an unknown name."""
        if name not in self.__dataclass_fields__:
            raise KeyError(name)
        return getattr(self, name)

    @override
    def __str__(self) -> str:
        """Return median, 95th percentile and the other figures as a table."""
        calls = "1 call" if self.iterations == 1 else f"{self.iterations:,} calls"
        clock = "device events" if self.clock == "device events" else "the host's clock"
        rows = [
            ("median", f"{_shown(self.median_ms)}  {calls}, by {clock}"),
            ("p95", _shown(self.p95_ms)),
            ("mean", f"{_shown(self.mean_ms)}  standard deviation {_shown(self.std_ms)}"),
            ("range", f"{_shown(self.min_ms)} to {_shown(self.max_ms)}"),
            ("first call", f"{_shown(self.first_call_ms)}  with compilation and initialization"),
        ]
        return "\n".join(f"{name:10}  {text}" for name, text in rows)


def _shown(ms: float) -> str:
    return duration(ms * NS_PER_MS)


class PreparedCall:
    """A call after its warm-up, with the timer for the device that the first call has used."""

    def __init__(
        self, fn: Callable[..., Any], args: Sequence[Any], *, warmup: int, clock: Callable[[], int]
    ) -> None:
        self._call: Callable[[], Any] = partial(fn, *args)
        began = clock()
        result = self._call()
        device = _device_of(fn, args, result)
        _wait_for(device, result)
        self._first_ns = clock() - began
        on_cuda = device is not None and device.type == "cuda"  # also true of ROCm devices
        self._clock_name = "device events" if on_cuda else "host"
        self._timer = device_timer(device) if on_cuda else _host_timer(device, clock)
        for _ in range(warmup - 1):
            self.time_ns()

    def time_ns(self) -> int:
        """Make a call and return its time."""
        return self._timer(self._call)

    def summarize(self, times_ns: Sequence[int]) -> Latency:
        """Return the statistics of timed calls."""
        times_ms = sorted(time_ns / NS_PER_MS for time_ns in times_ns)
        return Latency(
            mean_ms=statistics.fmean(times_ms),
            median_ms=statistics.median(times_ms),
            std_ms=statistics.stdev(times_ms) if len(times_ms) > 1 else 0.0,
            min_ms=times_ms[0],
            max_ms=times_ms[-1],
            p95_ms=times_ms[ceil(0.95 * len(times_ms)) - 1],
            iterations=len(times_ms),
            first_call_ms=self._first_ns / NS_PER_MS,
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

    On a GPU the calls are timed by events on the current stream. The device is that of the
    arguments, of a module's parameters, or of the result. Elsewhere the host's clock is used, and
    the timer waits for a result that has `block_until_ready`, such as a JAX array. Wrap the call
    in `torch.inference_mode()` to time inference.

    Args:
        fn: Any function or module.
        *args: Its arguments, the same in all calls.
        warmup: Calls before the timed ones. The first of them is reported by itself.
        iterations: Timed calls.
        clock: The host's clock in nanoseconds; tests pass a fake.

    Returns:
        The distribution of the timed calls, in ms, and the clock that timed them.

    >>> benchmark_latency(sorted, [3, 1, 2], warmup=1, iterations=5).clock
    'host'
    """
    check_counts(warmup, iterations)
    prepared = PreparedCall(fn, args, warmup=warmup, clock=clock)
    return prepared.summarize([prepared.time_ns() for _ in range(iterations)])


def check_counts(warmup: int, iterations: int) -> None:
    """Refuse numbers of calls below 1."""
    if min(warmup, iterations) < 1:
        raise ConfigError(
            f"warmup={warmup}, iterations={iterations} would time nothing. Pass 1 or more of each."
        )


def device_timer(device: torch.device | None, *, cuda: Any = torch.cuda) -> Timer:
    """Return a timer that records an event before and after a call on the current stream.

    The timer waits for the second event, so that the next call begins on an idle stream. Work on
    other streams is neither timed nor waited for.
    """
    before, after = (cuda.Event(enable_timing=True) for _ in range(2))

    def time_ns(call: Callable[[], Any]) -> int:
        stream = cuda.current_stream(device)
        before.record(stream)
        call()
        after.record(stream)
        after.synchronize()
        elapsed_ms: float = before.elapsed_time(after)
        return round(elapsed_ms * NS_PER_MS)

    return time_ns


def _host_timer(device: torch.device | None, clock: Callable[[], int]) -> Timer:
    def time_ns(call: Callable[[], Any]) -> int:
        began = clock()
        _wait_for(device, call())
        return clock() - began

    return time_ns


def _device_of(fn: Any, args: Sequence[Any], result: Any) -> torch.device | None:
    """Return the first device that is not a CPU, else the CPU; None if there is no tensor."""
    parameters = list(fn.parameters()) if isinstance(fn, torch.nn.Module) else []
    leaves = leaves_of([list(args), result, parameters])
    devices = [leaf.device for leaf in leaves if isinstance(leaf, Tensor)]
    return next((device for device in devices if device.type != "cpu"), next(iter(devices), None))


def _wait_for(device: torch.device | None, result: Any) -> None:
    """Wait for the parts of a result that offer it, such as JAX arrays, and for the device."""
    for leaf in leaves_of(result):
        wait = getattr(leaf, "block_until_ready", None)
        if wait is not None and not isinstance(leaf, Tensor):
            wait()
    if device is not None and device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()
    elif device is not None and device.type == "mps":
        torch.mps.synchronize()
