"""The labels of phases, events, kinds of memory and flags of steps, on every surface."""

from collections.abc import Mapping

PHASES: Mapping[str, tuple[str, str]] = {
    "data_wait": ("Data wait", "waiting for the DataLoader's next batch"),
    "host_to_device": ("Host to device", "moving the batch to the device"),
    "forward": ("Forward", "training_step"),
    "zero_grad": ("Zero grad", "optimizer.zero_grad"),
    "backward": ("Backward", "loss.backward"),
    "clip_gradients": ("Clip gradients", "configure_gradient_clipping"),
    "optimizer_step": ("Optimizer step", "optimizer.step without the closure in it"),
    "callbacks": ("Callbacks", "hooks of callbacks"),
    "logging": ("Logging", "loggers and metrics"),
    "checkpoint": ("Checkpoint", "saving checkpoints"),
    "validation": ("Validation", "validation inside the epoch"),
    "garbage_collection": ("Garbage collection", "full runs of Python's garbage collector"),
    "other": ("Other", "the loop itself and what no other phase claims"),
}
"""The label of every phase, and what the phase holds."""

EVENTS: Mapping[str, str] = {
    "operator": "Operator",
    "annotation": "Annotation",
    "runtime": "Runtime call",
    "sync": "Host sync",
    "allocator": "Device allocation",
    "python": "Python",
    "overhead": "Profiler overhead",
    "memcpy": "Copy",
    "memset": "Fill",
    "kernel_gemm": "Matrix multiply",
    "kernel_conv": "Convolution",
    "kernel_attention": "Attention",
    "kernel_normalisation": "Normalisation",
    "kernel_elementwise": "Elementwise",
    "kernel_reduction": "Reduction",
    "kernel_communication": "Communication",
    "kernel_copy": "Copy kernel",
    "kernel_optimizer": "Optimizer",
    "kernel_other": "Other kernel",
    "idle_host_data_wait": "Waiting for data",
    "idle_host_sync": "Host waits for the device",
    "idle_host_allocator": "Device allocation",
    "idle_host_launch_call": "Launch call",
    "idle_host_operator": "Operator on the host",
    "idle_host_region": "Inside an annotation",
    "idle_host_python": "Python, or nothing recorded",
    "idle_launch_latency": "Launch latency",
    "idle_kernel_gap": "Between queued kernels",
    "idle_dependency": "Waiting for another stream",
    "idle_unknown": "Unknown",
}
"""Each kind of event of a timeline; `idle_` and a cause is a gap in the device's work."""

MEMORY: Mapping[str, str] = {
    "parameters": "Parameters",
    "gradients": "Gradients",
    "optimizer_state": "Optimizer state",
    "activations": "Activations",
    "other": "Other",
}
"""Each kind of device memory."""

LIMITS: Mapping[str, str] = {
    "compute": "compute",
    "memory": "memory",
    "latency": "near neither roof",
    "unknown": "roof not known",
}
"""What an operator is held back by."""

FLAGS: Mapping[str, str] = {
    "warmup": "warm-up",
    "compiled": "compiled",
    "profiled": "profiled",
    "validation": "validation",
    "checkpoint": "checkpoint",
    "epoch_start": "epoch start",
    "watched": "watched for syncs",
    "unfinished": "unfinished",
    "logged": "logged",
}
"""What may have happened in a step, by the name of its `StepFlag`."""


def phase_label(phase: str) -> str:
    """Return a phase's label; its name if it has no label.

    >>> phase_label("data_wait"), phase_label("of_a_newer_version")
    ('Data wait', 'of_a_newer_version')
    """
    return PHASES[phase][0] if phase in PHASES else phase


def event_label(kind: str) -> str:
    """Return the label of a kind of event; its name if it has no label.

    >>> event_label("kernel_gemm"), event_label("idle_host_sync")
    ('Matrix multiply', 'Host waits for the device')
    """
    return EVENTS.get(kind, kind)


def idle_label(cause: str) -> str:
    """Return the label of a cause of idle time.

    >>> idle_label("kernel_gap")
    'Between queued kernels'
    """
    return event_label(f"idle_{cause}")


def flag_label(flag: str) -> str:
    """Return the label of what happened in a step.

    >>> flag_label("warmup")
    'warm-up'
    """
    return FLAGS.get(flag, flag)
