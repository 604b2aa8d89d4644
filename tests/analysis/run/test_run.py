import numpy as np
import pytest
from made_records import memory

from lightning_gpuprof.analysis.run.run import analyze_run
from lightning_gpuprof.errors import RecordError
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import RankRecords, read_run
from lightning_gpuprof.records.schema import OutsideSpan, StepFlag

MS = 1_000_000


def at(steps, values, fill=0):
    column = np.full(steps, fill, dtype=np.int64)
    for index, value in values.items():
        column[index] = value
    return column


def test_a_steady_step_leaves_out_warm_up_compilation_and_profiling(analyze):
    flags = at(10, {0: StepFlag.WARMUP, 1: StepFlag.COMPILED, 2: StepFlag.PROFILED})
    forward = at(10, {0: 900, 1: 800, 2: 700}, fill=100)
    run = analyze({"forward": forward}, steps=10, flags=flags)

    assert (run.steps.count, run.steps.basis, run.steps.dur.count) == (10, "steady", 7)
    assert (run.steps.dur.mean_ns, run.steps.dur.max_ns) == (100, 100)
    assert [(a.reason, a.count, a.median_ns) for a in run.steps.apart] == [
        ("warmup", 1, 900),
        ("compiled", 1, 800),
        ("profiled", 1, 700),
    ]


def test_where_every_steady_step_was_profiled_they_are_used_and_that_is_said(analyze):
    flags = at(6, {0: StepFlag.WARMUP}, fill=StepFlag.PROFILED)
    run = analyze({"forward": 100}, steps=6, flags=flags)
    assert (run.steps.basis, run.steps.dur.count) == ("measured", 5)


def test_phases_add_up_to_the_wall_time_with_the_spans_outside_of_steps(analyze):
    spans = [OutsideSpan("setup", 0, 300, phase_ns={"validation": 300})]
    spans += [OutsideSpan("epoch_end", 0, ns, phase_ns={"callbacks": ns}) for ns in (50, 70)]
    run = analyze({"forward": 60, "backward": 40}, steps=10, records=spans, wall_ns=1_500)

    assert run.wall.accounted_ns == 1_420 == sum(p.total_ns for p in run.phases.values())
    assert (run.wall.wall_ns, run.wall.steps_ns, run.wall.outside_ns) == (1_500, 1_000, 420)
    assert run.phases[Phase.CALLBACKS].total_ns == 120
    assert run.phases[Phase.FORWARD].frac == 600 / 1_420
    assert run.per_step(Phase.FORWARD).frac == 0.6
    assert [(o.where, o.count, o.total_ns, o.max_ns) for o in run.outside] == [
        ("setup", 1, 300, 300),
        ("epoch_end", 2, 120, 70),
    ]


def test_validation_counts_in_the_mean_step_and_not_as_jitter(analyze):
    validation = at(20, {9: 1_000, 19: 1_000})
    run = analyze({"forward": 100, "validation": validation}, steps=20)
    assert (run.steps.dur.mean_ns, run.steps.plain_p50_ns, run.steps.jitter_frac) == (200, 100, 0)
    assert run.per_step(Phase.VALIDATION).mean_ns == 100
    assert run.per_step(Phase.VALIDATION).median_ns == 0


def test_a_phase_that_a_session_does_not_time_is_unmeasured(make_session, write_run):
    records = make_session({"forward": 100}, steps=5)
    records[0].phases = ["forward", "other"]
    run = analyze_run(read_run(write_run(records)), {})
    assert run.per_step(Phase.DATA_WAIT) is None
    assert Phase.DATA_WAIT not in run.phases


def test_parts_carry_their_names_and_their_share_of_the_step(analyze):
    parts, outside = {"callbacks/Slow": np.tile([0, 40], 5)}, {"Slow": 5, "Saver": 4}
    part_ns = {f"callbacks/{name}": ns for name, ns in outside.items()}
    span = OutsideSpan("epoch_end", 0, 9, phase_ns={"callbacks": 9}, part_ns=part_ns)
    run = analyze({"forward": 80, "callbacks": 20}, steps=10, parts=parts, records=[span])
    slow, saver = run.parts_of(Phase.CALLBACKS)
    assert (slow.name, slow.total_ns, slow.outside_ns, slow.active_steps) == ("Slow", 205, 5, 5)
    assert (slow.per_step.mean_ns, slow.per_step.max_ns, slow.per_step.frac) == (20, 40, 0.2)
    assert (saver.name, saver.total_ns, saver.per_step) == ("Saver", 4, None)


