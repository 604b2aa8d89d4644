"""The time of torch.compile in a run."""

import numpy as np
import pytest

from lightning_gpuprof.records.facts import CompileTime
from lightning_gpuprof.records.schema import UNTIMED_STEPS, OutsideSpan, StepFlag

MS = 1_000_000


def test_a_whole_fit_holds_the_time_of_compiling_from_the_first_step_on(analyze):
    flags = [StepFlag.WARMUP | StepFlag.COMPILED, StepFlag.COMPILED, *[0] * 98]
    forward = [2_010 * MS, 1_010 * MS, *[10 * MS] * 98]
    took = [CompileTime(0, 2_000 * MS), CompileTime(1, 1_000 * MS)]
    run = analyze({"forward": forward}, flags=flags, records=took)
    assert run.compiled.time.whole_ns == 3_000 * MS
    assert run.whole_fit.step_ns == pytest.approx(40 * MS)
    assert run.whole_fit.steps.step_ns == pytest.approx(10 * MS)


def test_the_steps_of_a_run_that_always_compiles_are_judged_without_their_compiling(analyze):
    flags = [StepFlag.COMPILED] * 100
    took = [CompileTime(step, 30 * MS) for step in range(100)]
    run = analyze({"forward": 40 * MS}, flags=flags, records=took)
    assert run.steps.basis == "compiled"
    assert run.whole_fit.step_ns == pytest.approx(40 * MS)
    assert run.whole_fit.compiling_ns == pytest.approx(30 * MS)
    assert run.variation.spikes.count == 0


def test_compiling_in_steps_that_are_not_timed_by_phase_counts_once(analyze):
    span = OutsideSpan(
        UNTIMED_STEPS, 0, 1_300 * MS, {}, steps=100, compiled_ns=[310 * MS], flagged={"compiled": 1}
    )
    took = [CompileTime(150, 300 * MS)]
    run = analyze({"forward": 10 * MS}, records=[span, *took])
    assert run.whole_fit.step_ns == pytest.approx((1_000 + 1_300) * MS / 200)
    assert run.whole_fit.compiling_ns == pytest.approx(300 * MS / 200)


def test_what_a_validation_compiles_between_epochs_is_part_of_the_time_between_them(analyze):
    flags = np.array([0] * 99 + [StepFlag.COMPILED])
    end = OutsideSpan("epoch_end", 0, 500 * MS, {"validation": 500 * MS})
    run = analyze({"forward": 10 * MS}, flags=flags, records=[end, CompileTime(99, 400 * MS)])
    assert run.whole_fit.compiling_ns == pytest.approx(10 * MS / 100)
