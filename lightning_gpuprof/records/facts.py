"""Single facts of a run: each is a record of its own type, of which the last counts."""

from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import Self


class FactBase(Struct, tag_field="kind", omit_defaults=True, frozen=True):
    """A line of a record file, of which the last of its kind counts."""


class Counters(FactBase, frozen=True):
    """Counters of the kernel's, which only rise; `cores` is none."""

    def since(self, earlier: "Counters") -> Self:
        """Return what was added since an earlier reading."""
        names = [name for name in self.__struct_fields__ if name != "cores"]
        return replace(self, **{n: max(0, getattr(self, n) - getattr(earlier, n)) for n in names})


class CoreWait(Counters, tag="core_wait", frozen=True):
    """How long the training thread was ready and waited for a core, in `wall_ns` of training."""

    wall_ns: int
    queued_ns: int

    @property
    def frac(self) -> float:
        """Share of the time."""
        return self.queued_ns / max(1, self.wall_ns)


class IoPressure(Counters, tag="io_pressure", frozen=True):
    """How long some task of the machine waited for storage, in `wall_ns` of training."""

    wall_ns: int
    stalled_ns: int


class CpuQuota(Counters, tag="cpu_quota", frozen=True):
    """A limit that Docker, Kubernetes or systemd has set (CFS bandwidth control), in cores.

    In `throttled` of the `periods` (of 100 ms as a rule) it had used its share up and had to wait.
    """

    cores: float
    periods: int
    throttled: int


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
