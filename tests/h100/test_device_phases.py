"""Phases on the device's clock, of runs made slow in a known way."""

import pytest

from lightning_gpuprof.analysis.run.run import analyze_run
from lightning_gpuprof.records.device_marks import StepState
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import read_run


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("device-bound", StepState.DEVICE_BOUND),
        ("host-bound", StepState.HOST_BOUND),
        ("sync-bound", StepState.SYNC_BOUND),
        ("small-batch", StepState.HOST_BOUND),
        ("fp32-products", StepState.DEVICE_BOUND),
    ],
)
def test_steps_are_bound_by_what_was_made_slow(h100, name, state):
    found = analyze_run(read_run(str(h100 / name)), {}).device.time
    assert found.state is state
    assert found.state_frac[state] > 0.5
    assert sum(found.state_frac.values()) == pytest.approx(1)


def test_products_of_4096_take_what_the_card_needs_for_them(h100):
    # Seven layers of 4096 x 4096 over 4096 rows in fp32, forward: 7 * 2 * 4096**3 operations.
    found = analyze_run(read_run(str(h100 / "device-bound")), {}).device.time
    rate = 7 * 2 * 4096**3 / (found.phases[Phase.FORWARD].median_ns / 1e9)
    assert 0.6 * 67e12 < rate < 67e12  # the card's peak outside its tensor cores
