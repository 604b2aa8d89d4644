"""Single facts of a run. Every fact is a record type of its own; the last record of it counts.

`Fact`, at the end, names them all: the reader refuses lines of any other kind.
"""

from enum import Enum

from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import Self

BUSY_FRAC = 0.1
"""A machine is busy if the training thread waits for a core for this share of its time."""


class FactBase(Struct, tag_field="kind", omit_defaults=True, frozen=True):
    """A record that replaces earlier records of its kind in the same session.

    A subclass gives its `tag`, which is its `kind` in a record file. What was not measured is not
    recorded.
    """


class Counters(FactBase, frozen=True):
    """Counters of the operating system, which only rise. A field `cores` is not a counter."""

    def since(self, earlier: "Counters") -> Self:
        """Return by how much every counter has risen since an earlier reading."""
        counters = [name for name in self.__struct_fields__ if name != "cores"]
        risen = {name: max(0, getattr(self, name) - getattr(earlier, name)) for name in counters}
        return replace(self, **risen)


class CoreWait(Counters, tag="core_wait", frozen=True):
    """How long the training thread was ready to run but waited for a core (`queued_ns`)."""

    wall_ns: int
    queued_ns: int

    @property
    def frac(self) -> float:
        """Share of the training time in which the thread waited for a core."""
        return self.queued_ns / max(1, self.wall_ns)

    @property
    def busy_frac(self) -> float:
        """The same share if the machine was busy, else 0."""
        return self.frac if self.frac >= BUSY_FRAC else 0.0


class IoPressure(Counters, tag="io_pressure", frozen=True):
    """How long some task on the machine waited for storage (`stalled_ns`) while training ran."""

    wall_ns: int
    stalled_ns: int


class CpuQuota(Counters, tag="cpu_quota", frozen=True):
    """A CPU limit in cores, set by Docker, Kubernetes or systemd (CFS bandwidth control).

    In `throttled` of the `periods` (usually of 100 ms), the process had used up its share and had
    to wait.
    """

    cores: float
    periods: int
    throttled: int


class UnusedGradients(FactBase, tag="unused_gradients", frozen=True):
    """Parameters whose gradients no optimizer uses: how many tensors, with how many numbers.

    `modules` names the outermost modules that hold only such parameters; a parameter of a module
    that holds others too is named itself.
    """

    tensors: int
    parameters: int
    all_parameters: int
    modules: tuple[str, ...]


class AnomalyMode(FactBase, tag="anomaly_mode", frozen=True):
    """Whether torch.autograd's anomaly detection is on in the forward or the backward pass."""

    on: bool = True


class BatchBytes(FactBase, tag="batch_bytes", frozen=True):
    """Bytes of the tensors in the run's first batch."""

    num_bytes: int


class Padding(Struct, frozen=True):
    """How much of a tensor of sequences is padding, over some batches.

    Args:
        name: The tensor in the batch, such as `batch['input_ids']`.
        shape: Its shape in the first batch.
        dimension: The dimension along which rows are padded.
        positions: Positions in all rows.
        padded: Positions of them that are padding.
        common: Positions of these that are padding in every row of their batch.
    """

    name: str
    shape: tuple[int, ...]
    dimension: int
    positions: int
    padded: int
    common: int

    @property
    def padded_frac(self) -> float:
        """The share of all positions that is padding."""
        return self.padded / max(1, self.positions)

    @property
    def common_frac(self) -> float:
        """The share of all positions that is padding in every row of its batch."""
        return self.common / max(1, self.positions)


class BatchSizes(FactBase, tag="batch_sizes", frozen=True):
    """The size of the first batches, in numbers of all their tensors, and their padded tensors."""

    sizes: tuple[int, ...]
    padding: tuple[Padding, ...] = ()


class EmbeddingTable(Struct, frozen=True):
    """An embedding table with a dense gradient.

    Args:
        name: The path of attributes to the module, such as `encoder.words`.
        rows: Its rows.
        columns: Numbers per row.
        num_bytes: The size of its weights.
        used_rows: Rows that had a gradient in the first batch.
    """

    name: str
    rows: int
    columns: int
    num_bytes: int
    used_rows: int


class EmbeddingTables(FactBase, tag="embedding_tables", frozen=True):
    """Large embedding tables with dense gradients, in the order of the model."""

    tables: tuple[EmbeddingTable, ...]


class StageWork(FactBase, tag="stage_work", frozen=True):
    """Time before the stages of a process, in which hooks of its data module ran.

    Args:
        owner: The class of the data module.
        hooks: Those of `prepare_data` and `setup` that it has.
        before_ns: Before each stage so far, the last of which is this session's: the time since the
            stage before, or for the first one since the callback was made.
    """

    owner: str
    hooks: tuple[str, ...]
    before_ns: tuple[int, ...]


class StreamBatches(FactBase, tag="stream_batches", frozen=True):
    """Whether the workers of an `IterableDataset` yield the same batches, by the first two of each.

    Args:
        workers: How many there are.
        same: Whether all first batches were equal, and all second batches, but not to the first.
    """

    workers: int
    same: bool = False


