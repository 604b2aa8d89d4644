"""Rules, one per file; RULES lists them by finding id.

The module of a rule is its id with underscores. Its docstring is its documentation page, and it
defines `ID`, `EFFORT` and `evaluate(run)`.
"""

RULES: tuple[str, ...] = (
    "data-wait",
    "worker-startup",
    "rebuilt-loader",
    "slow-epoch-start",
    "slow-host-to-device-copy",
    "host-sync",
    "host-bound",
    "small-kernels",
    "memory-bound-kernels",
    "non-contiguous-layout",
    "low-precision-unused",
    "double-precision",
    "unused-vram",
    "vram-pressure",
    "memory-growth",
    "throttled-clocks",
    "shared-device",
    "slow-callback",
    "slow-python",
    "thread-contention",
    "slow-logging",
    "slow-checkpoint",
    "frequent-validation",
    "unfused-optimizer",
    "retained-graph",
    "unused-gradients",
    "repeated-forward",
    "recompilation",
    "opaque-compiled-regions",
    "exposed-communication",
    "straggler-rank",
    "frequent-stop-check",
    "step-time-jitter",
    "anomaly-detection-on",
    "trace-too-large",
    "lost-kernels",
)
