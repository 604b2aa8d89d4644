"""The record file of a run: one JSON line per record, its type in `kind`.

A record file is `<log dir>/plugins/gpuprof/rank<r>.jsonl`. It is only ever appended to. A `run`
line begins a *session* (a fit, validate, test or predict call, also after a resume); the lines
that follow belong to it until the next `run` line. Times are int ns on the host's monotonic
clock, counted from the session's start (`RunStart.started_unix_ns` is that instant in Unix time).

Not measured is absent: a column that is missing was not measured, except that a phase named in
`RunStart.phases` whose column is missing from a window was zero throughout it.
"""

from enum import IntFlag
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records.facts import Fact
from lightning_gpuprof.records.lines import CompileEvent, HostLines, ModuleCalls, WorkerLines

SCHEMA_VERSION = 2
UNMARKED_STEPS = "unmarked_steps"
"""`OutsideSpan.where` of steps that were not marked, where one in many is."""
NOT_MEASURED = -1
"""In a device column: this step's mark was lost or arrived too late."""


ITEM_BYTES = {"i4": 4, "i8": 8}
"""Bytes of a value in a `Column`, by its type."""


class StepFlag(IntFlag):
    """Special circumstances of a step; the column `flags` holds their sum."""

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
    """Something else slowed it down."""
    UNFINISHED = 128
    """An exception or interrupt ended the step early."""
    LOGGED = 256
    """A logger was called."""


class Column(msgspec.Struct, array_like=True, frozen=True):
    """One value per step, packed: `["i4", "<base64>"]`, little-endian; i4 where all fit."""

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
        """Return the values as int64, one per step of the window."""
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
    """Settings of a DataLoader, where it is one."""

    num_workers: int | None = None
    batch_size: int | None = None
    pin_memory: bool | None = None
    persistent_workers: bool | None = None
    prefetch_factor: int | None = None
    length: int | None = None
    dataset_kind: str | None = None
    """"map" (indexed) or "iterable" (`IterableDataset`)."""
    sampler: str | None = None
    """Class of its sampler or batch sampler, where that is neither torch's nor Lightning's own."""
    in_memory: bool | None = None
    """Its samples are rows of a `TensorDataset` or of parts of one, stacked as by default."""
    shares: str | None = None
    """Part of the module that the dataset reads: "the model", or an attribute's name."""
    loaders: int | None = None
    """How many alike there are, where several; `length` is then of all together."""


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
    """Of rank 0: the machines by node rank, "" where one had not told its name yet."""
    pid: int = 0
    cpu_count: int | None = None
    """Cores that this rank's process may use, which it may share with other ranks."""
    host_cpu_count: int | None = None
    """Cores of the machine."""
    torch_threads: int | None = None
    """Threads that torch computes with on the CPU, in this process."""
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
    """On the CPU of a machine with a GPU: "not_used" (torch sees it), "not_built" (this torch is
    none for it) or "not_found" (torch does not see what the driver has)."""
    loader: Loader | None = None
    validation_loader: Loader | None = None
    """Of a fit's validations, unless there are several unlike; `length` is what they take."""
    config: dict[str, Any] = {}
    timer: str = "tap"
    """"tap": by the Trainer's profiler actions; empty where steps were not timed."""
    phases: list[str] = []
    """The phases that this session measures."""


class StepsWindow(_Record, tag="steps"):
    """The steps of one window: readable totals first, then one packed value per step.

    Columns by name: `step` (global batch count of the session, from 0), `epoch`, `batch_idx`,
    `start_ns`, `dur_ns`, `flags`, `samples` (batch size), `phase/<phase>` (host self time),
    `part/<phase>/<name>` (the share of a named callback, logger or region in that phase),
    `device/<phase>` (device time), `run_ahead/<phase>` (device behind host at that phase's end),
    `device_dur`, `device_part/<phase>/<name>` (the share of a named component in `device/<phase>`).
    In a step whose `device_dur` was measured, `NOT_MEASURED` says that a phase or component did
    not run. Host columns of a step add up: sum of `phase/*` is `dur_ns`.
    """

    first_step: int
    count: int
    total_ns: int
    phase_total_ns: dict[str, int]
    columns: dict[str, Column]


