"""The device runs slower than it could: heat, power or a setting holds its clocks down.

## Symptom
In a tenth of its readings or more, the driver gave a reason for holding the clocks down.

## Why
Kernels take longer in proportion to the clock. Heat is often the reason if a run gets slower minute
by minute, or if one card of many lags behind.

## Fix
For heat, look at the cooling and at neighbouring cards; for the power brake, at the power supply or
the rack. A power cap is usual under full load. A clock setting was somebody's choice.

```sh
nvidia-smi -lgc 900   # before: clocks fixed
nvidia-smi -rgc       # after
```

## How it is measured
`throttled_frac` is the share of the driver's readings (NVML, AMD SMI) with the reason. The lowest
clock is given with it.

## Limits
If a power cap is the only reason, the finding is `info`. No time is claimed.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Severity
from lightning_gpuprof.findings.rule import evidence_of, measured, rule
from lightning_gpuprof.units import percent

MIN_FRAC = 0.10
MIN_SAMPLES = 5
USUAL = "sw_power_cap"
REASONS = dict(
    hw_thermal_slowdown="heat",
    sw_thermal_slowdown="heat",
    socket_thermal_slowdown="heat",
    hbm_thermal_slowdown="memory heat",
    hw_slowdown="heat or supply",
    hw_power_brake_slowdown="the power brake",
    sw_power_cap="the power limit",
    applications_clocks_setting="a clock setting",
    sync_boost="the slowest card of its group",
)
EFFORT = Effort(Horizon.MEDIUM, "cooling, power or a setting of the machine", "none to the model")


@rule(id="throttled-clocks", needs=("device readings",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about the main reason for which the clocks were held down."""
    use = measured(run.device.use)
    if use.throttle_frac is None or use.samples < MIN_SAMPLES:
        return None
    reasons = {name: frac for name, frac in use.throttle_frac.items() if name in REASONS}
    ranked = sorted(reasons, key=lambda name: -reasons[name])
    held = [name for name in ranked if reasons[name] >= MIN_FRAC]
    if not held:
        return None
    grave = [name for name in held if name != USUAL]
    worst = (grave or held)[0]
    mhz = use.min_sm_clock_mhz
    hottest = "" if use.max_temperature_c is None else f", at up to {use.max_temperature_c} °C"
    return Finding(
        severity=Severity.WARNING if grave else Severity.INFO,
        title=f"Clocks were held down in {percent(reasons[worst])} of readings: {REASONS[worst]}",
        advice=f"Find the reason for {', '.join(held)}{hottest}: cooling, the power limit, or a "
        "setting of the clocks.",
        evidence=evidence_of(
            throttled_frac=reasons[worst], min_sm_clock_per_s=mhz and mhz * 1_000_000
        ),
        confidence=0.9 if grave else 0.6,
        change="nvidia-smi -q -d PERFORMANCE,CLOCK,POWER,TEMPERATURE",
    )