class SyncedLogs(FactBase, tag="synced_logs", frozen=True):
    """Names of values that `self.log(sync_dist=True)` exchanges between ranks in every step."""

    names: tuple[str, ...]


class CompileTime(FactBase, tag="compile_time", frozen=True):
    """Time that torch.compile spent compiling in a step.

    `built` graphs were compiled, and `loaded` graphs came from inductor's cache on disk.
    """

    step: int
    took_ns: int
    built: int = 0
    loaded: int = 0


class ProcessMemory(FactBase, tag="process_memory", frozen=True):
    """Resident memory of the training process at a window's end.

    `available_bytes` is how much more the machine, or the container's limit, has; None if unknown.
    """

    step: int
    rss_bytes: int
    available_bytes: int | None = None


class WorkerMemory(FactBase, tag="worker_memory", frozen=True):
    """Memory of all worker processes of the training loader; the first stands for the others.

    Args:
        step: The running step.
        generation: Counts, from 1, how often the loader has started workers.
        workers: How many processes there are.
        private_bytes: Pages that only one process uses.
        anonymous_bytes: Pages that belong to no file; forked workers share them with the training
            process until they write to them.
        available_bytes: How much more memory the machine, or the container's limit, has; None if
            unknown.
    """

    step: int
    generation: int
    workers: int
    private_bytes: int
    anonymous_bytes: int
    available_bytes: int | None = None


class DatasetObjects(FactBase, tag="dataset_objects", frozen=True):
    """The longest collection of Python objects that the dataset holds, such as a list of dicts.

    Args:
        owner: The class of the dataset.
        attribute: The name of the attribute.
        collection: The class of the collection.
        items: Its length.
        item: The class of its first item.
    """

    owner: str
    attribute: str
    collection: str
    items: int
    item: str


class KeptPredictions(FactBase, tag="kept_predictions", frozen=True):
    """What the Trainer keeps of each batch until `predict` ends, by the first batch.

    Args:
        batch_bytes: Memory that the kept outputs hold on the host.
        view_bytes: The bytes of the outputs themselves, which may be parts of larger tensors.
        returned: Whether the Trainer keeps them to return them.
        writer: The class of a callback that receives all of them in the end; None if there is none.
    """

    batch_bytes: int
    view_bytes: int
    returned: bool
    writer: str | None = None


class PageFaults(Counters, tag="page_faults", frozen=True):
    """How often the training thread used a page of memory for the first time (`faults`).

    `system_ns` is the time that it spent in the kernel, which gives out such pages.
    """

    faults: int
    system_ns: int


class MetricState(Struct, frozen=True):
    """What a metric keeps of all values since its last reset, where it kept most.

    Args:
        name: The path of attributes to it, such as `self.train_auc`.
        metric: Its class.
        updates: How often it had been updated.
        num_bytes: The size of the states that keep all values.
        was_reset: Whether it was reset at any time.
        holds_graph: Whether the values hold their autograd graph.
        lacks_thresholds: Whether fixed thresholds could take the place of all values.
    """

    name: str
    metric: str
    updates: int
    num_bytes: int
    was_reset: bool = False
    holds_graph: bool = False
    lacks_thresholds: bool = False


class MetricStates(FactBase, tag="metric_states", frozen=True):
    """The metrics that keep all values, the largest first."""

    metrics: tuple[MetricState, ...]


class OutputSample(Struct, frozen=True):
    """A tensor of what `predict_step` returned for a batch.

    Args:
        loader: The number of its loader.
        batch: The batch's number within that loader.
        name: The keys and positions that lead to the tensor; empty if it is all of the output.
        dtype: Its type, such as `float32`.
        shape: Its shape.
        checksum: The sum of its elements' bits.
        values: Some of its elements, at equal distances; None for one that is not finite.
    """

    loader: int
    batch: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    checksum: int
    values: tuple[float | None, ...]


class PredictOutputs(FactBase, tag="predict_outputs", frozen=True):
    """Samples of what `predict_step` returned."""

    samples: tuple[OutputSample, ...]


