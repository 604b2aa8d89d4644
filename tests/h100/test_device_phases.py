"""Phases on the device's clock: of a trace's kernels, and of runs made slow in a known way."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from raw_trace import ON_DEVICE, RawTrace

from lightning_gpuprof.analysis.run.device_time import StepState
from lightning_gpuprof.analysis.run.run import analyze_run
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import NOT_MEASURED

FILE = "plugins/gpuprof/rank0-cycle0.pt.trace.json.gz"
FIRST, LAST = 12, 15
ORDER = ("data_wait", "host_to_device", "forward", "zero_grad")
ORDER += ("backward", "clip_gradients", "optimizer_step", "other")
MARK = "cudaEventRecordWithFlags"
CLOCK_NS = 1_000
"""What an event's time may be off by: CUDA gives half a microsecond as their resolution."""
PASSED_NS = 2_000
"""A mark takes this long at most to pass once all before it is done: seen are 1.3 us."""


def when_marks_passed(raw):
    """Return for each of our marks in a trace the earliest and the latest time it can have passed.

    Not before it was made, nor before what was launched before it had ended; not after what was
    launched after it began. All of it is on one stream.
    """
    work = {e.args["correlation"]: e for e in raw.of(*ON_DEVICE)}
    found, open_marks, done = [], [], 0
    for call in sorted(raw.of("cuda_runtime", "cuda_driver"), key=lambda call: call.start):
        if call.name == MARK:
            open_marks.append(max(call.start, done))
        elif event := work.get(call.args.get("correlation")):
            found += [(earliest, event.start) for earliest in open_marks]
            open_marks, done = [], max(done, event.end)
    return found


@pytest.mark.parametrize(
    ("name", "busiest"),
    [
        ("fp32-products", "forward"),
        ("pageable-copies", "host_to_device"),
        ("small-batch", "backward"),
    ],
)
def test_each_phase_lasted_as_long_as_the_traces_kernels_allow(h100, name, busiest):
    marks = when_marks_passed(RawTrace(h100 / name / FILE))
    columns = read_run(str(h100 / name))[0].sessions[0].columns
    recorded = [
        (phase, int(columns[f"device/{phase}"][step]))
        for step in range(FIRST, LAST + 1)
        for phase in ORDER
    ]
    told = Counter()
    assert len(marks) == len(recorded) - 1  # nothing comes after the last one
    for (phase, dur), (before, after) in zip(recorded, pairwise(marks), strict=False):
        (early, late), (next_early, next_late) = before, after
        least, most = next_early - late - CLOCK_NS, next_late - early + CLOCK_NS
        assert least <= dur <= most + PASSED_NS, phase
        told[phase] += most - least < 0.5 * dur
    # The bounds say something: where the device works, they are near.
    assert told["backward"] >= 3
    assert told[busiest] >= 2


def test_a_steps_phases_add_up_to_its_time_on_the_device(h100):
    for run in sorted(path for path in h100.iterdir() if path.is_dir()):
        for session in read_run(str(run))[0].sessions:
            columns = session.columns
            if "device_dur" not in columns:
                continue
            marked = columns["device_dur"] != NOT_MEASURED
            assert marked.any(), run.name
            whole = sum(
                np.maximum(0, columns[f"device/{phase.value}"][marked])
                for phase in Phase
                if f"device/{phase.value}" in columns
            )
            assert (whole == columns["device_dur"][marked]).all(), run.name


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
    found = analyze_run(read_run(str(h100 / name)), {}).device_time
    assert found.state is state
    assert found.state_frac[state] > 0.5
    assert sum(found.state_frac.values()) == pytest.approx(1)


def test_products_of_4096_take_what_the_card_needs_for_them(h100):
    # Seven layers of 4096 x 4096 over 4096 rows in fp32, forward: 7 * 2 * 4096**3 operations.
    found = analyze_run(read_run(str(h100 / "device-bound")), {}).device_time
    rate = 7 * 2 * 4096**3 / (found.phases[Phase.FORWARD].median_ns / 1e9)
    assert 0.6 * 67e12 < rate < 67e12  # the card's peak outside its tensor cores
