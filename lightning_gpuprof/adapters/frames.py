"""Names of functions and files of Lightning and torch, by which stack frames are recognized.

Public and private names in torch 2.2 to 2.13 and Lightning 2.4 to 2.6. If a name is missing, lines
are still found, but without their phase, hook, module call or worker.
"""

from lightning_gpuprof.records.phases import LOADER_HOOKS, Phase

LIGHTNING_PACKAGES = ("lightning", "pytorch_lightning", "lightning_fabric")
TENSOR_PACKAGES = ("torch", *LIGHTNING_PACKAGES)
"""Packages that compute with tensors, so that calls of them count as the model's operators."""

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
    **dict.fromkeys(LOADER_HOOKS, Phase.DATA_WAIT),
}
"""Hooks of the module, including those that the user overrides, and the strategy's methods around
them."""
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

FIT_LOOP_FILE, FIT_LOOP = "fit_loop.py", "run"
"""The file and the function of Lightning's loop over epochs."""
TRAINING_LOOP = ("advance", "on_advance_end")
"""Functions of Lightning's loop over training batches."""
EVALUATION_LOOP = ("run", "on_run_end")
"""Functions of Lightning's loops over an evaluation's batches, and of what follows the last
batch."""
LOOPS = {
    "training_epoch_loop.py": TRAINING_LOOP,
    "evaluation_loop.py": EVALUATION_LOOP,
    "prediction_loop.py": EVALUATION_LOOP,
}

MODULE_FILE, MODULE_CALL = "module.py", "_call_impl"
"""The file and the function in which `torch.nn.Module` calls `forward`."""
MODULE_CALLERS = (MODULE_CALL, "inner")
"""In torch 2.5 and newer, `_call_impl` calls `forward` in an inner function."""
CHECKPOINT_FILE = "checkpoint.py"
"""The file of activation checkpointing. In backward, what runs inside of it is computed again."""
LOADER_FILE = "dataloader.py"
"""The file in which a loader waits for its workers."""
FILE_ACCESS_FILES = ("serialization.py",)
"""Files in which torch reads and writes the user's files, which is not computing."""
FORMATS_STACK = "format_stack"
"""The function of Python by which anomaly detection records the stack of every operator."""

WORKER_LOOP = "_worker_loop"
"""The function that a worker of torch's DataLoader runs. Loaders modelled on it have one of the
same name."""
WORKER_MAKES_BATCH, WORKER_GETS_INDICES = "fetch", "get"
"""What a worker's loop calls: the dataset's fetcher to make a batch, and the queue of indices."""
