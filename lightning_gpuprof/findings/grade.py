"""The scale of severity, and how seldom is seldom enough."""

from lightning_gpuprof.findings.model import Range, Severity

WARNING_FRAC = 0.05
"""The share of a step at which PyTorch's TensorBoard profiler began to advise
(torch_tb_profiler, `profiler/data.py`)."""
CRITICAL_FRAC = 0.20
"""The share that XProf calls highly input-bound (`op_stats_to_input_pipeline_analysis.cc`)."""


def grade(saving_ns: Range, step_ns: int, *, cost_ns: float = 0) -> Severity:
    """Grade a finding by the middle of its saving as a share of the step.

    Critical takes a saving that is sure to be more than nothing. With one, a cost of
    `WARNING_FRAC` of the step is a warning, however little of it surely goes.

    >>> grade(Range(low=0, high=80), step_ns=100).value
    'warning'
    """
    frac, sure = saving_ns.middle / max(1, step_ns), saving_ns.low > 0
    if frac >= CRITICAL_FRAC and sure:
        return Severity.CRITICAL
    warned = frac >= WARNING_FRAC or (sure and cost_ns >= WARNING_FRAC * step_ns)
    return Severity.WARNING if warned else Severity.INFO


FEWER = 5
"""Propose frequent work a fifth as often or less: smaller changes would not be noticed."""
ONCE_FRAC = 0.5
"""If one time has more than this share of the total, the work may not come again."""


def seldom(steps: int, times: int, wanted: float) -> int:
    """Return every how many steps to do what was done `times` in `steps`.

    >>> seldom(100, 10, wanted=12.0), seldom(100, 10, wanted=213.0)
    (50, 210)
    """
    every = max(wanted, FEWER * steps / max(1, times))
    return max(FEWER, int(round(every, -1)))
