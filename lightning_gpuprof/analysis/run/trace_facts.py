"""An analysed trace per training step, as rules and savings read it."""

from dataclasses import dataclass
from functools import cached_property
from statistics import median

from msgspec.structs import replace

from lightning_gpuprof.analysis.run.run_results import RunResults, TraceView
from lightning_gpuprof.analysis.run.steady import EARLY
from lightning_gpuprof.analysis.trace_tables import OperatorRow, SyncCall, TraceAnalysis
from lightning_gpuprof.records.phases import Phase

CUDA_GRAPHS = ("nvidia", "amd", None)
"""Makers of devices for which torch has CUDA graphs."""


@dataclass(frozen=True)
class Operator:
    """An operator's calls per step; host times are scaled to steps without the profiler.

    Calls that made or moved a batch are left out, and the times in proportion.
    """

    name: str
    calls: float
    total_ns: float
    self_ns: float
    device_total_ns: float | None
    repeated_calls: float = 0.0
    """Passes of an autograd node after its first pass, if the trace has arrows."""
    repeated_ns: float = 0.0
    backward_calls: float = 0.0
    """Calls inside nodes of the autograd graph."""
    backward_ns: float = 0.0
    update_calls: float = 0.0
    """Calls in an optimizer's update of the weights."""
    update_self_ns: float = 0.0


@dataclass(frozen=True)
class DeviceStep:
    """The first device's time per step, over the steps that its time split covers."""

    span_ns: float
    busy_ns: float
    compute_ns: float
    comm_ns: float
    exposed_comm_ns: float
    exposed_copy_ns: float


@dataclass(frozen=True)
class TraceFacts:
    """The analysis of a trace, and its figures per profiled step.

    Args:
        analysis: The trace's analysis, without the device's times if some of them are impossible.
        host_scale: The steady step over the profiled step, at most 1: the profiler slows the host.
    """

    analysis: TraceAnalysis
    steps: int
    host_scale: float

    @cached_property
    def operators(self) -> dict[str, Operator]:
        """Every operator by name."""
        operators = (self._operator(row) for row in self.analysis.operators)
        return {operator.name: operator for operator in operators if operator.calls}

    @property
    def doubted(self) -> bool:
        """Whether some of the device's times are impossible, so that all are left out here."""
        return bool(self.analysis.doubts)

    @property
    def on_device(self) -> bool:
        """Whether anything ran on a GPU in this trace."""
        return self.analysis.gpu is not None

    @property
    def replays_graphs(self) -> bool:
        """Whether CUDA graphs are in use already."""
        launches = self.analysis.launches
        return launches is not None and launches.graph_count > 0

    @property
    def takes_cuda_graphs(self) -> bool:
        """Whether the device is one for which torch has CUDA graphs, or is not known."""
        device = self.analysis.device
        return device is None or device.vendor in CUDA_GRAPHS

    @property
    def compiled(self) -> bool:
        """Whether torch.compile is in use already."""
        return self.analysis.compiled

    @cached_property
    def device_step(self) -> DeviceStep | None:
        """The first device's time per step; None without a device."""
        split, steps = self.analysis.gpu, self._device_steps
        if split is None:
            return None
        return DeviceStep(
            span_ns=split.span_ns / steps,
            busy_ns=split.busy_ns / steps,
            compute_ns=split.compute_ns / steps,
            comm_ns=split.comm_ns / steps,
            exposed_comm_ns=split.exposed_comm_ns / steps,
            exposed_copy_ns=split.exposed_copy_ns / steps,
        )

    @property
    def _device_steps(self) -> int:
        """How many steps the device's time split and its idle time cover."""
        return (self.analysis.gpu.steps if self.analysis.gpu else 0) or self.steps

    def free_ns(self, step_ns: int) -> float:
        """Return the part of a step in which the first device is idle: the most to be saved."""
        return max(0.0, step_ns - (self.device_step.busy_ns if self.device_step else 0.0))

    def idle_ns(self, *causes: str) -> float | None:
        """Return the first device's idle time of these causes per step; None without a device."""
        if not self.on_device:
            return None
        total_ns = sum(row.total_ns for row in self.analysis.idle if row.cause in causes)
        return total_ns / self._device_steps

    def sync_ns(self) -> float | None:
        """Return the time in synchronizing calls per step; None without a device."""
        total_ns = self.analysis.sync_ns
        return None if total_ns is None else total_ns / self.steps

    def syncs(self, kind: str) -> list[SyncCall]:
        """Return the longest synchronizing calls of one kind."""
        return [call for call in self.analysis.syncs if call.kind == kind]

    @property
    def launches(self) -> int:
        """How many kernels the host launched in the trace."""
        return self.analysis.quality.launch_count

    @property
    def lost_kernels(self) -> int:
        """How many launched kernels the trace lacks."""
        return self.analysis.quality.lost_kernels

    @property
    def lost_kernels_frac(self) -> float | None:
        """The share of launched kernels that the trace lacks; None if it has no launches."""
        return self.lost_kernels / self.launches if self.launches else None

    def _operator(self, row: OperatorRow) -> Operator:
        steps = self.steps
        outside = row.count - row.loading_count
        steady = self.host_scale / steps
        host = steady * outside / max(1, row.count)
        device_ns = row.device_total_ns
        return Operator(
            name=row.name,
            calls=outside / steps,
            total_ns=row.total_ns * host,
            self_ns=row.self_ns * host,
            device_total_ns=None if device_ns is None else device_ns / steps,
            repeated_calls=row.repeated_count / steps,
            repeated_ns=row.repeated_ns * host,
            backward_calls=row.backward_count / steps,
            backward_ns=row.backward_ns * host,
            update_calls=row.update_count / steps,
            update_self_ns=row.update_self_ns * steady,
        )


