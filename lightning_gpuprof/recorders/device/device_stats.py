"""Samples the driver's figures on a thread of its own; loads no vendor library."""

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from lightning_gpuprof.records.schema import DeviceSample

_T = TypeVar("_T", int, float)


@dataclass(frozen=True)
class StatsReading:
    """The driver's figures at one moment; a field that it does not support is None.

    Attributes:
        busy_frac: Share of the driver's own sampling period in which a kernel ran: not how
            much of the device it filled.
        throttle_reasons: Why clocks are lower than they could be; empty where nothing holds
            them down, None where not known.
        others_bytes: Memory of other processes; None where processes cannot be told apart, as
            in most containers.
    """

    busy_frac: float | None = None
    temperature_c: int | None = None
    power_mw: int | None = None
    power_limit_mw: int | None = None
    sm_clock_mhz: int | None = None
    throttle_reasons: frozenset[str] | None = None
    others_bytes: int | None = None
    others_count: int | None = None


class DeviceStats:
    """Where readings come from: a vendor's library, or a fake."""

    def __init__(self, *refusals: type[Exception]) -> None:
        self._refusals = refusals

    def read(self) -> StatsReading:
        """Return what the driver says now."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the vendor's library."""

    def _ask(self, call: Callable[..., Any], *args: Any) -> Any:
        """Return a call's answer; None where the device or this library does not have it."""
        try:
            return call(*args)
        except self._refusals:
            return None

    def _others(self, sizes: Sequence[tuple[int, Any]]) -> dict[str, int]:
        """Return bytes and number of other processes, given each one's id and bytes.

        Neither where ours is not among them: in a container drivers name processes by the host's
        ids, or none at all.
        """
        others = [size for pid, size in sizes if pid != os.getpid()]
        if len(others) == len(sizes) or not all(isinstance(size, int) for size in others):
            return {}
        return {"others_bytes": sum(others), "others_count": len(others)}


class StatsSampler:
    """Reads on a thread of its own, so that the training thread never waits for the driver.

    A reading that fails ends the sampling; `error` then says why.
    """

    def __init__(
        self,
        stats: DeviceStats,
        *,
        interval_s: float,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self.error: str | None = None
        self._stats = stats
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._wait = wait or self._stop.wait
        self._readings: list[StatsReading] = []
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to read."""
        name = "gpuprof-device-stats"
        self._thread = threading.Thread(target=self.run, name=name, daemon=True)
        self._thread.start()

    def run(self) -> None:
        """Read until told to end; the body of the thread."""
        while not self._wait(self._interval_s):
            try:
                self._readings.append(self._stats.read())
            except (RuntimeError, OSError, LookupError, TypeError, ValueError) as error:
                self.error = f"{type(error).__name__}: {error}"
                return

    def take(self) -> list[StatsReading]:
        """Return the readings since the last call."""
        count = len(self._readings)  # the thread may add another one meanwhile
        taken, self._readings[:count] = self._readings[:count], []
        return taken

    def close(self) -> None:
        """End the thread and let go of the vendor's library."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=2 * self._interval_s + 1)
        self._stats.close()


def summarize(
    readings: Sequence[StatsReading], *, step: int, start_ns: int, end_ns: int
) -> DeviceSample:
    """Sum up readings: means, extremes, and the share in which each reason held clocks down."""
    busy = _known(reading.busy_frac for reading in readings)
    clocks = _known(reading.sm_clock_mhz for reading in readings)
    reasons = [one.throttle_reasons for one in readings if one.throttle_reasons is not None]
    names = sorted({name for some in reasons for name in some})
    throttled = {name: sum(name in some for some in reasons) / len(reasons) for name in names}
    return DeviceSample(
        step=step,
        start_ns=start_ns,
        end_ns=end_ns,
        samples=len(readings),
        busy_frac=sum(busy) / len(busy) if busy else None,
        max_temperature_c=max(_known(one.temperature_c for one in readings), default=None),
        max_power_mw=max(_known(one.power_mw for one in readings), default=None),
        power_limit_mw=max(_known(one.power_limit_mw for one in readings), default=None),
        min_sm_clock_mhz=min(clocks, default=None),
        max_sm_clock_mhz=max(clocks, default=None),
        throttle_frac=throttled if reasons else None,
        max_others_bytes=max(_known(one.others_bytes for one in readings), default=None),
        max_others_count=max(_known(one.others_count for one in readings), default=None),
    )


def _known(values: Iterable[_T | None]) -> list[_T]:
    return [value for value in values if value is not None]
