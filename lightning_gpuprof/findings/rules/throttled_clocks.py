"""The device runs slower than it could: heat, power or a setting holds its clocks down.

## What it measures
`throttled_frac`: share of the driver's readings (NVML, AMD SMI) with a reason to hold the clocks
down; `min_sm_clock_per_s` and `max_sm_clock_per_s`: the lowest and highest clock that was seen.

## Why it matters
Kernels take longer in proportion to the clock. A run that slows down minute by minute, or one card
of many that lags, is often a hot one.

## What to do
Heat (`*_thermal_slowdown`): look at the cooling and the neighbours. Power brake or `hw_slowdown`:
the supply or the rack limits the card; ask who runs the machine. A power cap (`sw_power_cap`): the
card works at its limit, which is usual under full load; raise the limit where it was lowered. A
clock setting: somebody fixed the clocks (`nvidia-smi -q -d CLOCK`).

## Thresholds
`MIN_FRAC`: 10% of the readings, since short dips are usual; `MIN_SAMPLES`: 5 readings. A power cap
alone is told as a fact, the rest as a warning: our judgement. No time is claimed: what the clocks
would otherwise be is not measured.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Severity
from lightning_gpuprof.units import percent

ID = "throttled-clocks"
EFFORT = Effort(Horizon.MEDIUM, "cooling, power or a setting of the machine", "none to the model")
MIN_FRAC = 0.10
MIN_SAMPLES = 5
USUAL = "sw_power_cap"
SAID = dict(
    hw_thermal_slowdown="heat",
    sw_thermal_slowdown="heat",
    socket_thermal_slowdown="heat",
    hbm_thermal_slowdown="heat of its memory",
    voltage_regulator_thermal_slowdown="heat of its voltage regulators",
    hw_slowdown="the hardware (heat or supply)",
    hw_power_brake_slowdown="the power supply's brake",
    sw_power_cap="its power limit",
    applications_clocks_setting="a clock setting",
    display_clock_setting="a clock setting",
    sync_boost="the slowest card of its group",
)
"""Reasons that hold clocks down; being idle is none."""
WITHOUT = (
    "the driver's clocks were not read: it takes nvidia-ml-py or amdsmi, and some "
    "seconds of training"
)


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where something held the clocks down for long enough."""
    use = run.device_use
    if use is None or use.throttle_frac is None or use.samples < MIN_SAMPLES:
        return Abstained(ID, WITHOUT)
    reasons = {name: frac for name, frac in use.throttle_frac.items() if name in SAID}
    held = [
        name for name in sorted(reasons, key=lambda n: -reasons[n]) if reasons[name] >= MIN_FRAC
    ]
    if not held:
        return None
    grave = [name for name in held if name != USUAL]
    worst = (grave or held)[0]
    evidence: dict[str, int | float] = {"throttled_frac": reasons[worst]}
    for key, megahertz in (("min", use.min_sm_clock_mhz), ("max", use.max_sm_clock_mhz)):
        if megahertz is not None:
            evidence[f"{key}_sm_clock_per_s"] = megahertz * 1_000_000
    seen = "" if use.max_temperature_c is None else f", at up to {use.max_temperature_c} °C"
    return Finding(
        id=ID,
        severity=Severity.WARNING if grave else Severity.INFO,
        title=f"In {percent(reasons[worst])} of the readings {SAID[worst]} held the device's "
        f"clocks down{seen}",
        advice=f"Look for what lies behind {', '.join(held)}: cooling, the power limit, or a "
        "setting of the clocks.",
        evidence=evidence,
        saving_ns=Range(low=0, high=0),
        confidence=0.9 if grave else 0.6,
        change="nvidia-smi -q -d PERFORMANCE,CLOCK,POWER,TEMPERATURE",
    )
