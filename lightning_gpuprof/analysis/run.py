"""Everything the records of a run say, as one frozen result."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lightning_gpuprof.analysis.device_time import DeviceTime, device_time
from lightning_gpuprof.analysis.device_use import DeviceUse, device_use
from lightning_gpuprof.analysis.distribution import Int64
from lightning_gpuprof.analysis.epoch_starts import EpochStarts, epoch_starts
from lightning_gpuprof.analysis.growth import Growth, phase_growth
from lightning_gpuprof.analysis.loader_wait import LoaderWait, loader_wait
from lightning_gpuprof.analysis.memory_growth import RSS_NOTE, MemoryGrowth, memory_growth
from lightning_gpuprof.analysis.memory_use import MemoryUse, memory_use
from lightning_gpuprof.analysis.phase_split import (
    Part,
    PerStep,
    PhaseStats,
    part_split,
    phase_split,
)
from lightning_gpuprof.analysis.rank_advice import rank_advice
from lightning_gpuprof.analysis.rank_view import RankView, rank_views
from lightning_gpuprof.analysis.sessions import (
    SessionView,
    choose_session,
    same_session,
    session_views,
)
from lightning_gpuprof.analysis.slowest import SlowStep, slowest_steps
from lightning_gpuprof.analysis.special_steps import (
    Compiling,
    compiling,
    flagged_steps,
    usual_save_ns,
)
from lightning_gpuprof.analysis.spikes import GC_NOTE, Spikes, spikes
from lightning_gpuprof.analysis.steady import Mask, StepStats, steady_mask, step_flags, step_stats
from lightning_gpuprof.analysis.step_noise import step_noise_ns
from lightning_gpuprof.analysis.throughput import Knee, SizeRate, knee, size_rates
from lightning_gpuprof.analysis.wall_time import OutsideTime, WallTime, outside_time, wall_time
from lightning_gpuprof.errors import RecordError
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import RankRecords, Session
from lightning_gpuprof.records.schema import (
    COMPILE_NOTE,
    Advice,
    Note,
    ProbeDisabled,
    ProfilerCycle,
    RunEnd,
    RunStart,
    Scalars,
    SyncSite,
)

OF_STEPS = (RSS_NOTE, GC_NOTE, COMPILE_NOTE)
"""Notes that are measurements of single steps, not news."""


@dataclass(frozen=True)
class TraceView:
    """One cycle of the torch.profiler schedule, and its analysis once that was written."""

    rank: int
    cycle: ProfilerCycle
    analysis: Mapping[str, Any] | None


@dataclass(frozen=True)
class RunResults:
    """One session of a run, measured on its lowest rank; `ranks` compares them all.

    Absent means not measured: `steps` where none was recorded, `device_time` without device
    marks, `memory` without a GPU.
    """

    start: RunStart
    end: RunEnd | None
    sessions: tuple[SessionView, ...]
    wall: WallTime
    steps: StepStats | None
    phases: dict[Phase, PhaseStats]
    parts: tuple[Part, ...]
    outside: tuple[OutsideTime, ...]
    epoch_starts: EpochStarts | None
    loader_wait: LoaderWait
    slowest: tuple[SlowStep, ...]
    device_time: DeviceTime | None
    device_use: DeviceUse | None
    memory: MemoryUse | None
    growing: dict[Phase, Growth]
    """Phases that take longer and longer."""
    memory_growth: MemoryGrowth | None
    memory_watched: bool
    """Memory was recorded often enough to say whether it grows."""
    step_noise_ns: int | None
    """What the mean step of two equal runs of this length differs by; None with too few steps."""
    spikes: Spikes | None
    compiling: Compiling | None
    usual_save_ns: int | None
    """What a checkpoint takes at the median; None without one."""
    flagged_steps: dict[str, int]
    """Steady steps that carry a flag, by its name in lower case."""
    ranks: tuple[RankView, ...]
    traces: tuple[TraceView, ...]
    sync_sites: tuple[SyncSite, ...]
    advice: Advice | None
    """Of all ranks: the smallest."""
    size_rates: tuple[SizeRate, ...]
    """Throughput of each batch size that was run."""
    knee: Knee | None
    """The batch size after which more memory buys little; None where one size was run."""
    scalars: tuple[Scalars, ...]
    steady_dur_ns: Int64
    """Duration of each steady step, in step order."""
    batch_size: float | None
    """Mean samples per steady step, where every one of them said."""
    notes: tuple[Note, ...]
    probe_failures: tuple[ProbeDisabled, ...]
    warnings: tuple[str, ...]

    @property
    def status(self) -> str:
        """finished, exception, interrupted, or "open": no closing record (live or killed)."""
        return "open" if self.end is None else self.end.status

    @property
    def step_ns(self) -> int | None:
        """The mean steady step: what per-step savings are a share of."""
        return None if self.steps is None else self.steps.dur.mean_ns

    @property
    def cores(self) -> int | None:
        """The cores of this rank: those its process may use, divided by the ranks that share them.

        Ranks on one machine share them where they may use more altogether than the machine has;
        else each was given its own (as SLURM and `numactl` do).
        """
        start = self.start
        ranks = start.trainer.get("num_devices") if start.world_size > 1 else 1
        if not start.cpu_count or not start.host_cpu_count or not isinstance(ranks, int):
            return start.cpu_count
        shared = ranks > 1 and start.cpu_count * ranks > start.host_cpu_count
        return max(1, start.cpu_count // ranks) if shared else start.cpu_count

    def per_step(self, phase: Phase) -> PerStep | None:
        """Return a phase's time per steady step, or None where not measured."""
        stats = self.phases.get(phase)
        return None if stats is None else stats.per_step

    def parts_of(self, phase: Phase) -> list[Part]:
        """Return the named parts of a phase, the longest in total first."""
        return [part for part in self.parts if part.phase is phase]

    @property
    def on_gpu(self) -> bool:
        """Whether this rank trained on a CUDA or HIP device."""
        return self.start.device is not None and self.start.device.type in ("cuda", "hip")


