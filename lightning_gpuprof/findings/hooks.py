"""Tells hooks and callbacks apart by what they do: those that train, and those that log norms."""

import re

from lightning_gpuprof.analysis.run.phase_split import Part
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.records.lines import HostLines
from lightning_gpuprof.records.phases import Phase

SCHEDULER = "lr_scheduler_step"
_WEIGHTS = r"(Weights?|Models?|Param(eter)?s?)"
AVERAGE = re.compile(
    rf"EMA|Ema(?![a-z])|Polyak|SWA|{_WEIGHTS}Averag|Averag(e|ed|ing)(Of)?{_WEIGHTS}"
)
"""Matches names of callbacks that average the weights."""
NORM_HOOKS = ("on_before_optimizer_step", "on_after_backward")
"""The hooks in which Lightning's documentation logs gradient norms."""
NORMS = ("aten::linalg_vector_norm", "aten::norm", "aten::_foreach_norm")
MIN_SAMPLES = 10
"""With fewer samples in these hooks, a line that logs may have been missed."""


def trains(name: str) -> bool:
    """Return whether a callback or hook decides what is learned, judging by its name.

    >>> trains("EMAWeightAveraging"), trains("LossAverage")
    (True, False)
    """
    return name == SCHEDULER or AVERAGE.search(name) is not None


def norm_hooks(run: RunResults) -> list[Part]:
    """Return the module's hooks that compute norms of the gradients for logging.

    If samples show the hooks and no logging in them, the norms are for something else, such as
    clipping, which cannot be done less often without training something else.
    """
    facts = trace_facts(run)
    if facts is None or not any(name in facts.operators for name in NORMS):
        return []
    if run.lines is not None and not _log_in_hooks(run.lines):
        return []
    parts = run.parts_of(Phase.OTHER)
    return [part for part in parts if part.name in NORM_HOOKS and part.per_step is not None]


def _log_in_hooks(lines: HostLines) -> bool:
    """Return whether a line of the hooks logs, or there are too few samples to rule it out."""
    in_hooks = lines.of(Phase.OTHER)
    if sum(line.count for line in in_hooks) < MIN_SAMPLES:
        return True
    if any(line.function in NORM_HOOKS for line in lines.of(Phase.LOGGING)):
        return True
    return any(line.kind == "lightning" or "log" in line.source for line in in_hooks)
