"""Samples the driver's readings of a device in a thread. Loads no vendor library."""

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from lightning_gpuprof.records.schema import DeviceSample

_T = TypeVar("_T")
_Reading = TypeVar("_Reading", covariant=True)
END_S = 3.0
"""How long to wait for the thread to end. A call of a driver may take a while."""


@dataclass(frozen=True)
class StatsReading:
    """What the driver reports at a moment. A field that it does not support is None.

    Attributes:
        busy_frac: Share of the driver's sampling period in which any kernel ran, however little of
            the device it used.
        throttle_reasons: Why clocks are lower than they could be. Empty if nothing slows them
            down, None if unknown.
        others_bytes: Memory of other processes. None if it is unknown which process is this one,
            as in most containers.
        others_count: The number of other processes.
    """

    busy_frac: float | None = None
    temperature_c: int | None = None
    power_mw: int | None = None
    power_limit_mw: int | None = None
    sm_clock_mhz: int | None = None
    throttle_reasons: frozenset[str] | None = None
    others_bytes: int | None = None
    others_count: int | None = None


class ProcessUse(NamedTuple):
    """A process on a device, and the device memory that it uses, as the driver reports it."""

    pid: int
    num_bytes: Any


def others_use(processes: Sequence[ProcessUse]) -> tuple[int, int] | tuple[None, None]:
    """Return the bytes and the number of the processes other than this one.

    Both are None if this process is not among them: in a container drivers use the process ids of
    the host, or report no processes.
    """
    sizes = [process.num_bytes for process in processes if process.pid != os.getpid()]
    if len(sizes) == len(processes) or not all(isinstance(size, int) for size in sizes):
        return None, None
    return sum(sizes), len(sizes)


class DeviceStats:
    """Reads a device with the library of its vendor.

    Args:
        *refusals: The exceptions by which the library says that the device does not support a call.
    """

    def __init__(self, *refusals: type[Exception]) -> None:
        self._refusals = refusals

    def read(self) -> StatsReading:
        """Return the current readings."""
        raise NotImplementedError

    def close(self) -> None:
        """Shut the vendor's library down."""

    def _ask(self, call: Callable[..., Any], *args: Any) -> Any:
        """Return the result of a call, or None if the device or the library does not support it."""
        try:
            return call(*args)
        except self._refusals:
            return None


class StatsReader(Protocol[_Reading]):
    """What a `StatsSampler` reads."""

    def read(self) -> _Reading:
        """Return the current readings."""

    def close(self) -> None:
        """Release what the reader holds."""


class StatsSampler(Generic[_T]):
    """Reads in a thread of its own, so that training never waits for a driver or the kernel.

    A reading that fails ends the sampling. `error` then says why.

    Args:
        stats: The reader.
        interval_s: The seconds before each reading, or a function that returns them.
        wait: Waits for so many seconds, and returns whether to end; tests pass a fake.
    """

    def __init__(
        self,
        stats: StatsReader[_T],
        *,
        interval_s: float | Callable[[], float],
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self.error: str | None = None
        self._stats = stats
        self._interval_s = interval_s if callable(interval_s) else lambda: interval_s
        self._stop = threading.Event()
        self._wait = wait or self._stop.wait
        self._readings: list[_T] = []
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        name = "gpuprof-device-stats"
        self._thread = threading.Thread(target=self.run, name=name, daemon=True)
        self._thread.start()

    def run(self) -> None:
        """Read until `close` is called or a reading fails. This is the body of the thread."""
        while not self._wait(self._interval_s()):
            try:
                self._readings.append(self._stats.read())
            except (RuntimeError, OSError, LookupError, TypeError, ValueError) as error:
                self.error = f"{type(error).__name__}: {error}"
                return

    def take(self) -> list[_T]:
        """Return the readings since the last call."""
        count = len(self._readings)  # the thread may append more readings meanwhile
        readings = self._readings[:count]
        self._readings[:count] = []
        return readings

    def close(self) -> None:
        """End the thread and close the reader."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(END_S)
        self._stats.close()


def summarize(
    readings: Sequence[StatsReading], *, step: int, start_ns: int, end_ns: int
) -> DeviceSample:
    """Sum up readings: means, extremes, and for each throttle reason the share of its readings."""
    busy = _measured(reading.busy_frac for reading in readings)
    clocks = _measured(reading.sm_clock_mhz for reading in readings)
    all_reasons = _measured(reading.throttle_reasons for reading in readings)
    names = sorted({name for reasons in all_reasons for name in reasons})
    throttle_frac = {
        name: sum(name in reasons for reasons in all_reasons) / len(all_reasons) for name in names
    }
    return DeviceSample(
        step=step,
        start_ns=start_ns,
        end_ns=end_ns,
        samples=len(readings),
        busy_frac=sum(busy) / len(busy) if busy else None,
        max_temperature_c=_highest(reading.temperature_c for reading in readings),
        max_power_mw=_highest(reading.power_mw for reading in readings),
        power_limit_mw=_highest(reading.power_limit_mw for reading in readings),
        min_sm_clock_mhz=min(clocks, default=None),
        max_sm_clock_mhz=max(clocks, default=None),
        throttle_frac=throttle_frac if all_reasons else None,
        max_others_bytes=_highest(reading.others_bytes for reading in readings),
        max_others_count=_highest(reading.others_count for reading in readings),
    )


def _measured(values: Iterable[_T | None]) -> list[_T]:
    return [value for value in values if value is not None]


def _highest(values: Iterable[int | None]) -> int | None:
    return max(_measured(values), default=None)
