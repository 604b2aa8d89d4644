"""The schema of record files: every line is a record as JSON, with its type in `kind`.

A record file is `<log dir>/plugins/gpuprof/rank<r>.jsonl`. It is only ever appended to. A `run`
line begins a *session* (a fit, validate, test or predict call, also after a resume); the lines
that follow belong to it until the next `run` line. Times are int ns on the host's monotonic
clock, counted from the session's start (`RunStart.started_unix_ns` is that instant in Unix time).

What was not measured is absent. A missing column was not measured, with one exception: a phase
that `RunStart.phases` names, and whose column is missing from a window, took 0 ns in all its steps.
"""

from enum import IntFlag
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records.facts import Fact
from lightning_gpuprof.records.lines import (
    CapturedLines,
    CompileEvent,
    HostLines,
    ModuleCalls,
    OutsideLines,
    Recompilation,
    WorkerLines,
)

SCHEMA_VERSION = 2
UNTIMED_STEPS = "unmarked_steps"
"""`OutsideSpan.where` of steps that were not timed by phase, if only every n-th step is."""
NOT_MEASURED = -1
"""In a device column: the step's device time is unknown, as its mark was lost or came too late."""


ITEM_BYTES = {"i4": 4, "i8": 8}
"""Bytes of a value in a `Column`, by its type."""


class StepFlag(IntFlag):
    """Special circumstances of a step. The column `flags` holds their sum."""

    WARMUP = 1
    """Among the first steps of the session (allocator, cudnn benchmark, lazy initialisation)."""
    COMPILED = 2
    """torch.compile compiled something during this step."""
    PROFILED = 4
    """torch.profiler was recording."""
    VALIDATION = 8
    CHECKPOINT = 16
    EPOCH_START = 32
    """The first step of an epoch: data workers may have been starting."""
    WATCHED = 64
    """Something else that watches a step slowed it down."""
    UNFINISHED = 128
    """An exception or interrupt ended the step early."""
    LOGGED = 256
    """A logger was called."""


NOT_STEADY = (
    StepFlag.WARMUP | StepFlag.COMPILED | StepFlag.PROFILED | StepFlag.WATCHED | StepFlag.UNFINISHED
)
"""A step with any of these does not stand for the run."""


