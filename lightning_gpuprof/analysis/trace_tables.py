"""The analysis of one trace: what the engine returns, and what is stored beside the trace.

Times are integer nanoseconds from the trace's first event. None stands for what was not measured;
an empty table has nothing to show. Analyses of older versions may lack tables, so that all of them
have a default.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from lightning_gpuprof.records.operator_times import OperatorInputs

ANALYSIS_VERSION = 16
"""The version of an analysis's tables. Raise it when a table is added or changes its meaning:
rules that need the table would find nothing in the analyses that are already stored."""

Ns = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=0)]
Bytes = Annotated[int, Meta(ge=0)]
Number = Annotated[float, Meta(ge=0)]
Purpose = Literal["training", "inference"]
"""What a traced program does: inference computes results, without a backward pass."""


class SourceLine(Struct, frozen=True):
    """The line at which a function of the user's own begins, or calls what was recorded."""

    file: str
    line: int
    function: str


class TraceWindow(Struct, frozen=True):
    """The part of a trace that was analysed, on the host's clock."""

    name: str
    start_ns: int
    end_ns: int


class TimeSplit(Struct, frozen=True):
    """The parts of a span; `compute + exposed_comm + exposed_copy + idle == span`, exactly."""

    span_ns: Ns
    busy_ns: Ns
    idle_ns: Ns
    compute_ns: Ns
    comm_ns: Ns
    copy_ns: Ns
    exposed_comm_ns: Ns
    exposed_copy_ns: Ns

    @property
    def busy_frac(self) -> float | None:
        """The share of the span in which anything ran; None for an empty span."""
        return self.busy_ns / self.span_ns if self.span_ns else None


class IdleCause(Struct, frozen=True):
    """A device's idle time with one cause; `count` is the number of gaps it has a part in."""

    cause: str
    total_ns: Ns
    count: Count = 0


class IdleFunction(Struct, frozen=True):
    """A Python function whose own code, or built-ins, the host ran while the device was idle."""

    name: str
    where: SourceLine | None
    total_ns: Ns


class Gap(Struct, frozen=True):
    """One period in which a device was idle: its largest cause, and the launch that ended it."""

    start_ns: int
    dur_ns: Ns
    cause: str
    next_name: str | None = None
    """The kernel or copy that ended it."""
    operator: str | None = None
    region: str | None = None
    where: SourceLine | None = None


class DeviceSplit(TimeSplit, frozen=True, kw_only=True):
    """How one device's time divides, and what its idle time is due to.

    The split is of `steps` whole steps where the trace marks them, or of the window that was asked
    for; otherwise it reaches from the first event to the end of the last, as `first_to_last` always
    does.
    """

    device: int = 0
    rank: str | None = None
    """Set in a file that joins the traces of several ranks."""
    steps: Count = 0
    idle: tuple[IdleCause, ...] = ()
    first_to_last: TimeSplit | None = None


class TraceDevice(Struct, frozen=True):
    """The devices that ran something: the name and vendor of the first, and their number."""

    name: str | None
    vendor: str | None
    count: Count


class KernelRow(Struct, frozen=True, kw_only=True):
    """All launches of kernels with one name; `frac` is of all kernels' summed time.

    `occupancy_frac` and the two fields after it are means over the time for which they are known.
    """

    name: str
    category: str = ""
    count: Count
    total_ns: Ns
    mean_ns: Number | None = None
    min_ns: Ns | None = None
    max_ns: Ns | None = None
    frac: Number | None = None
    tensor_cores: bool | None = None
    occupancy_frac: Number | None = None
    blocks_per_sm: Number | None = None
    warps_per_sm: Number | None = None


class CategoryRow(Struct, frozen=True):
    """All kernels of one category; `frac` is of all kernels' summed time."""

    category: str
    total_ns: Ns
    count: Count = 0
    frac: Number | None = None


class ThinKernels(Struct, frozen=True):
    """Kernels that take less than 10 µs, which is about what a launch costs."""

    count: Count
    total_ns: Ns
    count_frac: Number
    """Their share of all kernels, by number."""


