"""The driver's readings over a session."""

from collections.abc import Iterable
from dataclasses import dataclass

from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import DeviceSample


@dataclass(frozen=True)
class DeviceUse:
    """The driver's readings over a session; a field that no reading gave is None.

    Attributes:
        throttle_frac: By reason the share of readings in which it held the clocks down; empty
            where none did, None where the driver does not say.
        min_sm_clock_mhz: Lowest and highest clock, and the hottest and most power that was seen.
        others_bytes: Most that other processes held on the device, and how many they were; None
            where the driver does not tell processes apart.
    """

    samples: int
    busy_frac: float | None
    throttle_frac: dict[str, float] | None
    min_sm_clock_mhz: int | None
    max_sm_clock_mhz: int | None
    max_temperature_c: int | None
    max_power_mw: int | None
    power_limit_mw: int | None
    others_bytes: int | None
    others_count: int | None


def device_use(session: Session) -> DeviceUse | None:
    """Sum up the driver's samples, or return None where there are none."""
    found = [record for record in session.all(DeviceSample) if record.samples]
    if not found:
        return None
    clocks = [r.min_sm_clock_mhz for r in found if r.min_sm_clock_mhz is not None]
    return DeviceUse(
        samples=sum(record.samples for record in found),
        busy_frac=_mean([(r.busy_frac, r.samples) for r in found]),
        throttle_frac=_throttled(found),
        min_sm_clock_mhz=min(clocks, default=None),
        max_sm_clock_mhz=_most(r.max_sm_clock_mhz for r in found),
        max_temperature_c=_most(r.max_temperature_c for r in found),
        max_power_mw=_most(r.max_power_mw for r in found),
        power_limit_mw=_most(r.power_limit_mw for r in found),
        others_bytes=_most(r.max_others_bytes for r in found),
        others_count=_most(r.max_others_count for r in found),
    )


def _throttled(found: list[DeviceSample]) -> dict[str, float] | None:
    known = [r for r in found if r.throttle_frac is not None]
    reasons = sorted({reason for r in known for reason in r.throttle_frac or ()})
    shares = {
        name: _mean([((r.throttle_frac or {}).get(name, 0.0), r.samples) for r in known]) or 0.0
        for name in reasons
    }
    return shares if known else None


def _mean(values: list[tuple[float | None, int]]) -> float | None:
    known = [(value, weight) for value, weight in values if value is not None]
    whole = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / whole if whole else None


def _most(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)
