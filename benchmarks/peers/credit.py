"""When a peer's words name a cause: generous patterns, one row per finding id.

A peer need not use our names. A statement is credited when it points at the place where the time
went, even if it names no line and no change: "waiting on the loader" is right for a slow sampler.
A statement of no severity at all (a row of a table of actions) is credited like any other.
"""

import re

PATTERNS = {
    "data-wait": r"input.?bound|input wait|data ?load|loader|dataset|collate|train_dataloader_next",
    # Time that workers take to start is waited for like any other input.
    "worker-startup": r"worker.*(start|persist)|persistent|epoch (start|boundary)|input.?bound",
    "slow-host-to-device-copy": r"h2d|host.to.device|transfer|batch_to_device|pcie|copy",
    "slow-callback": r"callback",
    "slow-logging": r"logg|log_metrics|metric",
    "slow-checkpoint": r"checkpoint",
    "frequent-validation": r"validat|run_validation|eval",
    "small-kernels": r"launch|small (op|kernel)|many (op|kernel)|fus|compile|python overhead",
    "host-bound": r"host.?bound|cpu.?bound|launch|python overhead",
    "host-sync": r"sync|\.item",
    "retained-graph": r"retain|graph|backward twice",
    "unfused-optimizer": r"fused|foreach|optimizer",
    "non-contiguous-layout": r"contiguous|layout|memory format|channels.last|transpose",
    "anomaly-detection-on": r"anomaly|detect_anomaly",
    "recompilation": r"recompil|dynamo|dynamic shape|compil",
    "step-time-jitter": r"jitter|varia|spike|p9[59]|straggl|garbage|\bgc\b",
    "memory-growth": r"memory.*(creep|grow|leak)|leak|creep|drift",
}


def credited(finding: str, also: tuple[str, ...], statement: str) -> bool:
    """Tell whether a statement names one of the ids that a cause accepts.

    >>> credited("data-wait", (), "INPUT-BOUND: Input wait is 53.7% of the step.")
    True
    """
    patterns = [PATTERNS[name] for name in (finding, *also) if name in PATTERNS]
    return any(re.search(pattern, statement, re.IGNORECASE) for pattern in patterns)
