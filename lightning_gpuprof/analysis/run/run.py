"""Analyses the records of a run."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np

from lightning_gpuprof.analysis.memory.memory_use import memory_results
from lightning_gpuprof.analysis.run import sessions
from lightning_gpuprof.analysis.run.account import run_account
from lightning_gpuprof.analysis.run.circumstances import circumstances
from lightning_gpuprof.analysis.run.compiling import compile_results
from lightning_gpuprof.analysis.run.device_use import device_results
from lightning_gpuprof.analysis.run.epochs import epoch_times
from lightning_gpuprof.analysis.run.every_step import UntimedPhases, every_step
from lightning_gpuprof.analysis.run.loader_wait import loader_results
from lightning_gpuprof.analysis.run.phase_split import part_split, phase_split
from lightning_gpuprof.analysis.run.ranks.rank_results import rank_results
from lightning_gpuprof.analysis.run.recorded_facts import recorded_facts
from lightning_gpuprof.analysis.run.run_results import RunResults, TraceView
from lightning_gpuprof.analysis.run.slow_causes import slow_down_cause
from lightning_gpuprof.analysis.run.slow_downs import captures, slow_downs
from lightning_gpuprof.analysis.run.steady import mean_samples, steady_steps, step_stats
from lightning_gpuprof.analysis.run.variation import step_variation
from lightning_gpuprof.analysis.run.whole_fit import whole_fit
from lightning_gpuprof.analysis.trace_tables import TraceAnalysis
from lightning_gpuprof.errors import RecordError
from lightning_gpuprof.records.device_marks import StepState
from lightning_gpuprof.records.lines import HostLines
from lightning_gpuprof.records.reader import RankRecords, Session
from lightning_gpuprof.records.schema import ProfilerCycle
from lightning_gpuprof.records.span import StepSpan, steps_in

_NO_STEPS = np.zeros(0, dtype=np.int64)
HOST_BOUND = (StepState.HOST_BOUND, StepState.DATA_BOUND)
"""States of a step in which the host never waits for the device."""


def analyze_run(
    ranks: Mapping[int, RankRecords],
    traces: Mapping[str, TraceAnalysis],
    *,
    session: int | None = None,
    span: StepSpan | None = None,
    finds_slow_downs: bool = True,
) -> RunResults:
    """Analyse one session of a run, or a span of its steps.

    Args:
        ranks: Every rank's records.
        traces: The analyses of the run's traces, by the trace file's name.
        session: Number of the session; by default the last fit that recorded steps.
        span: The steps to analyse; by default all.
        finds_slow_downs: Whether slow-downs are looked for among these steps.

    Raises:
        RecordError: There is no such session, or no session at all, or it has no step of the span.
    """
    recorded = _with_sessions(ranks)
    lowest_rank = next(iter(recorded.values()))
    chosen = sessions.choose_session(lowest_rank, session)
    on_ranks = sessions.same_session(recorded, chosen.start.session)
    if span is not None:
        on_ranks = _steps_of_ranks(on_ranks, span)
        chosen = on_ranks.get(lowest_rank.rank) or steps_in(chosen, span)  # raises if it has none
    steady = steady_steps(chosen)
    untimed = UntimedPhases(chosen, steady)
    phases, parts = phase_split(untimed), part_split(untimed)
    every = every_step(chosen, steady)
    wall, compiled = sessions.wall_time(chosen), compile_results(chosen, steady)
    device = device_results(chosen, steady)
    host_bound = device.time is not None and device.time.state in HOST_BOUND
    flagged = every.flagged if every else {}
    slow = slow_downs(chosen) if finds_slow_downs else ()
    return RunResults(
        span=span,
        start=chosen.start,
        end=chosen.end,
        sessions=sessions.session_views(lowest_rank),
        wall=wall,
        outside=sessions.outside_time(chosen),
        steps=step_stats(chosen, every.step_ns if every else None),
        phases=phases,
        parts=parts,
        every=every,
        whole_fit=whole_fit(chosen, steady),
        account=run_account(chosen, wall, phases, parts, flagged, compiled.time),
        steady_dur_ns=chosen.columns.get("dur_ns", _NO_STEPS)[steady],
        batch_size=mean_samples(chosen, steady),
        epochs=epoch_times(chosen, steady, every),
        variation=step_variation(chosen, steady, phases, parts, host_bound=host_bound),
        loader=loader_results(chosen, steady),
        device=device,
        memory=memory_results(chosen, on_ranks),
        compiled=compiled,
        lines=chosen.last(HostLines),
        ranks=rank_results(on_ranks, chosen.start.world_size),
        traces=_traces(on_ranks, traces),
        slow_downs=slow,
        slow_down=slow_down_cause(chosen, slow),
        captures=captures(chosen),
        circumstances=circumstances(chosen, steady),
        facts=recorded_facts(chosen, on_ranks.values()),
        warnings=(
            *(warning for records in ranks.values() for warning in records.warnings),
            *chosen.warnings,
        ),
    )


def _with_sessions(ranks: Mapping[int, RankRecords]) -> dict[int, RankRecords]:
    """Return the ranks that have sessions; raise `RecordError` if none has."""
    recorded = {rank: records for rank, records in sorted(ranks.items()) if records.sessions}
    if not recorded:
        texts = (
            text
            for records in ranks.values()
            for text in (records.newer, *records.warnings)
            if text
        )
        raise RecordError(
            next(texts, "")
            or "The record files hold no complete `run` line: the run was killed before its first "
            "write, or something else wrote the files. Train again, or pass another run."
        )
    return recorded


def _steps_of_ranks(ranks: Mapping[int, Session], span: StepSpan) -> dict[int, Session]:
    """Return a span of the steps of every rank that recorded any of them."""
    parts = {}
    for rank, session in ranks.items():
        with suppress(RecordError):
            # A rollup is of the whole session.
            parts[rank] = replace(steps_in(session, span), rollup=None, rolled=None)
    return parts


def _traces(
    ranks: dict[int, Session], analyses: Mapping[str, TraceAnalysis]
) -> tuple[TraceView, ...]:
    return tuple(
        TraceView(rank, cycle, analyses.get(cycle.trace_file), sessions.others_ns(session, cycle))
        for rank, session in ranks.items()
        for cycle in session.all(ProfilerCycle)
    )
