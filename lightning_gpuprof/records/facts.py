"""Single facts of a run: each is a record of its own type, of which the last counts."""

from lightning_gpuprof.records.base import FactBase


class CoreWait(FactBase, tag="core_wait", frozen=True):
    """How long the training thread was ready and waited for a core, in `wall_ns` of training."""

    wall_ns: int
    queued_ns: int

    def since(self, earlier: "CoreWait") -> "CoreWait":
        """Return what was added since an earlier reading."""
        return CoreWait(self.wall_ns - earlier.wall_ns, self.queued_ns - earlier.queued_ns)

    @property
    def frac(self) -> float:
        """Share of the time."""
        return self.queued_ns / max(1, self.wall_ns)


class IoPressure(FactBase, tag="io_pressure", frozen=True):
    """How long some task of the machine waited for storage, in `wall_ns` of training."""

    wall_ns: int
    stalled_ns: int

    def since(self, earlier: "IoPressure") -> "IoPressure":
        """Return what was added since an earlier reading."""
        return IoPressure(self.wall_ns - earlier.wall_ns, self.stalled_ns - earlier.stalled_ns)


class CpuQuota(FactBase, tag="cpu_quota", frozen=True):
    """A limit that Docker, Kubernetes or systemd has set (CFS bandwidth control), in cores.

    In `throttled` of the `periods` (of 100 ms as a rule) it had used its share up and had to wait.
    """

    cores: float
    periods: int
    throttled: int

    def since(self, earlier: "CpuQuota") -> "CpuQuota":
        """Return the counts since an earlier reading."""
        periods, throttled = self.periods - earlier.periods, self.throttled - earlier.throttled
        return CpuQuota(self.cores, max(0, periods), max(0, throttled))


class UnusedGradients(FactBase, tag="unused_gradients", frozen=True):
    """Parameters whose gradients no optimizer uses: tensors, and how many numbers they hold.

    `modules` are the outermost ones that hold nothing else, or the parameters themselves.
    """

    tensors: int
    parameters: int
    all_parameters: int
    modules: tuple[str, ...]


class AnomalyMode(FactBase, tag="anomaly_mode", frozen=True):
    """Whether torch.autograd's anomaly detection is on, in the forward or the backward pass."""

    on: bool = True


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
    CoreWait
    | CpuQuota
    | IoPressure
    | UnusedGradients
    | AnomalyMode
    | BatchBytes
    | SyncedLogs
    | CompileTime
    | ProcessMemory
    | SyncSteps
)
