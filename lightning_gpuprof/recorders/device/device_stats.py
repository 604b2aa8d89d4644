"""Samples the driver's figures on a thread of its own; loads no vendor library."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class StatsReading:
    """The driver's figures at one moment; a field that it does not support is None.

    Attributes:
        busy_frac: Share of the driver's own sampling period in which a kernel ran: not how
            much of the device it filled.
        memory_busy_frac: The same for reads and writes of device memory.
        throttle_reasons: Why clocks are lower than they could be; empty where nothing holds
            them down, None where not known.
        used_bytes: Memory in use on the device, by everyone.
        others_bytes: Of it by other processes; None where processes cannot be told apart, as
            in most containers.
    """

    busy_frac: float | None = None
    memory_busy_frac: float | None = None
    temperature_c: int | None = None
    power_mw: int | None = None
    power_limit_mw: int | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    throttle_reasons: frozenset[str] | None = None
    used_bytes: int | None = None
    total_bytes: int | None = None
    others_bytes: int | None = None
    others_count: int | None = None


@dataclass(frozen=True)
class StatsSummary:
    """Several readings as one: means, extremes, and for each reason the share it was seen in."""

    samples: int
    busy_frac: float | None
    memory_busy_frac: float | None
    power_mw: int | None
    max_temperature_c: int | None
    max_power_mw: int | None
    power_limit_mw: int | None
    min_sm_clock_mhz: int | None
    max_sm_clock_mhz: int | None
    memory_clock_mhz: int | None
    throttle_frac: dict[str, float] | None
    max_used_bytes: int | None
    total_bytes: int | None
    max_others_bytes: int | None
    max_others_count: int | None


class DeviceStats(Protocol):
    """Where readings come from: NVML, AMD SMI, or a fake."""

    def read(self) -> StatsReading:
        """Return what the driver says now."""
        ...

    def close(self) -> None:
        """Let go of the vendor's library."""
        ...


class StatsSampler:
    """Reads on a thread of its own, so that the training thread never waits for the driver.

    A reading that fails ends the sampling; `error` then says why.

    Args:
        stats: Where readings come from.
        interval_s: Time between readings.
        wait: Waits so many seconds and returns True to end; tests pass a fake.
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
        self._lock = threading.Lock()
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
                reading = self._stats.read()
            except (RuntimeError, OSError, LookupError, TypeError, ValueError) as error:
                self.error = f"{type(error).__name__}: {error}"
                return
            with self._lock:
                self._readings.append(reading)

    def take(self) -> StatsSummary | None:
        """Return the readings since the last call as one; None where there were none."""
        with self._lock:
            readings, self._readings = self._readings, []
        return summarize(readings) if readings else None

    def close(self) -> None:
        """End the thread and let go of the vendor's library."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=2 * self._interval_s + 1)
        self._stats.close()


def summarize(readings: list[StatsReading]) -> StatsSummary:
    """Sum up readings; what none of them has stays None.

    >>> summarize([StatsReading(busy_frac=0.5), StatsReading(busy_frac=1.0)]).busy_frac
    0.75
    """
    power = _known(reading.power_mw for reading in readings)
    clocks = _known(reading.sm_clock_mhz for reading in readings)
    reasons = [r.throttle_reasons for r in readings if r.throttle_reasons is not None]
    seen = sorted({reason for some in reasons for reason in some})
    return StatsSummary(
        samples=len(readings),
        busy_frac=_mean(_known(reading.busy_frac for reading in readings)),
        memory_busy_frac=_mean(_known(reading.memory_busy_frac for reading in readings)),
        power_mw=round(sum(power) / len(power)) if power else None,
        max_temperature_c=max(_known(r.temperature_c for r in readings), default=None),
        max_power_mw=max(power, default=None),
        power_limit_mw=max(_known(r.power_limit_mw for r in readings), default=None),
        min_sm_clock_mhz=min(clocks, default=None),
        max_sm_clock_mhz=max(clocks, default=None),
        memory_clock_mhz=max(_known(r.memory_clock_mhz for r in readings), default=None),
        throttle_frac={name: _share(name, reasons) for name in seen} if reasons else None,
        max_used_bytes=max(_known(r.used_bytes for r in readings), default=None),
        total_bytes=max(_known(r.total_bytes for r in readings), default=None),
        max_others_bytes=max(_known(r.others_bytes for r in readings), default=None),
        max_others_count=max(_known(r.others_count for r in readings), default=None),
    )


def _known(values: "Iterable[int | None] | Iterable[float | None]") -> list[int]:
    return [value for value in values if value is not None]  # type: ignore[misc]


def _mean(values: list[int]) -> float | None:
    return sum(values) / len(values) if values else None


def _share(name: str, reasons: list[frozenset[str]]) -> float:
    return sum(name in some for some in reasons) / len(reasons)