class Occupancy(Struct, frozen=True, omit_defaults=True):
    """How all kernels fill the device: means over the time for which each is known."""

    occupancy_frac: Number | None = None
    blocks_per_sm: Number | None = None
    warps_per_sm: Number | None = None


class MetricRow(Struct, frozen=True):
    """Samples of a share of a device's peak, while work ran; `device` counts the sampled ones."""

    name: str
    device: int
    count: Count
    mean_frac: Number
    max_frac: Number


class OperatorRow(Struct, frozen=True, kw_only=True):
    """All calls of operators with one name.

    `loading_count` calls made or moved a batch, `repeated_count` are passes of a node of the
    autograd graph after its first, `backward_count` lie inside such nodes, and `update_count` in an
    optimizer's update of the weights. Without a device, `device_...` is None.
    """

    name: str
    count: Count = 0
    total_ns: Ns
    self_ns: Ns
    device_total_ns: Ns | None = None
    device_self_ns: Ns | None = None
    device_count: Count | None = None
    loading_count: Count = 0
    repeated_count: Count = 0
    repeated_ns: Ns = 0
    backward_count: Count = 0
    backward_ns: Ns = 0
    update_count: Count = 0
    update_self_ns: Ns = 0


class OperatorMemory(Struct, frozen=True, kw_only=True):
    """What all calls of an operator allocated and freed themselves, in one kind of memory.

    `name` is None outside of operators, `device` for the host's memory.
    """

    name: str | None
    device: int | None = None
    count: Count
    allocated_bytes: Bytes
    freed_bytes: Bytes

    @property
    def self_bytes(self) -> int:
        """What they allocated and did not free; below 0 where they freed more."""
        return self.allocated_bytes - self.freed_bytes


class RangeRow(Struct, frozen=True):
    """All host ranges with one name that are neither operators nor runtime calls.

    They may lie inside each other.
    """

    name: str
    category: str
    count: Count
    total_ns: Ns
    min_ns: Ns
    max_ns: Ns


class OrderStatistics(Struct, frozen=True):
    """Order statistics of some durations, below 0 where the clocks disagree."""

    min_ns: int
    median_ns: int
    p90_ns: int
    max_ns: int
    mean_ns: float


class QueueDepth(Struct, frozen=True):
    """Work launched and not yet started: at most, on average, and as points (time, depth)."""

    max: Count
    mean: Number | None
    series: tuple[tuple[int, int], ...]


class CallRow(Struct, frozen=True):
    """All runtime or driver calls with one name; `kind` says what the call does."""

    name: str
    kind: str
    count: Count
    total_ns: Ns
    mean_ns: Number
    max_ns: Ns


class LaunchStats(Struct, frozen=True, kw_only=True):
    """Launches of a trace: how many, how long a call takes, and how long a kernel waits after it.

    `graph_count` launches ran whole CUDA graphs, with `graphed_thin_count` kernels under 10 µs.
    """

    count: Count = 0
    kernel_count: Count = 0
    graph_count: Count = 0
    graphed_thin_count: Count = 0
    kernels_per_step: Number | None = None
    launches_per_step: Number | None = None
    delay: OrderStatistics | None = None
    overhead: OrderStatistics | None = None
    queue_depth: QueueDepth | None = None
    calls: tuple[CallRow, ...] = ()


class CopyRow(Struct, frozen=True, kw_only=True):
    """All copies of one direction; `memory` is the host's, pageable or pinned, where known."""

    kind: str
    memory: str | None = None
    count: Count = 0
    total_ns: Ns = 0
    bytes: Bytes | None = None
    bytes_per_s: Number | None = None


class SyncKind(Struct, frozen=True):
    """Synchronizing calls by what they wait for, at the line of the longest that has one."""

    name: str
    where: SourceLine | None
    count: Count
    total_ns: Ns
    cheaper: str | None = None
    """Code that waits for less, where the call has to stay."""


class SyncCall(Struct, frozen=True, kw_only=True):
    """One synchronizing call; `kind` is what it waits for."""

    name: str
    kind: str = ""
    start_ns: int = 0
    blocked_ns: Ns
    operator: str | None = None
    region: str | None = None
    where: SourceLine | None = None


