"""What several rules share: the scale of severity, and how seldom is seldom enough."""

from lightning_gpuprof.findings.model import Range, Severity

WARNING_FRAC = 0.05
"""The share of a step at which PyTorch's TensorBoard profiler began to advise
(torch_tb_profiler, `profiler/data.py`)."""
CRITICAL_FRAC = 0.20
"""The share that XProf calls highly input-bound (`op_stats_to_input_pipeline_analysis.cc`)."""


def grade(saving_ns: Range, step_ns: int) -> Severity:
    """Grade a finding by the middle of its saving as a share of the step.

    >>> grade(Range(low=0, high=20), step_ns=100).value
    'warning'
    """
    frac = saving_ns.middle / max(1, step_ns)
    if frac >= CRITICAL_FRAC:
        return Severity.CRITICAL
    return Severity.WARNING if frac >= WARNING_FRAC else Severity.INFO


def by_host(low: int, high: int, step_ns: int, *, unsure: bool) -> Range:
    """Return the bounds of a saving known by the host's clock alone, within the step.

    Where it is unsure nothing is the least: on a GPU the host may be ahead.

    >>> by_host(80, 120, 100, unsure=False), by_host(80, 90, 100, unsure=True)
    (Range(low=80, high=100), Range(low=0, high=90))
    """
    return Range(low=0 if unsure else min(low, step_ns), high=min(high, step_ns))


FEWER = 5
"""What is done too often is proposed a fifth as often at least: less would not be noticed."""


def seldom(steps: int, times: int, wanted: float) -> int:
    """Return every how many steps to do what was done `times` in `steps`.

    >>> seldom(100, 10, wanted=12.0), seldom(100, 10, wanted=213.0)
    (50, 210)
    """
    every = max(wanted, FEWER * steps / max(1, times))
    return max(FEWER, int(round(every, -1)))
