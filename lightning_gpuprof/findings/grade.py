"""How findings are graded, and how much less often frequent work should be done."""

from lightning_gpuprof.findings.model import Range, Severity

WARNING_FRAC = 0.05
"""The share of a step at which PyTorch's TensorBoard profiler began to advise
(torch_tb_profiler, `profiler/data.py`)."""
CRITICAL_FRAC = 0.20
"""The share that XProf calls highly input-bound (`op_stats_to_input_pipeline_analysis.cc`)."""
FEW_SAMPLES = 4
"""Without a backward pass, a batch of so few samples takes hardly less time than one of many."""


def grade(saving_ns: Range, step_ns: int) -> Severity:
    """Grade a finding by the middle of its saving, as a share of the step.

    What the cause costs does not count, only what is saved. A finding is critical only if its
    saving is surely more than nothing.

    >>> grade(Range(low=0, high=80), step_ns=100).value
    'warning'
    """
    frac = saving_ns.middle / max(1, step_ns)
    if frac >= CRITICAL_FRAC and saving_ns.low > 0:
        return Severity.CRITICAL
    return Severity.WARNING if frac >= WARNING_FRAC else Severity.INFO


FEWER = 5
"""Frequent work is proposed to be done a fifth as often or less: a smaller change would not be
noticed."""
ONCE_FRAC = 0.5
"""If a single time took more than this share of the work's total, the work may not come again."""


def seldom(steps: int, times: int, wanted: float) -> int:
    """Return the interval in steps at which to do work that was done `times` in `steps`.

    It is at least `wanted`, and at least `FEWER` times the interval of today.

    >>> seldom(100, 10, wanted=12.0), seldom(100, 10, wanted=213.0)
    (50, 210)
    """
    every = max(wanted, FEWER * steps / max(1, times))
    return max(FEWER, int(round(every, -1)))