class PlaceRow(Struct, frozen=True):
    """Device time of the work that was launched from one module or source line."""

    name: str
    where: SourceLine | None
    count: Count
    total_ns: Ns


class StepRow(Struct, frozen=True):
    """A step as it is marked on the host; `gpu` splits the device's time between its borders.

    torch.profiler marks steps as `ProfilerStep#N`; in inference, a step may be a call of the model.
    `distorted` steps take far longer than the others. `number` counts the marks of a thread, and
    `rank` is set in a file that joins several ranks.
    """

    name: str
    start_ns: int
    dur_ns: Ns
    gpu: TimeSplit | None = None
    distorted: bool = False
    rank: str | None = None
    number: Count = 0


Bound = Literal["compute", "memory"]
"""Which of the device's two limits is the lower one for an operator."""


class RooflineRow(Struct, frozen=True, kw_only=True):
    """All calls of one operator with the same arguments that launched kernels.

    The cost (`flop_count`, `num_bytes`) is of one call; None is what the device's peaks or an
    impossible result leave open.
    """

    name: str
    category: str = ""
    dims: tuple[Any, ...] = ()
    dtype: str = ""
    count: Count
    kernel_count: Count = 0
    total_ns: Ns
    flop_count: Count = 0
    num_bytes: Bytes = 0
    flop_per_byte: Number = 0.0
    flop_per_s: Number | None = None
    bytes_per_s: Number | None = None
    peak_flop_per_s: Number | None = None
    peak_bytes_per_s: Number | None = None
    ridge_flop_per_byte: Number | None = None
    bound: Bound | None = None
    roof_frac: Number | None = None
    anomaly: str | None = None
    """Why no result is given."""


class HostCallRow(Struct, frozen=True, kw_only=True):
    """Calls of one operator on the CPU, with the same arguments in the same phase.

    They are in all marked steps. A step has a number of places at which such calls stand; where
    calls at some places take several times as long as at others, they are two rows.

    Args:
        phase: A name of `Phase`.
        fastest_ns: The mean over the places of the fastest of the steps' calls there.
        spread: How many times as long the slowest of the steps' calls takes, at the median place;
            None if there is only one step.
        flop_count: The work of one call, as `num_bytes`; None if its arguments leave it open.
    """

    call: OperatorInputs
    phase: str
    count: Count
    total_ns: Ns
    fastest_ns: Ns
    spread: Number | None = None
    flop_count: Count | None = None
    num_bytes: Bytes | None = None
    where: SourceLine | None = None


class Roofs(Struct, frozen=True, kw_only=True):
    """The peaks that operators are compared with, and how much of the kernels' time they cover.

    Args:
        device: The data sheet's name of the device; None where its peaks are not known.
        reason: Why they are not known.
        hfu: The share of the span in which the matrix products would have run at peak.
    """

    device: str | None = None
    url: str | None = None
    peak_flop_per_s: Mapping[str, Number]
    peak_bytes_per_s: Number | None = None
    reason: str | None = None
    total_ns: Ns
    kernel_frac: Number | None = None
    flop_count: Mapping[str, Count]
    hfu: Number | None = None
    notes: tuple[str, ...] = ()


class PathPart(Struct, frozen=True):
    """All segments of the critical path with one kind and name."""

    kind: str
    name: str
    detail: str
    count: Count
    total_ns: Ns
    frac: Number


class CriticalPathSummary(Struct, frozen=True):
    """The critical path by part, longest first; `rest_ns` is the time of the parts left out."""

    start_ns: int
    span_ns: Ns
    kind_ns: Mapping[str, Ns]
    parts: tuple[PathPart, ...]
    rest_ns: Ns


class PassedOver(Struct, frozen=True):
    """Events with a duration that the reader does not understand, by what their tool calls them.

    Args:
        kind: Their category; without one, the name of their process.
        example: The name of the longest.
    """

    kind: str
    count: Count
    total_ns: Ns
    example: str | None = None


