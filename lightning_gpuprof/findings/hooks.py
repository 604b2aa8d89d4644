"""Which hooks and callbacks there are: our own, those that train, and those that take norms."""

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
"""Names of callbacks that keep an average of the weights."""
NORM_HOOKS = ("on_before_optimizer_step", "on_after_backward")
"""Where Lightning's documentation puts the logging of gradient norms."""
NORMS = ("aten::linalg_vector_norm", "aten::norm", "aten::_foreach_norm")
MIN_SAMPLES = 10
"""Samples in those hooks of which one at least would be at a logging line."""


def trains(name: str) -> bool:
    """Tell whether a callback or hook, by its name, decides what is learned.

    >>> trains("EMAWeightAveraging"), trains("LossAverage")
    (True, False)
    """
    return name == SCHEDULER or AVERAGE.search(name) is not None


def norm_hooks(run: RunResults) -> list[Part]:
    """Return the module's hooks that take norms of the gradients, to log them.

    Where samples show the hooks and no logging in them, the norms are for something else, such as
    clipping: to do that seldom would be another training.
    """
    facts = trace_facts(run)
    if facts is None or not any(name in facts.operators for name in NORMS):
        return []
    if run.lines is not None and not _log_in_hooks(run.lines):
        return []
    parts = run.parts_of(Phase.OTHER)
    return [part for part in parts if part.name in NORM_HOOKS and part.per_step is not None]


def _log_in_hooks(lines: HostLines) -> bool:
    """Tell whether one of the hooks' lines logs, or too few were seen to say."""
    seen = lines.of(Phase.OTHER)
    if sum(one.count for one in seen) < MIN_SAMPLES:
        return True
    if any(one.function in NORM_HOOKS for one in lines.of(Phase.LOGGING)):
        return True
    return any(one.kind == "lightning" or "log" in one.source for one in seen)
