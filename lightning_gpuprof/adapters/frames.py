"""Names of functions and files of Lightning and torch by which frames on a stack are known.

Public and private names, seen in torch 2.2 to 2.13 and Lightning 2.4 to 2.6. Where one is missing,
lines are still named, but without the phase, the hook, the module's call or the worker that they
are in.
"""

from lightning_gpuprof.records.phases import Phase

LIGHTNING_PACKAGES = ("lightning", "pytorch_lightning", "lightning_fabric")
TENSOR_PACKAGES = ("torch", *LIGHTNING_PACKAGES)
"""Packages that compute with tensors: their calls are operators, the model's own."""

CALLBACK_HOOKS = "_call_callback_hooks"
MODULE_HOOK = "_call_lightning_module_hook"
STRATEGY_HOOK = "_call_strategy_hook"
"""Lightning's functions that call hooks, in `trainer/call.py`."""
HOOK_CALLERS = (MODULE_HOOK, STRATEGY_HOOK, CALLBACK_HOOKS)
LOGGER_CONNECTOR = "_LoggerConnector"
"""Lightning's class between `self.log` and the loggers."""
LOG_METHODS = ("log", "log_dict")
"""Methods of the LightningModule that log."""

PHASE_BY_HOOK = {
    "training_step": Phase.FORWARD,
    "backward": Phase.BACKWARD,
    "manual_backward": Phase.BACKWARD,
    "configure_gradient_clipping": Phase.CLIP_GRADIENTS,
    "optimizer_zero_grad": Phase.ZERO_GRAD,
    "optimizer_step": Phase.OPTIMIZER_STEP,
    "batch_to_device": Phase.HOST_TO_DEVICE,
    "on_before_batch_transfer": Phase.HOST_TO_DEVICE,
    "on_after_batch_transfer": Phase.HOST_TO_DEVICE,
}
"""Hooks of the module, and the Strategy's methods around them: the user's functions, too."""
PHASE_BY_LIGHTNING_FUNCTION = {
    CALLBACK_HOOKS: Phase.CALLBACKS,
    MODULE_HOOK: Phase.OTHER,
    "log_metrics": Phase.LOGGING,
    "save_checkpoint": Phase.CHECKPOINT,
    **dict.fromkeys(("validation_step", "test_step", "predict_step"), Phase.FORWARD),
}
PHASE_BY_LIGHTNING_FILE = {
    "fetchers.py": Phase.DATA_WAIT,
    "evaluation_loop.py": Phase.VALIDATION,
    "model_checkpoint.py": Phase.CHECKPOINT,
}

TRAINING_LOOP = ("advance", "on_advance_end")
"""Functions of Lightning's loop over training batches."""
EVALUATION_LOOP = ("run", "on_run_end")
"""Functions of its loops over an evaluation's batches, and of what follows the last one."""
LOOPS = {
    "training_epoch_loop.py": TRAINING_LOOP,
    "evaluation_loop.py": EVALUATION_LOOP,
    "prediction_loop.py": EVALUATION_LOOP,
}

MODULE_FILE, MODULE_CALL = "module.py", "_call_impl"
"""`torch.nn.Module`'s function that calls `forward`, and its file."""
MODULE_CALLERS = (MODULE_CALL, "inner")
"""In torch 2.5 and newer `_call_impl` calls `forward` in a function inside of it."""
CHECKPOINT_FILE = "checkpoint.py"
"""Activation checkpointing: what runs inside of it is computed again."""
LOADER_FILE = "dataloader.py"
"""In which a loader waits for its own workers."""
FILES_OF_FILES = ("serialization.py",)
"""In which torch reads and writes files of the user's: no computing."""
FORMATS_STACK = "format_stack"
"""Python's function by which anomaly detection keeps the stack of each operator."""

WORKER_LOOP = "_worker_loop"
"""torch's function that a DataLoader's worker runs; loaders made after it have one so named."""
WORKER_MAKES_BATCH, WORKER_GETS_INDICES = "fetch", "get"
"""What a worker's loop calls: the fetcher of its dataset, and the queue of indices."""
