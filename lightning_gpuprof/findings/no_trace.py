"""What a rule says that looks at a trace, of a run that has none."""

from lightning_gpuprof.findings.model import Abstained

OPERATORS = "with operators"
KERNELS = "with kernels of a GPU"


def no_trace(finding_id: str, has: str = "") -> Abstained:
    """Abstain for want of an analysed trace.

    Args:
        finding_id: The rule's.
        has: What the trace would have to have.

    >>> no_trace("lost-kernels").reason
    'it takes an analysed trace, and there is none'
    """
    which = f"an analysed trace {has}".rstrip()
    return Abstained(finding_id, f"it takes {which}, and there is none")
