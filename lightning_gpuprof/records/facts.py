"""Single facts of a run: each is a record of its own type, of which the last counts."""

from msgspec import Struct

from lightning_gpuprof.records.base import FactBase
from lightning_gpuprof.records.code_place import CodePlace

MIN_FOREIGN = 0.1
"""Of a core. A machine that does nothing else still has daemons: 0.01 to 0.07 were measured."""


class Program(Struct, frozen=True):
    """Processes of one name that are none of the run's.

    Args:
        name: As the kernel has it, at most fifteen characters.
        cpu_ns: Time of those that still ran at the end.
    """

    name: str
    cpu_ns: int


class CoreUse(FactBase, tag="core_use", frozen=True):
    """Times on the cores that this process may use, in nanoseconds.

    Args:
        cores: How many there are.
        wall_ns: Time between the two readings.
        busy_ns: Time of all programs on these cores.
        stolen_ns: Time that the hypervisor gave to other machines while a program here was ready.
        own_ns: Time of this process, on any core.
        family_ns: Time of its children and, where a run has several ranks, of all processes of the
            same launcher.
        queued_ns: How long the training thread was ready and waited for a core.
        others_queued_ns: The same of the thread of this process that waited longest beside it.
        programs: Other programs, the busiest first; empty where they are hidden.
    """

    cores: int
    wall_ns: int
    busy_ns: int
    stolen_ns: int
    own_ns: int
    family_ns: int
    queued_ns: int
    others_queued_ns: int
    programs: tuple[Program, ...] = ()

    @property
    def family_cores(self) -> float:
        """How many cores the run's other processes used on average."""
        return self.family_ns / max(1, self.wall_ns)

    @property
    def foreign_cores(self) -> float:
        """How many cores programs used that are none of this run."""
        foreign_ns = self.busy_ns - self.own_ns - self.family_ns
        return max(0, foreign_ns) / max(1, self.wall_ns)

    @property
    def stolen_cores(self) -> float:
        """How many cores the hypervisor gave to others."""
        return self.stolen_ns / max(1, self.wall_ns)

    @property
    def foreign_share(self) -> float:
        """The share of foreign programs in what computes beside this process; 0 of daemons' bit."""
        if self.foreign_cores < MIN_FOREIGN:
            return 0.0
        return self.foreign_cores / (self.foreign_cores + self.family_cores)

    @property
    def lost_frac(self) -> float:
        """The least share of the time that was lost to other programs and machines."""
        queued = self.foreign_share * self.queued_ns / max(1, self.wall_ns)
        return queued + self.stolen_cores / max(1, self.cores)


class CpuQuota(FactBase, tag="cpu_quota", frozen=True):
    """A limit that Docker, Kubernetes or systemd has set (CFS bandwidth control).

    Args:
        cores: Time on cores that may be used per time.
        periods: Periods (of 100 ms as a rule) in which it ran.
        throttled: Those in which it had used its share up and was made to wait for the next.
    """

    cores: float
    periods: int
    throttled: int

    def since(self, earlier: "CpuQuota") -> "CpuQuota":
        """Return the counts since an earlier reading."""
        periods, throttled = self.periods - earlier.periods, self.throttled - earlier.throttled
        return CpuQuota(self.cores, max(0, periods), max(0, throttled))


class CheckpointContent(FactBase, tag="checkpoint_content", frozen=True):
    """The bytes of a checkpoint's tensors.

    Args:
        trained_bytes: Parameters that require gradients.
        frozen_bytes: Parameters that do not.
        buffer_bytes: Buffers, and whatever else the module's `state_dict` holds.
        optimizer_bytes: The optimizers' states.
        largest_frozen: Name of the largest frozen parameter.
        largest_buffers: Names and bytes of the largest buffers, three at most.
        hparams_bytes: What `save_hyperparameters` has kept beside that: arrays, tables, whole
            modules. None where it could not be read, and in older files.
        largest_hparams: Names and bytes of the largest of them, three at most.
    """

    trained_bytes: int
    frozen_bytes: int
    buffer_bytes: int
    optimizer_bytes: int
    largest_frozen: str | None = None
    largest_buffers: tuple[tuple[str, int], ...] = ()
    hparams_bytes: int | None = None
    largest_hparams: tuple[tuple[str, int], ...] = ()

    @property
    def fixed_bytes(self) -> int:
        """The part that gradients do not change."""
        return self.frozen_bytes + self.buffer_bytes + (self.hparams_bytes or 0)

    @property
    def whole_bytes(self) -> int:
        """All of it."""
        return self.trained_bytes + self.fixed_bytes + self.optimizer_bytes


class UnusedGradients(FactBase, tag="unused_gradients", frozen=True):
    """Parameters whose gradients no optimizer uses.

    Args:
        tensors: How many parameter tensors.
        parameters: How many numbers they hold.
        all_parameters: The same of the whole module.
        modules: The outermost modules that hold nothing else, or the parameters themselves.
    """

    tensors: int
    parameters: int
    all_parameters: int
    modules: tuple[str, ...]


class CompileLimit(FactBase, tag="compile_limit", frozen=True):
    """A function that torch.compile compiles no more.

    Args:
        limit: Which of dynamo's limits was reached.
        count: That limit: how many compilations there are.
        reason: The guard that failed last, in dynamo's words; empty where it did not say.
        place: Where the function begins.
    """

    limit: str
    count: int
    reason: str
    place: CodePlace


class AnomalyMode(FactBase, tag="anomaly_mode", frozen=True):
    """In which passes torch.autograd's anomaly detection is on; in none where it is off again.

    Args:
        forward: Nodes of the graph hold the stack that made them.
        backward: It was on while the backward pass ran.
        place: The line of the program that switched it on, where one looks like it.
    """

    forward: bool
    backward: bool
    place: CodePlace | None = None

    @property
    def is_on(self) -> bool:
        """Whether it is on in either pass."""
        return self.forward or self.backward


class BatchBytes(FactBase, tag="batch_bytes", frozen=True):
    """Bytes of the tensors in the run's first batch."""

    num_bytes: int


class SyncedLogs(FactBase, tag="synced_logs", frozen=True):
    """Names that `self.log(sync_dist=True)` exchanges between ranks in each step."""

    names: tuple[str, ...]


class CompileTime(FactBase, tag="compile_time", frozen=True):
    """Time that torch.compile took to compile in a step."""

    step: int
    took_ns: int


class ProcessMemory(FactBase, tag="process_memory", frozen=True):
    """Resident memory of the training process at a window's end, where there is no GPU."""

    step: int
    rss_bytes: int


class SyncSteps(FactBase, tag="sync_steps", frozen=True):
    """How many steps an inspection watched for host syncs."""

    steps: int


Fact = (
    CoreUse
    | CpuQuota
    | CheckpointContent
    | UnusedGradients
    | CompileLimit
    | AnomalyMode
    | BatchBytes
    | SyncedLogs
    | CompileTime
    | ProcessMemory
    | SyncSteps
)
