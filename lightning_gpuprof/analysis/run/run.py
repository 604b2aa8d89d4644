"""Everything the records of a run say, computed."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lightning_gpuprof.analysis.memory.memory_use import memory_growth, memory_use, rank_advice
from lightning_gpuprof.analysis.run import epochs, sessions
from lightning_gpuprof.analysis.run.compiling import compiling
from lightning_gpuprof.analysis.run.device_time import device_dur_ns, device_time
from lightning_gpuprof.analysis.run.device_use import device_use
from lightning_gpuprof.analysis.run.every_step import Spread, every_step
from lightning_gpuprof.analysis.run.growth import phase_growth
from lightning_gpuprof.analysis.run.loader_wait import loader_wait
from lightning_gpuprof.analysis.run.outliers import spikes, step_noise_ns
from lightning_gpuprof.analysis.run.phase_split import part_split, phase_split
from lightning_gpuprof.analysis.run.ranks.rank_steps import common_steady
from lightning_gpuprof.analysis.run.ranks.rank_view import rank_views
from lightning_gpuprof.analysis.run.ranks.rank_waits import exchange_at_most, rank_waits
from lightning_gpuprof.analysis.run.run_results import RunResults, TraceView
from lightning_gpuprof.analysis.run.slowest import slowest_steps
from lightning_gpuprof.analysis.run.steady import mean_samples, steady_steps, step_stats
from lightning_gpuprof.analysis.run.whole_fit import whole_fit
from lightning_gpuprof.errors import RecordError
from lightning_gpuprof.records import facts
from lightning_gpuprof.records.lines import CompileEvent, HostLines, ModuleCalls, WorkerLines
from lightning_gpuprof.records.reader import RankRecords, Session
from lightning_gpuprof.records.schema import Note, ProbeDisabled, ProfilerCycle, Scalars, SyncSite

_NO_STEPS = np.zeros(0, dtype=np.int64)


def analyze_run(
    ranks: Mapping[int, RankRecords],
    traces: Mapping[str, Mapping[str, Any]],
    *,
    session: int | None = None,
) -> RunResults:
    """Analyse one session of a run."""
    filled = _with_sessions(ranks)
    first = next(iter(filled.values()))
    chosen = sessions.choose_session(first, session)
    same = sessions.same_session(filled, chosen.start.session)
    return RunResults(
        start=chosen.start,
        end=chosen.end,
        sessions=sessions.session_views(first),
        wall=sessions.wall_time(chosen),
        outside=sessions.outside_time(chosen),
        device_use=device_use(chosen),
        memory=memory_use(chosen),
        traces=_traces(same, traces),
        sync_sites=tuple(chosen.all(SyncSite)),
        scalars=tuple(chosen.all(Scalars)),
        probe_failures=tuple(
            failure for found in same.values() for failure in found.all(ProbeDisabled)
        ),
        warnings=tuple(warning for records in ranks.values() for warning in records.warnings)
        + chosen.warnings,
        **_of_steps(chosen),
        **_of_ranks(same, chosen),
        **_facts(chosen),
    )


def _of_steps(session: Session) -> dict[str, Any]:
    """Return the results that rest on the session's steps."""
    steady = steady_steps(session)
    spread = Spread(session, steady)
    phases, parts = phase_split(spread), part_split(spread)
    every = every_step(session, steady)
    device = device_time(session, steady)
    return {
        "steps": step_stats(session, every.step_ns if every else None),
        "phases": phases,
        "parts": parts,
        "every": every,
        "whole_fit": whole_fit(session, steady),
        "epoch_starts": epochs.epoch_starts(session, steady),
        "amid_starts": epochs.amid_starts(session, steady),
        "between_epochs": epochs.work_between_epochs(session),
        "validations": epochs.validations(session, steady, every),
        "loader_wait": loader_wait(session, steady),
        "slowest": slowest_steps(session, steady, phases, parts),
        "device_time": device,
        "growing": phase_growth(session, steady),
        "step_noise_ns": step_noise_ns(session, steady),
        "spikes": spikes(session, steady),
        "compiling": compiling(session, steady),
        "steady_dur_ns": session.columns.get("dur_ns", _NO_STEPS)[steady],
        "device_dur_ns": device_dur_ns(session, steady),
        "batch_size": mean_samples(session, steady),
    }


def _of_ranks(same: dict[int, Session], chosen: Session) -> dict[str, Any]:
    """Return the results that compare the session of every rank."""
    compared = common_steady(same)
    whole = len(compared) >= chosen.start.world_size
    waits = rank_waits(same, compared) if whole else None
    growth, watched = memory_growth(chosen)
    return {
        "ranks": rank_views(same, compared, waits),
        "rank_waits": waits,
        "exchange_at_most_ns": None if whole else exchange_at_most(same, compared),
        "memory_growth": growth,
        "memory_watched": watched,
        "advice": rank_advice(same, growth),
    }


def _facts(session: Session) -> dict[str, Any]:
    """Return the session's notes and its single facts, by their names in `RunResults`."""
    anomaly, batch = session.last(facts.AnomalyMode), session.last(facts.BatchBytes)
    synced = session.last(facts.SyncedLogs)
    return {
        "notes": tuple(session.all(Note)),
        "lines": session.last(HostLines),
        "worker_lines": session.last(WorkerLines),
        "compile_events": tuple(session.all(CompileEvent)),
        "module_calls": session.last(ModuleCalls),
        "anomaly_mode": anomaly if anomaly is not None and anomaly.on else None,
        "batch_bytes": None if batch is None else batch.num_bytes,
        "unused_gradients": session.last(facts.UnusedGradients),
        "synced_logs": () if synced is None else synced.names,
        "cpu_quota": session.last(facts.CpuQuota),
        "core_wait": session.last(facts.CoreWait),
        "io_pressure": session.last(facts.IoPressure),
        "syncs_watched": any(one.steps for one in session.all(facts.SyncSteps)),
    }


def _with_sessions(ranks: Mapping[int, RankRecords]) -> dict[int, RankRecords]:
    filled = {rank: records for rank, records in sorted(ranks.items()) if records.sessions}
    if not filled:
        texts = (text for one in ranks.values() for text in (one.newer, *one.warnings) if text)
        raise RecordError(
            next(texts, "")
            or "The record files hold no complete `run` line: the run was killed before its first "
            "write, or the files are not ours. Train again, or pass another run."
        )
    return filled


def _traces(
    ranks: dict[int, Session], analyses: Mapping[str, Mapping[str, Any]]
) -> tuple[TraceView, ...]:
    return tuple(
        TraceView(rank, cycle, analyses.get(cycle.trace_file), sessions.others_ns(session, cycle))
        for rank, session in ranks.items()
        for cycle in session.all(ProfilerCycle)
    )