class HostCounters(FactBase, tag="host_counters", frozen=True, kw_only=True):
    """A reading of what the host counts, by which any two spans of a session can be compared.

    All of them count. Fields are None if the system does not say. Those but `step`, `core_mhz` and
    `python_blocks` only rise: the difference of two readings is what happened between them.

    Args:
        step: The step at whose end it was read.
        wall_ns: The time since the session began.
        cpu_ns: CPU time of the training process in all its threads.
        queued_ns: How long the training thread waited for a core.
        system_ns: The training thread's time in the kernel.
        minor_faults: How often the training thread used a page of memory for the first time.
        major_faults: How often such a page had to be read from storage.
        read_bytes: What the training thread read from files and pipes, caches included.
        read_calls: In how many calls.
        storage_read_bytes: What the process read from storage itself.
        storage_stalled_ns: How long some task of the machine waited for storage.
        cpu_stalled_ns: How long some task of the machine waited for a core.
        throttled: In how many periods the container's CPU quota was used up.
        collections: Collections of Python's garbage collector, those of the youngest generation
            first.
        core_mhz: The clock of the core on which the training thread ran.
        python_blocks: Blocks of memory in which Python keeps its objects: how many there are now.
            Lists and dicts of more objects than before show in it, tensors' data does not.
    """

    step: int
    wall_ns: int
    cpu_ns: int
    queued_ns: int | None = None
    system_ns: int | None = None
    minor_faults: int | None = None
    major_faults: int | None = None
    read_bytes: int | None = None
    read_calls: int | None = None
    storage_read_bytes: int | None = None
    storage_stalled_ns: int | None = None
    cpu_stalled_ns: int | None = None
    throttled: int | None = None
    core_mhz: int | None = None
    collections: tuple[int, ...] = ()
    python_blocks: int = 0


class CaptureReason(str, Enum):
    """Why a running training was captured."""

    SLOW_DOWN = "slow-down"
    """Its steps became slower, lastingly or again and again."""
    REQUEST = "request"
    """Somebody ran `lightning-gpuprof capture`."""


class Capture(FactBase, tag="capture", frozen=True):
    """A look at a running training: a profiler window, and samples of lines behind it.

    Of several records with the same number the last one counts. The window's `ProfilerCycle` and
    the samples (`CapturedLines`) have the same number.

    Args:
        number: Counts the captures of this rank in the session, from 0.
        why: Why it was made.
        step: The step at whose end it began.
        onset_step: The step at which the slow-down began; None for a request.
        first_step: The first recorded step; None if no step was recorded.
        last_step: The last recorded step.
        trace_file: The trace beside the record file; empty if there is none.
        samples: Samples of the training thread.
        worker_samples: Samples of the loader's workers.
        problem: Why there is no trace; empty if there is one.
    """

    number: int
    why: CaptureReason
    step: int
    onset_step: int | None = None
    first_step: int | None = None
    last_step: int | None = None
    trace_file: str = ""
    samples: int = 0
    worker_samples: int = 0
    problem: str = ""


class SlowDownShape(str, Enum):
    """How the time of steps changes in a slow-down."""

    STEP = "step"
    """At once: all steps are longer from a step on."""
    RAMP = "ramp"
    """Little by little: from a step on, each step is longer than the step before."""
    SPIKES = "spikes"
    """From a step on, single steps are longer at regular distances."""


class PhaseShift(Struct, frozen=True):
    """What a phase takes per step before and during a slow-down."""

    before_ns: int
    during_ns: int


class SlowDown(FactBase, tag="slow_down", frozen=True, kw_only=True):
    """A slow-down that was noticed while training ran.

    A later record with the same `since_step` replaces it; all others of a session count too.

    Args:
        shape: How the time of steps changes.
        since_step: The first slow step.
        until_step: The last slow step; None while it lasts.
        noticed_step: The last step that was known when it was noticed.
        phase: The phase with most of the change; None if no phase has half of it, as with other
            programs on the same cores.
        before_ns: The usual step before.
        during_ns: The step since then: of a step change the usual step, of a ramp the last steps,
            of spikes the mean step.
        per_100_steps_ns: Of a ramp, by how much a step is longer 100 steps later.
        every_steps: Of spikes, their distance in steps.
        height_ns: Of spikes, by how much such a step usually exceeds the others.
        phases: The phases that changed, by name, the one that changed most first.
    """

    shape: SlowDownShape
    since_step: int
    noticed_step: int
    before_ns: int
    during_ns: int
    until_step: int | None = None
    phase: str | None = None
    per_100_steps_ns: int | None = None
    every_steps: int | None = None
    height_ns: int | None = None
    phases: dict[str, PhaseShift] = {}

    @property
    def more_ns(self) -> int:
        """By how much a step is longer than before."""
        return self.during_ns - self.before_ns

    @property
    def lasts(self) -> bool:
        """Whether steps were still slow when this was recorded."""
        return self.until_step is None


class WaitSoFar(FactBase, tag="wait_so_far", frozen=True):
    """How long the training thread has waited for a core by the end of a step.

    It is read at the ends of windows, and every reading counts.
    """

    step: int
    queued_ns: int


class SyncSteps(FactBase, tag="sync_steps", frozen=True):
    """How many steps an inspection watched for host syncs."""

    steps: int


Fact = (
    CoreWait
    | CpuQuota
    | IoPressure
    | UnusedGradients
    | AnomalyMode
    | BatchBytes
    | BatchSizes
    | EmbeddingTables
    | StreamBatches
    | StageWork
    | SyncedLogs
    | CompileTime
    | ProcessMemory
    | WorkerMemory
    | DatasetObjects
    | KeptPredictions
    | PageFaults
    | MetricStates
    | PredictOutputs
    | HostCounters
    | Capture
    | SlowDown
    | WaitSoFar
    | SyncSteps
)