class OutsideSpan(_Record, tag="outside"):
    """Wall time that belongs to no recorded step: before the first, between epochs, after the last.

    Where one step in many is marked, `unmarked_steps` holds those of a window that were not:
    `dur_ns` is their sum, and `phase_ns` what is known of it.
    """

    where: str
    """setup, epoch_start, epoch_end, teardown, unmarked_steps."""
    start_ns: int
    dur_ns: int
    phase_ns: dict[str, int]
    part_ns: dict[str, int] = {}
    """By `<phase>/<name>`."""
    steps: int = 0
    """How many steps were not marked."""
    flagged: dict[str, int] = {}
    """How many of them carry a `StepFlag`, by its name in lower case."""
    compiled_ns: list[int] = []
    """How long each took in which torch.compile compiled something, as after the warm-up."""


class Memory(_Record, tag="memory"):
    """Device memory at a window's end, as torch names it; peaks are since the process began."""

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
    """allocated, active, inactive_split and reserved: of all, the small_pool and the large_pool."""
    samples: int | None = None
    """Of the window's largest batch, where the window raised the peak; else None."""
    peak_from_before: bool = False
    """Nothing in this training exceeded the peak that was there at its start."""
    kind_bytes: dict[str, int] = {}
    """At the peak: parameters, gradients, optimizer_state (measured once), activations (the peak
    less the memory between steps), other. Empty where the peak is from before this training."""


class Scalars(_Record, tag="scalars"):
    """Deferred values under their own step numbers; `None` where a step gave none."""

    steps: list[int]
    values: dict[str, list[float | None]]
    not_finite: dict[str, list[int]] | None = None
    """By name, the steps whose value was NaN or infinite, which is null on disk."""
    first_batch: int = 0
    """Batches that the run had trained before the session's step 0, where it resumed one."""


class ProfilerCycle(_Record, tag="cycle"):
    """One finished cycle of the torch.profiler schedule."""

    cycle: int
    first_step: int
    last_step: int
    trace_file: str
    """Relative to the record file's folder; its analysis is `<trace_file>.analysis.json`."""
    stop_ns: int | None = None
    export_ns: int | None = None
    trace_bytes: int | None = None
    quiet: bool = False
    """Nothing was recorded of validation, checkpoints and other callbacks."""


class DeviceSample(_Record, tag="device"):
    """The driver's figures since the last such record; absent where it does not give them.

    `throttle_frac` holds the share of samples in which each reason held the clocks down.
    """

    step: int
    """The last batch that had been trained by then; 0 where none had."""
    start_ns: int
    end_ns: int
    samples: int
    busy_frac: float | None = None
    """A kernel was running: not how much of the device it filled."""
    max_power_mw: int | None = None
    power_limit_mw: int | None = None
    max_temperature_c: int | None = None
    min_sm_clock_mhz: int | None = None
    max_sm_clock_mhz: int | None = None
    throttle_frac: dict[str, float] | None = None
    max_others_bytes: int | None = None
    """Of other processes; absent where processes cannot be told apart (containers)."""
    max_others_count: int | None = None


class Snapshot(_Record, tag="snapshot"):
    """A dump of the allocator's state and history, written beside the record file."""

    step: int
    reason: str
    """window, oom or request."""
    file: str
    """Relative to the record file's folder; `<file>.kinds.json` has the model's addresses."""
    oom: dict[str, int] = {}
    """On OOM, as the allocator said: requested_bytes, device_total_bytes, device_free_bytes."""


class Advice(_Record, tag="advice"):
    """The batch-size suggestion as of a step."""

    step: int
    batch_size: int
    suggested_batch_size: int | None = None
    low: int | None = None
    high: int | None = None
    reason: str = ""
    """Why it was withheld, or what widened it."""
    details: dict[str, Any] = {}


class SyncSite(_Record, tag="sync"):
    """A line of code that makes the host wait, found by an inspection."""

    file: str
    line: int
    function: str
    source: str
    owner: str
    """user, lightning, metric, callback:<name>, logger:<name>, dataloader."""
    operation: str
    count: int
    steps_watched: int
    blocked_ns: int | None = None
    would_sync: bool = False
    """Seen on a CPU: would sync on a GPU."""
    phase: str | None = None


class ProbeDisabled(_Record, tag="probe_disabled"):
    """A probe of ours failed and was switched off for the rest of the session."""

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
    """Ends a session in good order; without it the run is live or was killed."""

    status: str
    """finished, exception or interrupted."""
    wall_ns: int
    steps: int
    own_cost_ns_per_step: int | None = None
    """Time of this package itself in a usual step, by its own clock; PROFILED steps and work done
    once in many steps are left out."""
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
    | HostLines
    | WorkerLines
    | ModuleCalls
    | RunEnd
)
