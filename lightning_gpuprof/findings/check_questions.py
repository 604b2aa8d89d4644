"""The questions that a profile is read by: their limits, and where to look next.

Sources of the limits: docs/adr/0030.
"""

from collections.abc import Callable
from dataclasses import dataclass

from lightning_gpuprof.findings.check_figures import (
    Seen,
    host_over_device,
    largest_share,
    launch_gaps,
    memory_bound,
    of_trace,
    share,
    slow_steps,
    sync_share,
    thin_calls,
    top_kernel,
    transfers,
    vram,
    workers_off,
)
from lightning_gpuprof.records.phases import Phase

PHASE_FRAC = 0.50
THIN_CALLS_PER_STEP = 1_000
TRANSFER_FRAC = 0.10
HOST_OVER_DEVICE = 1.5
GEMM_FRAC = 0.60
SYNC_FRAC = 0.05
VRAM_FRAC = 0.60


@dataclass(frozen=True)
class Question:
    """One question, the limit of its figure, and what is said of it."""

    id: str
    question: str
    figure: str
    limit: float
    next: str
    lacks: str
    value: Callable[[Seen], float | None]
    below: bool = False
    """Look where the value lies below the limit instead of above it."""


_NO_STEP = "no step was recorded"
_NO_TRACE = "it takes an analysed trace"
_NO_GPU_TRACE = "it takes an analysed trace with kernels of a GPU"
_SUBJECT = {
    Phase.CLIP_GRADIENTS: "clipping gradients",
    Phase.OPTIMIZER_STEP: "the optimizer",
    Phase.ZERO_GRAD: "zeroing gradients",
    Phase.CALLBACKS: "the callbacks' work",
    Phase.CHECKPOINT: "saving checkpoints",
    Phase.OTHER: "what runs between the named phases",
}
_OTHERS = {
    Phase.CLIP_GRADIENTS: "the gradient clipping: configure_gradient_clipping where the module "
    "has its own, in operators over whole tensors",
    Phase.OPTIMIZER_STEP: "the optimizer: fused=True, fewer and larger parameter tensors, the "
    "module's optimizer_step",
    Phase.ZERO_GRAD: "zeroing gradients: zero_grad(set_to_none=True), torch's default",
    Phase.CALLBACKS: "the callbacks, the longest first: what runs in each step and need not",
    Phase.LOGGING: "logging: fewer values, less often (log_every_n_steps)",
    Phase.CHECKPOINT: "checkpoints: less often, or smaller (save_weights_only)",
    Phase.VALIDATION: "validation: less often (val_check_interval, check_val_every_n_epoch), on "
    "fewer batches (limit_val_batches)",
    Phase.GARBAGE_COLLECTION: "gc.collect() in the loop; gc.freeze() once before trainer.fit",
    Phase.OTHER: "the module's own hooks, such as on_after_backward, lr_scheduler_step and "
    "on_train_batch_end",
}
KERNEL_CHECK = "top-kernel"
PHASE_CHECKS = (
    "slow-steps-share",
    "data-share",
    "forward-share",
    "backward-share",
    *(f"{phase.value.replace('_', '-')}-share" for phase in _OTHERS),
    "balanced",
)


def _phase_question(phase: Phase, next: str) -> Question:
    return Question(
        f"{phase.value.replace('_', '-')}-share",
        f"Does {_SUBJECT.get(phase, phase.value.replace('_', ' '))} take most of the step?",
        f"{phase.value}_share_frac",
        PHASE_FRAC,
        next,
        _NO_STEP,
        share(phase),
    )


