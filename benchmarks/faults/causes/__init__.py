"""The injected causes, one file each; CAUSES lists them by name."""

from importlib import import_module

from cause import Cause

NAMES = (
    "slow_getitem",
    "slow_collate",
    "slow_sampler",
    "worker_startup",
    "too_many_workers",
    "slow_batch_transfer",
    "slow_callback",
    "averaged_weights",
    "logging_each_step",
    "gradient_norm_logging",
    "slow_logger",
    "frequent_checkpoint",
    "frequent_validation",
    "python_loop",
    "syncs",
    "retained_graph",
    "unfused_optimizer",
    "non_contiguous_input",
    "anomaly_mode",
    "recompilation",
    "gc_spikes",
    "memory_growth",
)


CAUSES: dict[str, Cause] = {name: import_module(f"causes.{name}").CAUSE for name in NAMES}
