"""The results of a run's analysis, which `run.py` computes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lightning_gpuprof.analysis.memory.memory_use import MemoryResults
from lightning_gpuprof.analysis.run.account import Account
from lightning_gpuprof.analysis.run.compiling import CompileResults
from lightning_gpuprof.analysis.run.device_use import DeviceResults
from lightning_gpuprof.analysis.run.epochs import EpochTimes
from lightning_gpuprof.analysis.run.every_step import EveryStep
from lightning_gpuprof.analysis.run.loader_wait import LoaderResults
from lightning_gpuprof.analysis.run.phase_split import Part, PerStep, PhaseStats
from lightning_gpuprof.analysis.run.ranks.rank_results import RankResults
from lightning_gpuprof.analysis.run.recorded_facts import RecordedFacts
from lightning_gpuprof.analysis.run.sessions import OutsideTime, SessionView, WallTime
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.analysis.run.slow_causes import SlowDownCause
from lightning_gpuprof.analysis.run.steady import Distribution, StepStats
from lightning_gpuprof.analysis.run.variation import Variation
from lightning_gpuprof.analysis.run.whole_fit import WholeFit
from lightning_gpuprof.analysis.trace_tables import TraceAnalysis
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records import schema
from lightning_gpuprof.records.facts import Capture, SlowDown
from lightning_gpuprof.records.lines import HostLines
from lightning_gpuprof.records.operator_times import OperatorTimes
from lightning_gpuprof.records.phases import OWN_CALLBACKS, Phase
from lightning_gpuprof.records.span import StepSpan

BEHIND_FRAC = 0.01
"""The mean steps of host and device differ in the digits shown if they differ by this share."""


@dataclass(frozen=True)
class TraceView:
    """One cycle of the torch.profiler schedule, and its analysis once that was written."""

    rank: int
    cycle: schema.ProfilerCycle
    analysis: TraceAnalysis | None
    others_ns: Mapping[Phase, int] = field(default_factory=dict)
    """Time in the window of validation, checkpoints and other callbacks."""


@dataclass(frozen=True)
class OwnCost:
    """The time of this package per step."""

    callbacks_ns: int
    """As the part `GpuProfCallback` of `callbacks`."""
    timing_ns: int
    """In other phases, for reading clocks and recording marks; 0 if it is not known."""

    @property
    def total_ns(self) -> int:
        """All of it."""
        return self.callbacks_ns + self.timing_ns


@dataclass(frozen=True, kw_only=True)
class RunResults:
    """A session of a run, measured on its lowest rank; `ranks` compares all ranks.

    Every field is built by a function of the module that defines the field's type. What was not
    measured is None or empty. Of a trace without records, only the steps are known.
    """

    span: StepSpan | None = None
    """The steps that the results are of; None for all steps of the session."""
    start: schema.RunStart
    end: schema.RunEnd | None = None
    sessions: tuple[SessionView, ...] = ()
    """All sessions of the record file, in the order in which they ran."""
    wall: WallTime
    outside: tuple[OutsideTime, ...] = ()
    """Time outside of steps, by the kind of the span."""
    steps: StepStats | None = None
    phases: Mapping[Phase, PhaseStats] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    """Named callbacks, loggers and regions within phases."""
    every: EveryStep | None = None
    """All steps, including untimed ones."""
    device_step_ns: int = 0
    """Of a trace alone, the step on the device's clock: the host may be steps ahead."""
    whole_fit: WholeFit | None = None
    account: Account | None = None
    """Where the wall time went; None if nothing was recorded."""
    steady_dur_ns: Int64
    """Durations of the steady steps, in step order."""
    batch_size: float | None = None
    """Mean samples per steady step; None if some steps did not record them."""
    epochs: EpochTimes = field(default_factory=EpochTimes)
    variation: Variation = field(default_factory=Variation)
    loader: LoaderResults = field(default_factory=LoaderResults)
    device: DeviceResults = field(default_factory=DeviceResults)
    memory: MemoryResults = field(default_factory=MemoryResults)
    compiled: CompileResults = field(default_factory=CompileResults)
    lines: HostLines | None = None
    """Samples of the training thread's stack; None if it was not sampled."""
    ranks: RankResults = field(default_factory=RankResults)
    traces: tuple[TraceView, ...] = ()
    slow_downs: tuple[SlowDown, ...] = ()
    """Those that were noticed while training ran, the earliest first."""
    slow_down: SlowDownCause | None = None
    """The slow-down that has cost most, with what else changed; None if there is none."""
    captures: tuple[Capture, ...] = ()
    circumstances: Mapping[str, float] = field(default_factory=dict)
    """What else is known of the steps, such as sizes of batches; names end in the unit."""
    facts: RecordedFacts = field(default_factory=RecordedFacts)
    operator_times: Mapping[str, OperatorTimes] = field(default_factory=dict)
    """What calls of operators take on the reader's machine, by `OperatorInputs.key`."""
    warnings: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """finished, exception, interrupted, or "open": no closing record (live or killed)."""
        return "open" if self.end is None else self.end.status

    @property
    def trains(self) -> bool:
        """Whether the session trains: it fits a model, or the trace is not of inference."""
        return self.start.stage == "fit"

    @property
    def step_ns(self) -> int | None:
        """The mean steady step, timed by phase or not, of which savings per step are a share.

        It is on the device's clock if the device holds the host back and takes longer: in a short
        run, the host may have queued most steps before the device has done a good part of them.
        The growth of run-ahead is the difference.
        """
        if self.steps is None:
            return None
        return max(self.steps.dur.mean_ns + self._behind_ns, self.device_step_ns)

    @property
    def fit_step_ns(self) -> int | None:
        """The mean of all steps, including those that compile and the time between epochs."""
        if self.steps is None or self.step_ns is None:
            return None
        around_ns = sum(
            span.total_ns for span in self.outside if span.where in ("setup", "teardown")
        )
        return max(self.step_ns, (self.wall.accounted_ns - around_ns) // self.steps.ran)

    @property
    def wait_ns(self) -> int | None:
        """The mean wait for a batch per steady step, without the starts of workers."""
        wait = self.per_step(Phase.DATA_WAIT)
        if wait is None:
            return None
        amid_ns = self.epochs.amid_starts.per_step_ns if self.epochs.amid_starts else 0
        first_ns = self.epochs.starts.steady_mean_ns if self.epochs.starts else 0
        return max(0, wait.mean_ns - amid_ns - first_ns)

    @property
    def own_cost(self) -> OwnCost | None:
        """What this package takes of a mean steady step; None if it is not known."""
        parts = [part for part in self.parts_of(Phase.CALLBACKS) if part.name in OWN_CALLBACKS]
        means = [part.per_step.mean_ns for part in parts if part.per_step is not None]
        callbacks_ns, end = sum(means), self.end
        timing_ns = None if end is None else end.timing_ns_per_step
        if timing_ns is None:  # earlier versions recorded the sum alone
            usual_ns = (end and end.own_cost_ns_per_step) or 0
            timing_ns = max(0, usual_ns - callbacks_ns)
        return OwnCost(callbacks_ns, timing_ns) if callbacks_ns or timing_ns else None

    @property
    def windows_ns(self) -> int:
        """The time that this rank's profiler windows took to stop and to write their traces."""
        cycles = (trace.cycle for trace in self.traces if trace.rank == self.start.rank)
        return sum((cycle.stop_ns or 0) + (cycle.export_ns or 0) for cycle in cycles)

    def of_run(self, time_ns: float) -> float:
        """Return a time as a share of the session's wall time."""
        return min(1.0, time_ns / max(1, self.wall.wall_ns))

    @property
    def _behind_ns(self) -> int:
        device = self.device.time
        return max(0, device.falls_behind_ns) if device and device.is_behind else 0

    @property
    def by_device(self) -> bool:
        """Whether a step is longer on the device's clock, because the host runs ahead of it."""
        return self.steps is not None and self._behind_ns > BEHIND_FRAC * self.steps.dur.mean_ns

    @property
    def step_dur(self) -> Distribution | None:
        """The distribution of the steady step's time, on the clock of `step_ns`."""
        device = self.device.time
        if device is not None and self.by_device:
            return replace(device.dur, mean_ns=self.step_ns or 0)
        return None if self.steps is None else self.steps.dur

    @property
    def samples_per_s(self) -> float | None:
        """Mean samples over the mean step; None if some steps did not record their samples."""
        if self.batch_size is None or not self.step_ns:
            return None
        return self.batch_size * 1e9 / self.step_ns

    @property
    def cores(self) -> int | None:
        """The cores of this rank: those its process may use, divided by the ranks that share them.

        Ranks on the same machine share cores if together they may use more than the machine has.
        Otherwise every rank has cores of its own, as SLURM and `numactl` assign them.
        """
        start = self.start
        ranks = settings_of(start).num_devices if start.world_size > 1 else 1
        if not start.cpu_count or not start.host_cpu_count or ranks is None:
            return start.cpu_count
        shared = ranks > 1 and start.cpu_count * ranks > start.host_cpu_count
        return max(1, start.cpu_count // ranks) if shared else start.cpu_count

    @property
    def lacks_ranks(self) -> bool:
        """Whether the records lack the steps of some ranks, so that waits for these are unknown."""
        return 0 < sum(1 for view in self.ranks.views if view.steps) < self.start.world_size

    def per_step(self, phase: Phase) -> PerStep | None:
        """Return a phase's time per steady step; None if it was not measured."""
        stats = self.phases.get(phase)
        return None if stats is None else stats.per_step

    def parts_of(self, phase: Phase) -> list[Part]:
        """Return the named parts of a phase, those with the longest total first."""
        return [part for part in self.parts if part.phase is phase]

    @property
    def on_gpu(self) -> bool:
        """Whether this rank trained on a CUDA or HIP device."""
        return self.start.device is not None and self.start.device.type in ("cuda", "hip")