QUESTIONS = (
    Question(
        "slow-steps-share",
        "Do a few steps take most of the time, by what they compute?",
        "slow_steps_share_frac",
        PHASE_FRAC,
        "the slowest steps (the tab's Steps view, or report --verbose): what the program does in "
        "these alone, at its longest line",
        _NO_STEP,
        slow_steps,
    ),
    Question(
        "data-share",
        "Does loading data take most of the step?",
        "data_share_frac",
        PHASE_FRAC,
        "the DataLoader first: num_workers, pin_memory, what __getitem__ and collate do",
        _NO_STEP,
        share(Phase.DATA_WAIT, Phase.HOST_TO_DEVICE),
    ),
    Question(
        "forward-share",
        "Does the forward pass take most of the step?",
        "forward_share_frac",
        PHASE_FRAC,
        "the model's forward pass: its top operators, loops over small ones, lower precision",
        _NO_STEP,
        share(Phase.FORWARD),
    ),
    Question(
        "backward-share",
        "Does the backward pass take most of the step?",
        "backward_share_frac",
        PHASE_FRAC,
        "the backward pass: checkpointed activations, retained graphs, frozen layers with "
        "gradients, lower precision (twice the forward is usual)",
        _NO_STEP,
        share(Phase.BACKWARD),
    ),
    *(_phase_question(phase, next) for phase, next in _OTHERS.items()),
    Question(
        "balanced",
        "Does any one phase take most of the step?",
        "largest_share_frac",
        PHASE_FRAC,
        "no phase dominates: take the top operators and kernels one by one, then a larger batch",
        _NO_STEP,
        largest_share,
        below=True,
    ),
    Question(
        "launch-overhead",
        "Are there many calls with little time each?",
        "thin_calls_per_step_count",
        THIN_CALLS_PER_STEP,
        "launch overhead: batch loops, compile, use CUDA graphs on a GPU",
        _NO_TRACE,
        thin_calls,
    ),
    Question(
        "transfers",
        "Do copies (aten::copy_, aten::to) take much of the operators' time?",
        "copies_frac",
        TRANSFER_FRAC,
        "transfers: pin memory, pack small tensors, create tensors where and as they are used",
        _NO_TRACE,
        transfers,
    ),
    Question(
        "host-over-device",
        "Does the host take far longer than the device?",
        "host_over_device_count",
        HOST_OVER_DEVICE,
        "syncs and small kernels: the device waits for the host",
        _NO_GPU_TRACE,
        host_over_device,
    ),
    Question(
        "gemm-share",
        "Do matrix products take most of the kernel time?",
        "gemm_frac",
        GEMM_FRAC,
        "kernels other than matrix products: fuse them (torch.compile, fused attention)",
        _NO_GPU_TRACE,
        of_trace("gemm_frac"),
        below=True,
    ),
    Question(
        "sync-share",
        "Does the host wait for the device?",
        "sync_frac",
        SYNC_FRAC,
        "reads of values in the loop (.item(), .cpu(), prints): keep them on the device",
        _NO_GPU_TRACE,
        sync_share,
    ),
    Question(
        "launch-gaps",
        "Are there gaps between kernels?",
        "launch_gaps_ns",
        0,
        "CUDA graphs: capture the step, so that its kernels follow each other without launches",
        _NO_GPU_TRACE,
        launch_gaps,
    ),
    Question(
        "roofline",
        "Are the top kernels bound by memory?",
        "memory_bound_frac",
        PHASE_FRAC,
        "bytes instead of FLOPs: fuse neighbours, smaller types; more arithmetic comes free",
        "it takes a trace with shapes, of a GPU whose peaks are known",
        memory_bound,
    ),
    Question(
        KERNEL_CHECK,
        "Does one kernel take most of the step?",
        "top_kernel_frac",
        PHASE_FRAC,
        "the device's longest kernel: what launches it, and with which inputs",
        _NO_GPU_TRACE,
        top_kernel,
    ),
    Question(
        "vram",
        "Is the device's memory used?",
        "peak_reserved_frac",
        VRAM_FRAC,
        "a larger batch, or what memory can buy: no checkpointing, cached data",
        "no GPU",
        vram,
        below=True,
    ),
    Question(
        "workers",
        "Is the number of data workers right?",
        "workers_off_count",
        0,
        "DataLoader(num_workers={workers}), by the time of a fetch and the cores",
        "the loader's settings, the cores or the waits for data are not known",
        workers_off,
    ),
)
