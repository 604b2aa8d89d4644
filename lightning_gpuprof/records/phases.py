"""The one list of phases that a training step's wall time is split into."""

from enum import Enum


class Phase(str, Enum):
    """A part of the training loop; the values are the names on disk and in every view."""

    DATA_WAIT = "data_wait"
    HOST_TO_DEVICE = "host_to_device"
    FORWARD = "forward"
    ZERO_GRAD = "zero_grad"
    BACKWARD = "backward"
    CLIP_GRADIENTS = "clip_gradients"
    OPTIMIZER_STEP = "optimizer_step"
    CALLBACKS = "callbacks"
    LOGGING = "logging"
    CHECKPOINT = "checkpoint"
    VALIDATION = "validation"
    GARBAGE_COLLECTION = "garbage_collection"
    OTHER = "other"


OWN_CALLBACKS = frozenset(
    {"GpuProfCallback", "PhaseTimer", "ProfilerSchedule", "DeferredLoss", "BatchSizeAdvisor"}
)
"""This package's own parts of `callbacks`: their cost is reported as such."""
BATCH_WORK = (
    Phase.HOST_TO_DEVICE,
    Phase.FORWARD,
    Phase.ZERO_GRAD,
    Phase.BACKWARD,
    Phase.CLIP_GRADIENTS,
    Phase.OPTIMIZER_STEP,
)
"""What is done with each batch; the other phases wait, or come now and then."""
SELF_LOG = "self.log"
"""Part of `logging`: the module's calls of `self.log` in training."""
TRANSFER_HOOKS = ("on_before_batch_transfer", "on_after_batch_transfer")
"""Parts of `host_to_device`, which spans in traces are named after: the program's own work on each
batch."""
EXPERIMENT = "experiment."
"""How parts of `logging` and `validation` begin that are the program's own calls of a logger's
`experiment`, such as `experiment.add_image`."""
SAMPLER, WORKERS = "sampler", "workers"
"""Parts of `data_wait`: choosing what the next batch holds, and waiting for a worker process.
With workers, the rest of the wait is taking over what they sent; without, making the batch."""
WORKER_STARTUP = "worker_startup"
"""Part of `data_wait`: where an epoch begins, until its loaders' iterators are made; amid one, the
fetch in which a loader of several makes its iterator anew."""
LOADER_START, FIRST_BATCH, NEXT_BATCHES = "loader start", "first batch", "next batches"
"""Parts of `validation`: making its loader's iterator and workers (the last ones end then), waiting
for its first batch, and for the others."""
FETCHES = (LOADER_START, FIRST_BATCH, NEXT_BATCHES)
EXCHANGE = "gradient exchange"
"""Part of `backward` where there are several ranks: from when this rank has its own gradients until
all have exchanged theirs. What this takes is communication, and waiting for ranks that are late."""
STOP_CHECK = "stop check"
"""Part of `other` where there are several ranks: between steps, Lightning (from 2.6 on) has rank 0
tell all others whether it was told to stop by SIGTERM, so these wait for it."""

_GROUPS: dict[str, tuple[Phase, ...]] = {
    "data": (Phase.DATA_WAIT,),
    "h2d": (Phase.HOST_TO_DEVICE,),
    "fwd": (Phase.FORWARD,),
    "bwd": (Phase.BACKWARD,),
    "opt": (Phase.ZERO_GRAD, Phase.CLIP_GRADIENTS, Phase.OPTIMIZER_STEP),
}
CONSOLE_GROUPS = _GROUPS | {"other": tuple(p for p in Phase if p not in sum(_GROUPS.values(), ()))}
"""The six labels of the `[PROFILE]` console line; together they cover every phase once."""
