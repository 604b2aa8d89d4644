import pytest
from rule_cases import device_sample

from lightning_gpuprof.findings.model import Severity


def test_heat_is_a_warning_with_its_share_and_the_clocks(evaluate):
    hot = {"hw_thermal_slowdown": 0.5, "gpu_idle": 0.1}
    records = [
        device_sample(throttle_frac=hot, min_sm_clock_mhz=900, max_sm_clock_mhz=1_980),
        device_sample(throttle_frac={}, max_temperature_c=88, min_sm_clock_mhz=1_200),
    ]
    finding = evaluate({"forward": 1}, records=records)
    assert finding.severity is Severity.WARNING
    assert finding.title == ("Clocks were held down in 25% of readings: heat")
    assert finding.evidence == {"throttled_frac": 0.25, "min_sm_clock_per_s": 900_000_000}
    assert finding.saving_ns.high == 0


def test_a_power_limit_under_load_is_a_fact(evaluate):
    records = [device_sample(throttle_frac={"sw_power_cap": 0.9})]
    finding = evaluate({"forward": 1}, records=records)
    assert finding.severity is Severity.INFO
    assert "the power limit" in finding.title


DIPS = {"gpu_idle": 0.8, "hw_thermal_slowdown": 0.05}


@pytest.mark.parametrize("fields", [{"throttle_frac": DIPS}, {}])
def test_short_dips_and_an_unknown_state_are_silent(evaluate, fields):
    assert evaluate({"forward": 1}, records=[device_sample(**fields)]) is None
