"""Times one function call by call: device events on a GPU, the host's clock elsewhere."""

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from lightning_gpuprof.errors import ConfigError

_NS_PER_MS = 1_000_000


class CallTimer(Protocol):
    """Times one call, whatever work it queues on a device included."""

    name: str
    """Which clock: "host" or "device events"."""

    def time_ns(self, call: Callable[[], Any]) -> int:
        """Make the call, wait until its work is done and return how long that took."""
        ...


class HostTimer:
    """Reads the host's clock around a call and the wait for its result.

    Args:
        clock: Returns nanoseconds; tests pass a fake.
        wait: Waits for the device, where there is one that has no events to time with.
    """

    name = "host"

    def __init__(
        self,
        clock: Callable[[], int] = time.perf_counter_ns,
        wait: Callable[[], None] | None = None,
    ) -> None:
        self._clock, self._wait = clock, wait

    def time_ns(self, call: Callable[[], Any]) -> int:
        """Return the time from before the call until its result is there."""
        began = self._clock()
        block_until_ready(call())
        if self._wait is not None:
            self._wait()
        return self._clock() - began


class DeviceTimer:
    """Puts a timing event before and behind a call on a device's current stream (CUDA and HIP).

    It waits for the second event, so calls do not overlap: each begins on an idle stream, and
    the time holds the device's work and whatever it waited for the host to queue. Other streams
    go on undisturbed; work that the call puts on them is not timed.

    Args:
        device: The device that does the work, which need not be the current one.
        cuda: Stands in for `torch.cuda` in tests.
    """

    name = "device events"

    def __init__(self, device: torch.device, *, cuda: Any = torch.cuda) -> None:
        self._device, self._cuda = device, cuda
        self._before, self._behind = (cuda.Event(enable_timing=True) for _ in range(2))

    def time_ns(self, call: Callable[[], Any]) -> int:
        """Return the device's time between the two events."""
        stream = self._cuda.current_stream(self._device)
        self._before.record(stream)
        call()
        self._behind.record(stream)
        self._behind.synchronize()
        elapsed_ms: float = self._before.elapsed_time(self._behind)
        return round(elapsed_ms * _NS_PER_MS)