class TraceQuality(Struct, frozen=True, kw_only=True):
    """Counts of a trace's faults; `notes` say in words what is missing.

    `doubts` are about times that cannot be: no finding may rest on the device's times of the trace.
    """

    launch_count: Count = 0
    lost_kernels: Count = 0
    orphan_kernels: Count = 0
    kernels_before_launch: Count = 0
    device_events: Count = 0
    impossible_durations: Count = 0
    impossible_starts: Count = 0
    behind_all_steps: Count = 0
    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class TraceAnalysis(Struct, frozen=True, kw_only=True):
    """The analysis of one trace.

    `gpu` is None for a trace of the CPU alone; it and the tables of idle time are of the first
    device, all other tables of all devices. `gpus` has all devices where there are several.
    `modules` and `lines` are empty where no stacks were read, `roofline` where no shapes were
    recorded.
    """

    analysis_version: int | None = None
    source: str = ""
    """The reader's name, such as `kineto`."""
    file: str = ""
    window: TraceWindow | None = None
    """The part that was asked for; None for the whole trace."""
    tool: str | None = None
    """What wrote the file, where it is not the tool that `source` is named after."""
    unrecorded_device: str | None = None
    """The kind of device that the operators ran on, if none of its work is in the trace."""
    purpose: Purpose | None = None
    """What the program does; None where the trace does not show it."""
    engine: str | None = None
    """The serving engine that marked the steps of inference, where it is known."""
    compiled: bool = False
    """Whether torch.compile made some of the program."""
    passed_over: tuple[PassedOver, ...] = ()
    """Events that could not be read, longest first."""
    quality: TraceQuality = TraceQuality()
    device: TraceDevice | None = None
    gpu: DeviceSplit | None = None
    gpus: tuple[DeviceSplit, ...] = ()
    idle: tuple[IdleCause, ...] = ()
    idle_functions: tuple[IdleFunction, ...] = ()
    gaps: tuple[Gap, ...] = ()
    kernels: tuple[KernelRow, ...] = ()
    categories: tuple[CategoryRow, ...] = ()
    thin_kernels: ThinKernels | None = None
    tensor_core_frac: Number | None = None
    """The share of matrix work's time in kernels that use tensor cores."""
    occupancy: Occupancy | None = None
    gpu_metrics: tuple[MetricRow, ...] = ()
    operators: tuple[OperatorRow, ...] = ()
    operator_memory: tuple[OperatorMemory, ...] = ()
    """With `profile_memory=True`, memory by operator, the most allocated first."""
    ranges: tuple[RangeRow, ...] = ()
    launches: LaunchStats | None = None
    copies: tuple[CopyRow, ...] = ()
    to_bytes: Bytes | None = None
    """What calls of `.to()` and `.cuda()` copied."""
    sync_kinds: tuple[SyncKind, ...] = ()
    syncs: tuple[SyncCall, ...] = ()
    """The longest calls in steps; all of the trace where it has no steps."""
    sync_count: Count | None = None
    sync_ns: Ns | None = None
    sync_frac: Number | None = None
    """The share of the steps, or of the trace without steps, in which a process waits."""
    upload_wait_ns: Ns | None = None
    """The part of `sync_ns` in copies to the device from pageable memory."""
    modules: tuple[PlaceRow, ...] = ()
    lines: tuple[PlaceRow, ...] = ()
    gemm_frac: Number | None = None
    """The share of kernel time in matrix products."""
    steps: tuple[StepRow, ...] = ()
    roofline: tuple[RooflineRow, ...] = ()
    roofs: Roofs | None = None
    host_calls: tuple[HostCallRow, ...] = ()
    """Of a trace without a device, the calls of operators whose cost is known."""
    critical_path: CriticalPathSummary | None = None
    warnings: tuple[str, ...] = ()

    @property
    def is_older(self) -> bool:
        """Whether tables may be missing that this version's rules need."""
        return self.analysis_version is None or self.analysis_version < ANALYSIS_VERSION

    @property
    def distinct_steps(self) -> int:
        """How many steps are marked; threads that mark the same step count once."""
        names, numbers = ({step.name for step in self.steps}, {step.number for step in self.steps})
        return max(len(names), len(numbers)) if self.steps else 0

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why the device's times are not to be believed; empty where they are."""
        return self.quality.doubts
