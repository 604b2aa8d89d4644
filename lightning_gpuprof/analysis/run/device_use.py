"""The device's own times, and its driver's readings over a session."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lightning_gpuprof.analysis.run.device_time import DeviceTime, device_dur_ns, device_time
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import DeviceSample


def device_use(session: Session) -> DeviceSample | None:
    """Combine the driver's readings of a session; None if there are none."""
    records = [record for record in session.all(DeviceSample) if record.samples]
    if not records:
        return None

    def readings(read: Callable[[DeviceSample], int | None]) -> list[int]:
        return [value for record in records if (value := read(record)) is not None]

    def highest(read: Callable[[DeviceSample], int | None]) -> int | None:
        return max(readings(read), default=None)

    throttled = [
        (record.throttle_frac, record.samples)
        for record in records
        if record.throttle_frac is not None
    ]
    reasons = sorted({reason for shares, _ in throttled for reason in shares})
    throttle_frac = {
        reason: _mean([(shares.get(reason, 0.0), count) for shares, count in throttled])
        for reason in reasons
    }
    busy = [
        (record.busy_frac, record.samples) for record in records if record.busy_frac is not None
    ]
    return DeviceSample(
        step=records[-1].step,
        start_ns=records[0].start_ns,
        end_ns=records[-1].end_ns,
        samples=sum(record.samples for record in records),
        busy_frac=_mean(busy) if busy else None,
        max_power_mw=highest(lambda record: record.max_power_mw),
        power_limit_mw=highest(lambda record: record.power_limit_mw),
        max_temperature_c=highest(lambda record: record.max_temperature_c),
        min_sm_clock_mhz=min(readings(lambda record: record.min_sm_clock_mhz), default=None),
        max_sm_clock_mhz=highest(lambda record: record.max_sm_clock_mhz),
        throttle_frac=throttle_frac if throttled else None,
        max_others_bytes=highest(lambda record: record.max_others_bytes),
        max_others_count=highest(lambda record: record.max_others_count),
    )


def _mean(values: Sequence[tuple[float, int]]) -> float:
    """Return the mean of values that have weights."""
    return sum(value * weight for value, weight in values) / sum(weight for _, weight in values)


@dataclass(frozen=True, kw_only=True)
class DeviceResults:
    """The device's own times, and its driver's readings."""

    time: DeviceTime | None = None
    """Device time per phase; None without device marks."""
    use: DeviceSample | None = None
    """The driver's readings combined; None if the driver was not read."""
    dur_ns: Int64 | None = None
    """Durations of the marked steady steps on the device's clock; None without device marks."""


def device_results(session: Session, steady: Mask) -> DeviceResults:
    """Collect the device's times and its driver's readings."""
    return DeviceResults(
        time=device_time(session, steady),
        use=device_use(session),
        dur_ns=device_dur_ns(session, steady),
    )