class Column(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A value for every step of a window, packed as `["i4", "<base64>"]`, little-endian.

    The type is i4 if all values fit into it, else i8. The garbage collector does not follow
    columns: they are many in a long run, and cannot be part of a cycle.
    """

    dtype: str
    data: bytes

    @classmethod
    def pack(cls, values: "npt.ArrayLike") -> "Column":
        """Pack a 1-d array of integers.

        >>> Column.pack([1, 2, 3]).unpack().tolist()
        [1, 2, 3]
        """
        array = np.asarray(values, dtype="<i8")
        fits = array.size == 0 or (array.min() >= -(2**31) and array.max() < 2**31)
        dtype = "i4" if fits else "i8"
        return cls(dtype, array.astype("<" + dtype).tobytes())

    def unpack(self) -> "Int64":
        """Return the values as int64."""
        if self.dtype not in ITEM_BYTES:
            raise ValueError(f"unknown column type {self.dtype!r}")
        return np.frombuffer(self.data, dtype="<" + self.dtype).astype(np.int64)


class _Record(msgspec.Struct, tag_field="kind", omit_defaults=True, kw_only=True):
    pass


class Device(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The device this rank trains on; `type` is cpu, cuda, hip or mps."""

    type: str
    name: str | None = None
    index: int | None = None
    count: int | None = None
    total_bytes: int | None = None
    capability: str | None = None
    """Compute capability as "9.0" (NVIDIA) or architecture as "gfx942" (AMD)."""


class Loader(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Settings of a loader; all None but `loaders` if it is not a DataLoader."""

    num_workers: int | None = None
    batch_size: int | None = None
    pin_memory: bool | None = None
    persistent_workers: bool | None = None
    prefetch_factor: int | None = None
    length: int | None = None
    dataset_kind: str | None = None
    """"map" (indexed) or "iterable" (`IterableDataset`)."""
    sampler: str | None = None
    """Class of its sampler or batch sampler if that is neither torch's nor Lightning's own."""
    in_memory: bool | None = None
    """Its samples are rows of a `TensorDataset` or of subsets of it, collated by default."""
    dataset: str | None = None
    """Class of the dataset, inside a `Subset` or other wrappers of torch."""
    collate: str | None = None
    """Name of the collate function if it is not torch's."""
    shares: str | None = None
    """What the dataset reads of the LightningModule: "the model", or an attribute's name."""
    loaders: int | None = None
    """How many loaders have these settings, if several; `length` is then that of all together."""


class RunStart(_Record, tag="run"):
    """Begins a session."""

    schema_version: int
    session: int
    """0 for the run's first session, then 1, 2, ...; a rank that joins later begins higher."""
    stage: str
    """fit, validate, test or predict."""
    started_unix_ns: int
    rank: int
    world_size: int = 1
    host: str = ""
    hosts: list[str] = []
    """Of rank 0: the machines by node rank; "" for a machine whose name was not known yet."""
    mesh: dict[str, int] = {}
    """The rank's coordinate on every axis of a device mesh, such as `data` and `tensor`. Empty if
    all ranks exchange with one another."""
    pid: int = 0
    cpu_count: int | None = None
    """Cores that this rank's process may use, which it may share with other ranks."""
    host_cpu_count: int | None = None
    """Cores of the machine."""
    torch_threads: int | None = None
    """Threads with which torch computes on the CPU in this process."""
    torch_settings: dict[str, Any] = {}
    """torch's own switches when training began, such as cudnn_benchmark."""
    versions: dict[str, str] = {}
    """python, torch, lightning, lightning_gpuprof, cuda or hip."""
    trainer: dict[str, Any] = {}
    """strategy, precision, accumulate_grad_batches, max_epochs, max_steps, ..."""
    model: dict[str, Any] = {}
    """class, parameters (count), parameter_bytes, dtypes, optimizers, compiled."""
    device: Device | None = None
    gpu_left_unused: str | None = None
    """Why training runs on the CPU of a machine that has a GPU: "not_used" (torch could use it),
    "not_built" (torch was built without support for it) or "not_found" (the driver lists it, but
    torch does not)."""
    loader: Loader | None = None
    validation_loader: Loader | None = None
    """The loader of a fit's validations, unless there are several that differ; `length` counts the
    batches that a validation takes."""
    config: dict[str, Any] = {}
    program: tuple[str, ...] = ()
    """The script as `python` was given it, or "-m" and a module; without the arguments, which may
    hold secrets. Empty if it is neither."""
    timer: str = "tap"
    """"tap" if the Trainer's profiler actions time the steps; empty if steps were not timed."""
    phases: list[str] = []
    """The phases that the session measures."""


class StepsWindow(_Record, tag="steps"):
    """The steps of a window: readable totals first, then a packed value for every step.

    Columns by name: `step` (global batch count of the session, from 0), `epoch`, `batch_idx`,
    `start_ns`, `dur_ns`, `flags`, `samples` (batch size), `numbers` (that the batch's first tensor
    holds), `phase/<phase>` (host self time),
    `part/<phase>/<name>` (the share of a named callback, logger or region in that phase),
    `device/<phase>` (device time), `run_ahead/<phase>` (device behind host at that phase's end),
    `device_dur`, `device_part/<phase>/<name>` (the share of a named component in `device/<phase>`).
    In a step whose `device_dur` was measured, `NOT_MEASURED` says that a phase or component did
    not run. The host columns add up: in every step, `dur_ns` is the sum of `phase/*`.
    """

    first_step: int
    count: int
    total_ns: int
    phase_total_ns: dict[str, int]
    columns: dict[str, Column]


class OutsideSpan(_Record, tag="outside"):
    """Wall time that belongs to no recorded step: before the first, between epochs, after the last.

    If only every n-th step is timed by phase, a span `unmarked_steps` stands for the other steps of
    a window: `dur_ns` is their sum, and `phase_ns` is the part of it whose phase was measured.
    """

    where: str
    """setup, epoch_start, epoch_end, teardown, unmarked_steps."""
    start_ns: int
    dur_ns: int
    phase_ns: dict[str, int]
    part_ns: dict[str, int] = {}
    """Time of named parts, by `<phase>/<name>`."""
    steps: int = 0
    """How many steps were not timed by phase."""
    flagged: dict[str, int] = {}
    """How many of these steps have a `StepFlag`, by its name in lower case."""
    compiled_ns: list[int] = []
    """Durations of the steps after the warm-up in which torch.compile compiled something."""
    long_steps: list[int] = []
    """The numbers of steps that took far longer than the others, apart from those whose flags say
    why."""
    long_ns: list[int] = []
    """What these steps took."""


class Memory(_Record, tag="memory"):
    """Device memory at a window's end, in torch's terms; peaks are since the process began."""

    step: int
    allocated_bytes: int
    reserved_bytes: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    total_bytes: int
    free_bytes: int | None = None
    alloc_retries: int | None = None
    ooms: int | None = None
    allocator_bytes: dict[str, dict[str, int]] = {}
    """allocated, active, inactive_split and reserved bytes, each of `all` pools, the `small_pool`
    and the `large_pool`."""
    samples: int | None = None
    """Samples in the window's largest batch if the window raised the peak; else None."""
    peak_from_before: bool = False
    """The peak is from before this training, which has not exceeded it."""
    kind_bytes: dict[str, int] = {}
    """At the peak: parameters, gradients, optimizer_state (measured once), activations (the peak
    less the memory between steps) and other. Empty if the peak is from before this training."""


class Scalars(_Record, tag="scalars"):
    """Losses and other values of steps, read some steps later; None for a step that gave none."""

    steps: list[int]
    values: dict[str, list[float | None]]
    not_finite: dict[str, list[int]] | None = None
    """By name, the steps whose value was NaN or infinite; `values` holds None for them."""
    first_batch: int = 0
    """Batches that a resumed run had trained before the session's step 0."""


class ProfilerCycle(_Record, tag="cycle"):
    """A finished cycle of the torch.profiler schedule, or the window of a capture."""

    cycle: int
    """Counts the cycles of the schedule from 0. The windows of captures are counted on from
    there."""
    first_step: int
    last_step: int
    trace_file: str
    """Relative to the record file's folder; its analysis is `<trace_file>.analysis.json`."""
    stop_ns: int | None = None
    export_ns: int | None = None
    trace_bytes: int | None = None
    quiet: bool = False
    """Validation, checkpoints and other callbacks in the cycle were not recorded."""
    capture: int | None = None
    """The number of the `Capture` that this is the window of; None for a cycle of the schedule."""


class DeviceSample(_Record, tag="device"):
    """The driver's figures since the previous such record; None for those it does not provide.

    `throttle_frac` holds, by reason, the share of samples in which it held the clocks down.
    """

    step: int
    """The last batch that had been trained by then; 0 if none had."""
    start_ns: int
    end_ns: int
    samples: int
    busy_frac: float | None = None
    """Share of the time in which a kernel was running, however little of the device it filled."""
    max_power_mw: int | None = None
    power_limit_mw: int | None = None
    max_temperature_c: int | None = None
    min_sm_clock_mhz: int | None = None
    max_sm_clock_mhz: int | None = None
    throttle_frac: dict[str, float] | None = None
    max_others_bytes: int | None = None
    """Memory of other processes; None if processes cannot be told apart, as in containers."""
    max_others_count: int | None = None


class Snapshot(_Record, tag="snapshot"):
    """A dump of the allocator's state and history that was written beside the record file."""

    step: int
    reason: str
    """window, oom or request."""
    file: str
    """Relative to the record file's folder. `<file>.kinds.json` holds the addresses of the model's
    tensors."""
    oom: dict[str, int] = {}
    """On OOM, the allocator's requested_bytes, device_total_bytes and device_free_bytes."""


class AdviceDetails(msgspec.Struct, omit_defaults=True, kw_only=True, frozen=True):
    """What a suggested batch size rests on, and what to change together with it."""

    constant_bytes: int | None = None
    """Memory that does not depend on the batch size."""
    per_sample_bytes: int | None = None
    largest_batch_size: int | None = None
    """The largest batch that the whole device is predicted to hold."""
    notes: tuple[str, ...] = ()
    accumulate_grad_batches: int | None = None
    """With the suggested size, keeps the effective batch size as near as possible to what it is."""
    effective_batch_size: int | None = None
    """Samples per optimizer step on all ranks, with the suggestion and this accumulation."""
    learning_rate: str | None = None
    """A sentence on the learning rate that goes with it."""
    rank: int | None = None
    """The rank that allows least, if several ranks were asked."""
    ranks_advised: int | None = None
    """How many ranks had a suggestion."""


class Advice(_Record, tag="advice"):
    """The suggestion of a batch size, as it stood at a step."""

    step: int
    batch_size: int
    suggested_batch_size: int | None = None
    low: int | None = None
    high: int | None = None
    reason: str = ""
    """Why there is no suggestion, or why its interval is wide."""
    details: AdviceDetails = AdviceDetails()


class SyncSite(_Record, tag="sync"):
    """A line of code that makes the host wait for the device, from an inspection."""

    file: str
    line: int
    function: str
    source: str
    owner: str
    """Whose code it is: user, lightning, metric, callback:<name>, logger:<name> or dataloader."""
    operation: str
    count: int
    steps_watched: int
    blocked_ns: int | None = None
    would_sync: bool = False
    """The inspection ran on a CPU, where the line does not wait; on a GPU it would."""
    phase: str | None = None


class ProbeDisabled(_Record, tag="probe_disabled"):
    """A recorder failed and was switched off for the rest of the session."""

    probe: str
    step: int
    error: str
    traceback: str


class Note(_Record, tag="note"):
    """A message about the run that readers show, such as why there is no trace."""

    step: int
    name: str
    value: Any = None
    message: str = ""


class RunEnd(_Record, tag="end"):
    """Ends a session in good order. Without it, the run is live or was killed."""

    status: str
    """finished, exception or interrupted."""
    wall_ns: int
    steps: int
    own_cost_ns_per_step: int | None = None
    """Time of this package itself in a usual step, by its own clock. Profiled steps, and work that
    is done once in many steps, are left out."""
    timing_ns_per_step: int | None = None
    """Mean time of this package in other phases, where it reads clocks and records marks."""
    error: str | None = None


Record = (
    RunStart
    | StepsWindow
    | OutsideSpan
    | Memory
    | Scalars
    | ProfilerCycle
    | DeviceSample
    | Snapshot
    | Advice
    | SyncSite
    | ProbeDisabled
    | Note
    | Fact
    | CompileEvent
    | Recompilation
    | HostLines
    | OutsideLines
    | WorkerLines
    | CapturedLines
    | ModuleCalls
    | RunEnd
)
