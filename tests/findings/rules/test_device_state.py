"""What the driver says of the device: held-down clocks, and others on it."""

import pytest

from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.schema import DeviceSample

GIB, MIB = 2**30, 2**20


def sample(samples=10, **fields):
    return DeviceSample(step=49, start_ns=0, end_ns=1, samples=samples, **fields)


def test_heat_is_a_warning_with_its_share_and_the_clocks(judge):
    hot = {"hw_thermal_slowdown": 0.5, "gpu_idle": 0.1}
    records = [
        sample(throttle_frac=hot, min_sm_clock_mhz=900, max_sm_clock_mhz=1_980),
        sample(throttle_frac={}, max_temperature_c=88, min_sm_clock_mhz=1_200),
    ]
    finding = judge("throttled-clocks", {"forward": 1}, records=records)
    assert finding.severity is Severity.WARNING
    assert finding.title == ("Clocks were held down in 25.0% of readings: heat")
    assert finding.evidence == {"throttled_frac": 0.25, "min_sm_clock_per_s": 900_000_000}
    assert finding.saving_ns.high == 0


def test_a_power_limit_under_load_is_a_fact(judge):
    records = [sample(throttle_frac={"sw_power_cap": 0.9})]
    finding = judge("throttled-clocks", {"forward": 1}, records=records)
    assert finding.severity is Severity.INFO
    assert "the power limit" in finding.title


def test_another_process_is_reported_with_its_bytes(judge):
    records = [sample(max_others_bytes=3 * GIB, max_others_count=1), sample()]
    finding = judge("shared-device", {"forward": 1}, records=records)
    assert finding.title == "Another process holds 3.00 GiB on this device"
    two = [sample(max_others_bytes=3 * GIB, max_others_count=2)]
    assert judge("shared-device", {"forward": 1}, records=two).title.startswith("2 other processes")


DIPS = {"gpu_idle": 0.8, "hw_thermal_slowdown": 0.05}


@pytest.mark.parametrize(
    ("rule", "fields"),
    [
        ("throttled-clocks", {"throttle_frac": DIPS}),
        ("shared-device", {"max_others_bytes": 0, "max_others_count": 0}),
        ("throttled-clocks", {}),
        ("shared-device", {}),
    ],
)
def test_short_dips_no_other_process_and_an_unknown_state_are_silent(judge, rule, fields):
    assert judge(rule, {"forward": 1}, records=[sample(**fields)]) is None