@dataclass(frozen=True)
class Latency:
    """How long calls took, in milliseconds; the calls are those after the warm-up.

    Args:
        first_call_ms: The very first call by the host's clock: compilation, graph capture and
            lazy initialisation fall into it, and it is in none of the other figures.
        compiled_count: How many of the timed calls made torch.compile compile something (they
            are in the figures: raise `warmup` or look for changing shapes).
        clock: "device events" or "host".
    """

    mean_ms: float
    median_ms: float
    std_ms: float
    min_ms: float
    max_ms: float
    p95_ms: float
    iterations: int
    warmup: int
    first_call_ms: float
    compiled_count: int
    clock: str
    times_ns: tuple[int, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the figures without the single times."""
        return {name: value for name, value in asdict(self).items() if name != "times_ns"}


def benchmark_latency(
    fn: Callable[..., Any],
    *args: Any,
    warmup: int = 10,
    iterations: int = 100,
    timer: CallTimer | None = None,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> Latency:
    """Time `fn(*args)`, one call after the other.

    On a GPU (the device of the arguments, of a module's parameters or of the result) events on
    the current stream are the clock; elsewhere it is the host's, and a result that has
    `block_until_ready`, as JAX arrays do, is waited for. Gradients are recorded as the caller
    has set it: wrap the call in `torch.inference_mode()` to time inference.

    Args:
        fn: Any function or module.
        *args: What it is called with, each time the same.
        warmup: Calls before the timed ones, the first of which is given apart.
        iterations: Timed calls.
        timer: What to time with, where the choice should not be left to the device.
        clock: The host's clock in nanoseconds; tests pass a fake.

    Returns:
        The distribution of the timed calls, in ms, and which clock timed them.

    Raises:
        ConfigError: `iterations` or `warmup` is below 1.

    >>> benchmark_latency(sorted, [3, 1, 2], warmup=1, iterations=5).clock
    'host'
    """
    check_counts(warmup, iterations)
    prepared = prepare(fn, args, warmup=warmup, timer=timer, clock=clock)
    compiled = _graphs_compiled()
    compiled_count, times_ns = 0, []
    for _ in range(iterations):
        times_ns.append(prepared.timer.time_ns(prepared.call))
        compiled, before = _graphs_compiled(), compiled
        compiled_count += compiled > before
    return summarize(prepared, times_ns, warmup=warmup, compiled_count=compiled_count)


@dataclass(frozen=True)
class Prepared:
    """A warmed-up call with the timer that fits its device."""

    call: Callable[[], Any]
    timer: CallTimer
    first_call_ns: int


def prepare(
    fn: Callable[..., Any],
    args: Sequence[Any],
    *,
    warmup: int,
    timer: CallTimer | None,
    clock: Callable[[], int],
) -> Prepared:
    """Make the first call by the host's clock, choose the timer, and warm up."""

    def call() -> Any:
        return fn(*args)

    began = clock()
    result = call()
    device = _device_of(fn, args, result)
    _wait_for(device, result)
    first_call_ns = clock() - began
    timer = timer or timer_for(device, clock)
    for _ in range(warmup - 1):
        timer.time_ns(call)
    return Prepared(call, timer, first_call_ns)


def summarize(
    prepared: Prepared, times_ns: Sequence[int], *, warmup: int, compiled_count: int
) -> Latency:
    """Return the figures of the timed calls."""
    ordered = sorted(times_ns)
    # The nearest rank: a time that was measured, not one between two.
    p95 = ordered[max(0, -(-len(ordered) * 95 // 100) - 1)]
    return Latency(
        mean_ms=statistics.fmean(ordered) / _NS_PER_MS,
        median_ms=statistics.median(ordered) / _NS_PER_MS,
        std_ms=statistics.stdev(ordered) / _NS_PER_MS if len(ordered) > 1 else 0.0,
        min_ms=ordered[0] / _NS_PER_MS,
        max_ms=ordered[-1] / _NS_PER_MS,
        p95_ms=p95 / _NS_PER_MS,
        iterations=len(ordered),
        warmup=warmup,
        first_call_ms=prepared.first_call_ns / _NS_PER_MS,
        compiled_count=compiled_count,
        clock=prepared.timer.name,
        times_ns=tuple(times_ns),
    )


def timer_for(device: torch.device | None, clock: Callable[[], int]) -> CallTimer:
    """Return the timer that fits a device; None is a device that torch does not know."""
    if device is not None and device.type == "cuda":  # HIP devices carry this name in torch too
        return DeviceTimer(device)
    if device is not None and device.type == "mps":
        return HostTimer(clock, torch.mps.synchronize)
    return HostTimer(clock)


def tensors_in(value: Any) -> Iterator[Any]:
    """Yield the leaves of nested tuples, lists, mappings and dataclass-like outputs.

    >>> list(tensors_in({"a": [1, (2,)], "b": None}))
    [1, 2, None]
    """
    if isinstance(value, Mapping):
        for part in value.values():
            yield from tensors_in(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors_in(part)
    else:
        yield value


def block_until_ready(result: Any) -> None:
    """Wait for the parts of a result that say how to wait for them, as JAX arrays do."""
    for leaf in tensors_in(result):
        wait = getattr(leaf, "block_until_ready", None)
        if wait is not None and not isinstance(leaf, Tensor):
            wait()


def _device_of(fn: Any, args: Sequence[Any], result: Any) -> torch.device | None:
    parameters = fn.parameters() if isinstance(fn, torch.nn.Module) else ()
    found = None
    for source in (args, [result], parameters):
        for leaf in tensors_in(list(source)):
            if isinstance(leaf, Tensor):
                if leaf.device.type != "cpu":
                    return leaf.device
                found = leaf.device
    return found


def _wait_for(device: torch.device | None, result: Any) -> None:
    block_until_ready(result)
    if device is not None and device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()
    elif device is not None and device.type == "mps":
        torch.mps.synchronize()


def _graphs_compiled() -> int:
    dynamo = sys.modules.get("torch._dynamo.utils")
    counters = getattr(dynamo, "counters", None) or {}
    return int(counters.get("stats", {}).get("unique_graphs", 0))


def check_counts(warmup: int, iterations: int) -> None:
    """Refuse counts below 1.

    Raises:
        ConfigError: Says which count leaves nothing to time.
    """
    for name, count in (("warmup", warmup), ("iterations", iterations)):
        if count < 1:
            raise ConfigError(
                f"{name}={count} leaves no call to "
                f"{'keep apart as the first' if name == 'warmup' else 'time'}. Pass 1 or more; "
                "the defaults are warmup=10, iterations=100."
            )
