"""The phases that a training step's wall time is split into, and the names of their parts."""

from enum import Enum


class Phase(str, Enum):
    """A phase of the training loop. The values are its names on disk and in JSON."""

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


OWN_PART = "GpuProfCallback"
"""Part of `callbacks`: what this package takes in the hooks of the Trainer."""
OWN_CALLBACKS = frozenset(
    {"GpuProfCallback", "PhaseTimer", "ProfilerSchedule", "DeferredLoss", "BatchSizeAdvisor"}
)
"""This package's own callbacks: earlier records name what `OWN_PART` takes by these."""
BATCH_WORK = (
    Phase.HOST_TO_DEVICE,
    Phase.FORWARD,
    Phase.ZERO_GRAD,
    Phase.BACKWARD,
    Phase.CLIP_GRADIENTS,
    Phase.OPTIMIZER_STEP,
)
"""The phases that work on a batch. The others wait, or do not occur in every step."""
SAME_WORK = (Phase.ZERO_GRAD, Phase.CLIP_GRADIENTS, Phase.OPTIMIZER_STEP)
"""Phases that do the same work in every step and on every rank, whatever is in the batch. As much
as they vary, the machine varies."""
PHASES_IN_VALIDATION = (
    Phase.CALLBACKS, Phase.LOGGING, Phase.CHECKPOINT, Phase.VALIDATION,
)  # fmt: skip
"""The phases of time inside a validation. All else in it is charged to `VALIDATION`."""
SELF_LOG = "self.log"
"""Part of `logging`: calls of `self.log` during training."""
TRANSFER_HOOKS = ("on_before_batch_transfer", "on_after_batch_transfer")
"""Parts of `host_to_device`: the program's own work on a batch. Traces name spans after them."""
EXPERIMENT = "experiment."
"""Prefix of the parts of `logging` and `validation` that are the program's own calls on a logger's
`experiment`, such as `experiment.add_image`."""
SAMPLER, WORKERS = "sampler", "workers"
"""Parts of `data_wait`: choosing the samples of the next batch, and waiting for a worker process.
With workers, the rest of the wait is receiving the batch they sent; without, it is making it."""
WORKER_STARTUP = "worker_startup"
"""Part of `data_wait`: at an epoch's start, the time until the iterators of its loaders exist;
within an epoch, the fetch in which a loader among several creates a new iterator."""
LOADER_HOOKS = (
    "prepare_data", "train_dataloader", "val_dataloader", "test_dataloader", "predict_dataloader",
)  # fmt: skip
"""Parts of `data_wait` and `validation`: hooks in which a program makes its data and loaders."""
LOADER_START, FIRST_BATCH, NEXT_BATCHES = "loader start", "first batch", "next batches"
"""Parts of `validation`: creating its loader's iterator and workers (those of the validation before
end then), waiting for its first batch, and waiting for the following batches."""
FETCHES = (LOADER_START, FIRST_BATCH, NEXT_BATCHES)
EXCHANGE = "gradient exchange"
"""Part of `backward` with several ranks: from when this rank has computed its gradients until all
ranks have exchanged theirs. It is communication, and waiting for ranks that are late."""
COLLECTIVES = "collectives"
"""Part of a phase with several ranks: the host, or on a GPU the device, waits until a collective
operation has ended. It is communication, and waiting for ranks that are late."""
STOP_CHECK = "stop check"
"""Part of `other` with several ranks: between steps, rank 0 informs the others whether it has
received SIGTERM (Lightning 2.6 and later), and they wait for that."""

_GROUPS: dict[str, tuple[Phase, ...]] = {
    "data": (Phase.DATA_WAIT,),
    "fwd": (Phase.FORWARD,),
    "bwd": (Phase.BACKWARD,),
    "h2d": (Phase.HOST_TO_DEVICE,),
    "opt": (Phase.ZERO_GRAD, Phase.CLIP_GRADIENTS, Phase.OPTIMIZER_STEP),
}
CONSOLE_GROUPS = _GROUPS | {"other": tuple(p for p in Phase if p not in sum(_GROUPS.values(), ()))}
"""The six labels of the `[PROFILE]` console line. Every phase belongs to exactly one of them."""
SHOWN_APART = (Phase.VALIDATION, Phase.CHECKPOINT, Phase.CALLBACKS)
"""Phases of "other" that have a label of their own in a console line where they take long."""
