"""What the device and its driver report over a session."""

from collections.abc import Sequence
from dataclasses import dataclass

from lightning_gpuprof.analysis.run.device_time import DeviceTime, device_dur_ns, device_time
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import DeviceSample

_MOST = (
    "max_sm_clock_mhz",
    "max_temperature_c",
    "max_power_mw",
    "power_limit_mw",
    "max_others_bytes",
    "max_others_count",
)


def device_use(session: Session) -> DeviceSample | None:
    """Sum up the driver's samples as one, or return None where there are none."""
    found = [record for record in session.all(DeviceSample) if record.samples]
    if not found:
        return None
    clocks = [r.min_sm_clock_mhz for r in found if r.min_sm_clock_mhz is not None]
    known = [(r.throttle_frac, r.samples) for r in found if r.throttle_frac is not None]
    reasons = sorted({reason for shares, _ in known for reason in shares})
    throttled = {
        name: _mean([(shares.get(name, 0.0), count) for shares, count in known]) for name in reasons
    }
    most = {name: [one for r in found if (one := getattr(r, name)) is not None] for name in _MOST}
    busy = [(r.busy_frac, r.samples) for r in found if r.busy_frac is not None]
    return DeviceSample(
        step=found[-1].step,
        start_ns=found[0].start_ns,
        end_ns=found[-1].end_ns,
        samples=sum(record.samples for record in found),
        busy_frac=_mean(busy) if busy else None,
        throttle_frac=throttled if known else None,
        min_sm_clock_mhz=min(clocks, default=None),
        **{name: max(values, default=None) for name, values in most.items()},
    )


def _mean(values: Sequence[tuple[float, int]]) -> float:
    return sum(value * weight for value, weight in values) / sum(weight for _, weight in values)


@dataclass(frozen=True, kw_only=True)
class DeviceResults:
    """The device's own times, and its driver's readings."""

    time: DeviceTime | None = None
    """Device time per phase; None without device marks."""
    use: DeviceSample | None = None
    """The driver's readings, summed up; None where the driver was not read."""
    dur_ns: Int64 | None = None
    """Duration of each marked steady step on the device's clock; None without marks."""


def device_results(session: Session, steady: Mask) -> DeviceResults:
    """Collect what is known of the device."""
    return DeviceResults(
        time=device_time(session, steady),
        use=device_use(session),
        dur_ns=device_dur_ns(session, steady),
    )