def trace_facts(run: RunResults) -> TraceFacts | None:
    """Return the last analysed trace of the report's rank; None if there is none."""
    trace = last_analysed(run)
    if trace is None or trace.analysis is None or not trace.analysis.steps:
        return None
    marks = trace.analysis.steps
    traced = [mark.dur_ns for mark in marks if mark.dur_ns]
    # The median step without the growth of phases since the trace.
    steady = (run.steps.plain_p50_ns if run.steps else 0) - sum(grown_ns(run).values())
    scale = min(1.0, steady / median(traced)) if traced and steady > 0 else 1.0
    return TraceFacts(
        analysis=_without_doubtful_times(trace.analysis), steps=len(marks), host_scale=scale
    )


def _without_doubtful_times(analysis: TraceAnalysis) -> TraceAnalysis:
    """Leave out everything that rests on the device's times if some of them are impossible."""
    if not analysis.doubts:
        return analysis
    operators = tuple(
        replace(row, device_total_ns=None, device_self_ns=None, device_count=None)
        for row in analysis.operators
    )
    return replace(
        analysis,
        gpu=None,
        gpus=(),
        idle=(),
        idle_functions=(),
        gaps=(),
        kernels=(),
        categories=(),
        thin_kernels=None,
        tensor_core_frac=None,
        gemm_frac=None,
        operators=operators,
        copies=(),
        roofline=(),
        roofs=None,
        modules=(),
        lines=(),
        critical_path=None,
    )


def grown_ns(run: RunResults) -> dict[Phase, int]:
    """Return how much longer growing phases take at the median than in the run's first steps."""
    if not is_early(run):
        return {}
    growing = {phase: run.per_step(phase) for phase in run.variation.growing}
    return {
        phase: max(0, per_step.median_ns - per_step.early_ns)
        for phase, per_step in growing.items()
        if per_step is not None
    }


def is_early(run: RunResults) -> bool:
    """Return whether the last analysed trace is of the run's first steps."""
    trace = last_analysed(run)
    return trace is not None and trace.cycle.first_step < EARLY


def last_analysed(run: RunResults) -> TraceView | None:
    """Return the last analysed cycle of the lowest rank, if possible one without doubtful times.

    The windows of captures show what happened in some steps. They count only if there is no other.
    """
    analysed = [
        (trace, trace.analysis)
        for trace in run.traces
        if trace.analysis is not None and trace.rank == run.start.rank
    ]
    if scheduled := [row for row in analysed if row[0].cycle.capture is None]:
        analysed = scheduled
    sound = [trace for trace, analysis in analysed if not analysis.doubts]
    candidates = sound or [trace for trace, _ in analysed]
    return candidates[-1] if candidates else None
