"""All results of a run's analysis; `run.py` computes them.

Apart from that, because what judges a trace by itself needs this class alone: none of the analyses
of records is imported for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lightning_gpuprof.records.phases import Phase

if TYPE_CHECKING:
    from lightning_gpuprof.analysis.memory.memory_use import MemoryGrowth, MemoryUse
    from lightning_gpuprof.analysis.run import epochs
    from lightning_gpuprof.analysis.run.compiling import Compiling
    from lightning_gpuprof.analysis.run.device_time import DeviceTime
    from lightning_gpuprof.analysis.run.every_step import EveryStep
    from lightning_gpuprof.analysis.run.growth import Growth
    from lightning_gpuprof.analysis.run.host_lines import HostLines
    from lightning_gpuprof.analysis.run.loader_wait import LoaderWait
    from lightning_gpuprof.analysis.run.outliers import Spikes
    from lightning_gpuprof.analysis.run.phase_split import Part, PerStep, PhaseStats
    from lightning_gpuprof.analysis.run.ranks.rank_view import RankView
    from lightning_gpuprof.analysis.run.ranks.rank_waits import RankWaits
    from lightning_gpuprof.analysis.run.sessions import OutsideTime, WallTime
    from lightning_gpuprof.analysis.run.slowest import SlowStep
    from lightning_gpuprof.analysis.run.steady import Distribution, StepStats
    from lightning_gpuprof.analysis.run.whole_fit import WholeFit
    from lightning_gpuprof.arrays import Int64
    from lightning_gpuprof.records import facts, schema
    from lightning_gpuprof.records.lines import CompileEvent, ModuleCalls, WorkerLines

BEHIND_FRAC = 0.01
"""By so much of the host's mean step the device's differs in the digits that are shown."""


@dataclass(frozen=True)
class TraceView:
    """One cycle of the torch.profiler schedule, and its analysis once that was written."""

    rank: int
    cycle: schema.ProfilerCycle
    analysis: Mapping[str, Any] | None
    others_ns: Mapping[Phase, int] = field(default_factory=dict)
    """Time in the window of validation, checkpoints and other callbacks."""


@dataclass(frozen=True, kw_only=True)
class RunResults:
    """One session of a run, measured on its lowest rank; `ranks` compares them all.

    Absent means not measured: `steps` where none was recorded, `device_time` without device
    marks, `memory` without a GPU. What is not given is absent: a trace alone gives little.
    """

    start: schema.RunStart
    end: schema.RunEnd | None = None
    sessions: tuple[dict[str, Any], ...] = ()
    wall: WallTime
    steps: StepStats | None = None
    phases: dict[Phase, PhaseStats] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    outside: tuple[OutsideTime, ...] = ()
    epoch_starts: epochs.EpochStarts | None = None
    amid_starts: epochs.AmidStarts | None = None
    between_epochs: tuple[epochs.BetweenEpochs, ...] = ()
    """Time of callbacks and hooks between epochs, the longest first."""
    loader_wait: LoaderWait
    slowest: tuple[SlowStep, ...] = ()
    device_time: DeviceTime | None = None
    device_use: schema.DeviceSample | None = None
    memory: MemoryUse | None = None
    growing: dict[Phase, Growth] = field(default_factory=dict)
    """Phases that take longer and longer."""
    memory_growth: MemoryGrowth | None = None
    memory_watched: bool = False
    """Memory was recorded often enough to say whether it grows."""
    step_noise_ns: int | None = None
    """Difference between the mean steps of two equal runs; None with too few steps."""
    spikes: Spikes | None = None
    compiling: Compiling | None = None
    compile_events: tuple[CompileEvent, ...] = ()
    """Where torch.compile broke its graph, and what it compiled again."""
    every: EveryStep | None = None
    """All steps, also those that were not marked."""
    whole_fit: WholeFit | None = None
    validations: epochs.Validations | None = None
    """None where there was none."""
    ranks: tuple[RankView, ...] = ()
    rank_waits: RankWaits | None = None
    """How long ranks wait for one another; None with one rank, or where some rank's are unknown."""
    exchange_at_most_ns: int | None = None
    """Per step, where some rank has no steps here: communication, or waiting for such a rank."""
    traces: tuple[TraceView, ...] = ()
    sync_sites: tuple[schema.SyncSite, ...] = ()
    advice: schema.Advice | None = None
    """Of all ranks: the smallest."""
    scalars: tuple[schema.Scalars, ...] = ()
    steady_dur_ns: Int64
    """Duration of each steady step, in step order."""
    device_dur_ns: Int64 | None = None
    """The same on the device's clock, of those steps that were marked; None without marks."""
    batch_size: float | None = None
    """Mean samples per steady step, where every one of them said."""
    notes: tuple[schema.Note, ...] = ()
    lines: HostLines | None = None
    """Samples of the training thread's stack; None where none were taken."""
    worker_lines: WorkerLines | None = None
    """Samples of the loader's worker processes; None where none were taken."""
    module_calls: ModuleCalls | None = None
    """None where no module was named."""
    anomaly_mode: facts.AnomalyMode | None = None
    """None where it was off, or nobody looked."""
    batch_bytes: int | None = None
    unused_gradients: facts.UnusedGradients | None = None
    synced_logs: tuple[str, ...] = ()
    """Values that `self.log` exchanges between ranks in each step."""
    cpu_quota: facts.CpuQuota | None = None
    core_wait: facts.CoreWait | None = None
    io_pressure: facts.IoPressure | None = None
    syncs_watched: bool = False
    """An inspection watched some steps for syncs."""
    probe_failures: tuple[schema.ProbeDisabled, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """finished, exception, interrupted, or "open": no closing record (live or killed)."""
        return "open" if self.end is None else self.end.status

    @property
    def step_ns(self) -> int | None:
        """The mean steady step, marked or not: what per-step savings are a share of.

        On the device's clock where it holds the host back and takes longer: of a short run the host
        may have queued most before the device has done a good part. By how much, run-ahead tells.
        """
        return None if self.steps is None else self.steps.dur.mean_ns + self._behind_ns

    @property
    def fit_step_ns(self) -> int | None:
        """The mean of all steps, those that compile too, with the time between epochs in it."""
        if self.steps is None or self.step_ns is None:
            return None
        apart = [one.total_ns for one in self.outside if one.where in ("setup", "teardown")]
        return max(self.step_ns, (self.wall.accounted_ns - sum(apart)) // self.steps.ran)

    @property
    def wait_ns(self) -> int | None:
        """The mean wait for a batch per steady step, without what workers take to start."""
        wait = self.per_step(Phase.DATA_WAIT)
        if wait is None:
            return None
        amid_ns = self.amid_starts.per_step_ns if self.amid_starts else 0
        first_ns = self.epoch_starts.steady_mean_ns if self.epoch_starts else 0
        return max(0, wait.mean_ns - amid_ns - first_ns)

    @property
    def windows_ns(self) -> int:
        """What this rank's profiler windows took to close: to stop, and to write their traces."""
        own = (one.cycle for one in self.traces if one.rank == self.start.rank)
        return sum((one.stop_ns or 0) + (one.export_ns or 0) for one in own)

    def of_run(self, taken_ns: float) -> float:
        """Return the share of the whole run that some time is."""
        return min(1.0, taken_ns / max(1, self.wall.wall_ns))

    @property
    def _behind_ns(self) -> int:
        device = self.device_time
        return max(0, device.falls_behind_ns) if device and device.is_behind else 0

    @property
    def by_device(self) -> bool:
        """Whether a step is longer on the device's clock than on the host's, which ran ahead."""
        return self.steps is not None and self._behind_ns > BEHIND_FRAC * self.steps.dur.mean_ns

    @property
    def step_dur(self) -> Distribution | None:
        """How the steady step's time spreads, on the clock that `step_ns` is by."""
        device = self.device_time
        if device is not None and self.by_device:
            return replace(device.dur, mean_ns=self.step_ns or 0)
        return None if self.steps is None else self.steps.dur

    @property
    def samples_per_s(self) -> float | None:
        """Mean samples over the mean step; None where some step did not say how many it had."""
        if self.batch_size is None or not self.step_ns:
            return None
        return self.batch_size * 1e9 / self.step_ns

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

    @property
    def lacks_ranks(self) -> bool:
        """Whether some rank has no steps here while others do: waits for it are not known then."""
        return 0 < sum(1 for one in self.ranks if one.steps) < self.start.world_size

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
