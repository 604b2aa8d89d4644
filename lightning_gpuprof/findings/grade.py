"""The one scale of severity for findings that cost time."""

from lightning_gpuprof.findings.model import Range, Severity

WARNING_FRAC = 0.05
"""The share of a step at which PyTorch's TensorBoard profiler began to advise
(torch_tb_profiler, `profiler/data.py`)."""
CRITICAL_FRAC = 0.20
"""The share that XProf calls highly input-bound (`op_stats_to_input_pipeline_analysis.cc`)."""


def grade(saving_ns: Range, step_ns: int) -> Severity:
    """Grade a finding by its expected saving as a share of the step.

    >>> grade(Range(low=0, high=20), step_ns=100).value
    'warning'
    """
    frac = saving_ns.middle / max(1, step_ns)
    if frac >= CRITICAL_FRAC:
        return Severity.CRITICAL
    return Severity.WARNING if frac >= WARNING_FRAC else Severity.INFO