def analyze_run(
    ranks: Mapping[int, RankRecords],
    traces: Mapping[str, Mapping[str, Any]],
    *,
    session: int | None = None,
) -> RunResults:
    """Analyse one session of a run.

    Args:
        ranks: The records of each rank.
        traces: By trace file name (as in the cycle records), its analysis document.
        session: Session number; by default the last fit that recorded steps.

    Raises:
        RecordError: No rank has a session, or not the one asked for.
    """
    filled = {rank: records for rank, records in sorted(ranks.items()) if records.sessions}
    if not filled:
        raise RecordError(
            "The record files hold no complete `run` line: the run was killed before its first "
            "write, or the files are not ours. Train again, or pass another run."
        )
    first = next(iter(filled.values()))
    chosen = choose_session(first, session)
    same = same_session(filled, chosen.start.session)
    steady = _steady(chosen)
    phases, parts = phase_split(chosen, steady), part_split(chosen, steady)
    rates = size_rates(chosen, steady)
    memory_grown, memory_watched = memory_growth(chosen)
    return RunResults(
        start=chosen.start,
        end=chosen.end,
        sessions=session_views(first),
        wall=wall_time(chosen),
        steps=step_stats(chosen),
        phases=phases,
        parts=parts,
        outside=outside_time(chosen),
        epoch_starts=epoch_starts(chosen, steady),
        loader_wait=loader_wait(chosen, steady),
        slowest=slowest_steps(
            chosen,
            steady,
            {p.value: stats.per_step.median_ns for p, stats in phases.items() if stats.per_step},
            {f"{p.phase.value}/{p.name}": p.per_step.median_ns for p in parts if p.per_step},
        ),
        device_time=device_time(chosen, steady),
        device_use=device_use(chosen),
        memory=memory_use(chosen),
        growing=phase_growth(chosen, steady),
        memory_growth=memory_grown,
        memory_watched=memory_watched,
        step_noise_ns=step_noise_ns(chosen, steady) if chosen.steps else None,
        spikes=spikes(chosen, steady),
        compiling=compiling(chosen, steady),
        usual_save_ns=usual_save_ns(chosen, steady),
        flagged_steps=flagged_steps(chosen, steady),
        ranks=rank_views(same),
        traces=_traces(same, traces),
        sync_sites=tuple(chosen.all(SyncSite)),
        advice=rank_advice(same),
        size_rates=rates,
        knee=knee(rates),
        scalars=tuple(chosen.all(Scalars)),
        steady_dur_ns=chosen.columns["dur_ns"][steady] if chosen.steps else steady.astype(np.int64),
        batch_size=_batch_size(chosen, steady),
        notes=tuple(note for note in chosen.all(Note) if note.name not in OF_STEPS),
        probe_failures=tuple(
            failure for found in same.values() for failure in found.all(ProbeDisabled)
        ),
        warnings=tuple(warning for records in ranks.values() for warning in records.warnings)
        + chosen.warnings,
    )


def _batch_size(session: Session, steady: Mask) -> float | None:
    samples = session.columns.get("samples")
    if samples is None or not steady.any() or (samples[steady] <= 0).any():
        return None
    return float(samples[steady].mean())


def _steady(session: Session) -> Mask:
    if not session.steps:
        return np.zeros(0, dtype=np.bool_)
    return steady_mask(step_flags(session))[0]


def _traces(
    ranks: dict[int, Session], analyses: Mapping[str, Mapping[str, Any]]
) -> tuple[TraceView, ...]:
    return tuple(
        TraceView(rank, cycle, analyses.get(cycle.trace_file))
        for rank, session in ranks.items()
        for cycle in session.all(ProfilerCycle)
    )