def test_a_slow_step_names_the_phase_and_the_part_that_exceeded_its_median_most(analyze):
    callbacks = at(30, {7: 500}, fill=20)
    run = analyze(
        {"forward": at(30, {7: 130}, fill=100), "callbacks": callbacks},
        steps=30,
        flags=at(30, {0: StepFlag.WARMUP, 7: StepFlag.EPOCH_START}),
        parts={"callbacks/Saver": at(30, {7: 450}, fill=10), "callbacks/Bar": 10},
    )
    (slow,) = run.variation.slowest
    assert (slow.step, slow.dur_ns, slow.excess_ns, slow.flags) == (7, 630, 510, ("epoch_start",))
    assert (slow.phase, slow.phase_excess_ns) == (Phase.CALLBACKS, 480)
    assert (slow.part, slow.part_excess_ns) == ("Saver", 440)


def test_a_killed_run_ends_with_its_last_record_and_has_no_status(analyze):
    run = analyze({"forward": 100}, steps=7, end=False)
    assert (run.status, run.wall.wall_ns) == ("open", 700)


def test_the_last_fit_that_recorded_steps_is_the_default_session(make_session, write_run):
    path = write_run(
        make_session({"forward": 10}, steps=4)
        + make_session({"forward": 20}, steps=4, session=1)
        + make_session({}, steps=0, session=2)
        + make_session({"forward": 30}, steps=4, session=3, stage="validate")
    )
    ranks = read_run(path)
    run = analyze_run(ranks, {})
    assert (run.start.session, run.step_ns) == (1, 20)
    assert [(view.session, view.stage, view.steps) for view in run.sessions] == [
        (0, "fit", 4),
        (1, "fit", 4),
        (2, "fit", 0),
        (3, "validate", 4),
    ]
    assert analyze_run(ranks, {}, session=0).step_ns == 10
    with pytest.raises(RecordError, match=r"no session 9 in this run. It has: 0 \(fit\), 1"):
        analyze_run(ranks, {}, session=9)


def test_a_session_without_steps_has_no_figures_rather_than_zeros(analyze):
    run = analyze({}, steps=0, wall_ns=500)
    assert (run.steps, run.step_ns, run.device.time, run.memory.use, run.variation.slowest) == (
        None,
    ) * 4 + ((),)
    assert run.per_step(Phase.FORWARD) is None


@pytest.mark.parametrize(("before", "allocated", "frac"), [(False, 700, 0.9), (True, 100, 0.3)])
def test_a_peak_from_before_training_is_not_the_runs(analyze, before, allocated, frac):
    sizes = {"allocated_bytes": 100, "reserved_bytes": 300, "total_bytes": 1_000}
    record = memory(900, peak_allocated_bytes=700, peak_from_before=before, **sizes)
    use = analyze({"forward": 1}, records=[record]).memory.use
    assert (use.peak_allocated_bytes, use.peak_frac) == (allocated, frac)


def test_epoch_starts_are_charged_with_their_extra_wait_and_the_wait_between_epochs(analyze):
    flags = at(20, {0: StepFlag.EPOCH_START | StepFlag.WARMUP, 10: StepFlag.EPOCH_START})
    wait = at(20, {0: 500, 10: 310}, fill=10)
    between = OutsideSpan("epoch_start", 0, 50, phase_ns={"data_wait": 40})
    run = analyze({"data_wait": wait}, steps=20, flags=flags, records=[between])
    starts = run.epochs.starts
    assert (starts.count, starts.again_ns) == (2, 300 + 40)
    assert starts.steady_mean_ns == round(300 / 19)


def test_making_the_loader_anew_is_no_start_of_workers(analyze):
    flags = at(20, {0: StepFlag.EPOCH_START, 10: StepFlag.EPOCH_START})
    parts = {"data_wait/train_dataloader": 30, "data_wait/worker_startup": 10}
    setup, between = (
        OutsideSpan(where, 0, 50, phase_ns={"data_wait": 40}, part_ns=parts)
        for where in ("setup", "epoch_end")
    )
    wait = at(20, {0: 500, 10: 310}, fill=10)
    run = analyze({"data_wait": wait}, steps=20, flags=flags, records=[setup, between])
    assert (run.epochs.starts.again_ns, run.epochs.starts.remade_ns) == (300 + 10, 30)


def test_records_without_any_session_are_refused_with_a_reason():
    with pytest.raises(RecordError, match="no complete `run` line"):
        analyze_run({0: RankRecords(rank=0, sessions=(), warnings=())}, {})


def test_samples_per_second_is_absent_where_a_step_had_none(analyze):
    assert analyze({"forward": 10 * MS}, samples=32).samples_per_s == 3_200
    assert analyze({"forward": 10 * MS}, samples=0).samples_per_s is None
