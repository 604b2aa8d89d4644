"""What to change where torch.compile compiles a function again, by what torch says differed."""

from dataclasses import dataclass

from lightning_gpuprof.findings.model import Effort, Horizon
from lightning_gpuprof.records.lines import GuardCause

ANY_SIZE = "model = torch.compile(model, dynamic=True)"
_UNKNOWN = (
    "Keep what compiled code receives the same from call to call: sizes, types and Python values. "
    "TORCH_LOGS=recompiles prints what differs."
)
_ADVICE = {
    GuardCause.SIZE: "Sizes differ: `{subject}`. Compile for any size (dynamic=True), pad to a few "
    "sizes, or drop the last batch.",
    GuardCause.PARAMETER: "Layers of several sizes run the same function, and each of them needs a "
    "version of its own. Compile the model as a whole, or let the limit hold all versions.",
    GuardCause.SIZE_CONDITION: "The compiled code depends on a size by more than a loop over it: "
    "`{reason}`. Pad to a few sizes, or take what branches on the size out of the compiled code; "
    "dynamic=True is not enough.",
    GuardCause.RANK: "`{subject}` has another number of dimensions. Reshape it to the same number "
    "before the compiled call.",
    GuardCause.STRIDES: "The strides of `{subject}` differ. Call .contiguous() on it before the "
    "compiled call.",
    GuardCause.DTYPE: "The dtype of `{subject}` differs. Convert it before the compiled call.",
    GuardCause.DEVICE: "The device of `{subject}` differs. Move it before the compiled call.",
    GuardCause.GRADIENT: "`{subject}` requires a gradient in some calls alone. Detach it, or let "
    "it require one in all calls.",
    GuardCause.ATTRIBUTE: "`{subject}` is a Python number that changes between calls, and "
    "compiled code holds its value. Make it a tensor, or change it outside of the compiled code. "
    "dynamic=True has no effect on it.",
    GuardCause.NUMBER: "`{subject}` is a Python number that differs from call to call, and "
    "compiled code holds its value. Pass it as a tensor, or compute what depends on it "
    "outside of the compiled code.",
    GuardCause.FLAG: "`{subject}` has another value than before, and each value is compiled by "
    "itself. Keep it the same, or decide on it outside of the compiled code.",
    GuardCause.CONTAINER: "`{subject}` holds other items than before. Keep their number and keys "
    "the same: pad, stack them to a tensor, or loop over them outside of the compiled code.",
    GuardCause.OBJECT: "`{subject}` is another object than before, or of another class. Create it "
    "once and use it again, or pass only its tensors to the compiled code.",
    GuardCause.MODE: "torch's state differs from the earlier calls: {reason}. Set gradient mode, "
    "autocast and threads before the first call, and leave them.",
    GuardCause.FREED: "An object was freed for which torch had compiled: {reason}. Create modules "
    "once, call torch.compile once, and keep what they return.",
    GuardCause.BACKEND: "torch.compile is called again with another backend. Call it once, before "
    "training.",
    GuardCause.OTHER: _UNKNOWN,
}
_FEW_VERSIONS = (
    GuardCause.PARAMETER,
    GuardCause.FLAG,
    GuardCause.OBJECT,
    GuardCause.MODE,
    GuardCause.RANK,
)
"""Causes of which a program usually has a few variants, so that a higher limit holds them all."""


REWRITTEN = Effort(Horizon.MEDIUM, "code around the compiled call", "none")
_EFFORTS = {
    GuardCause.SIZE: Effort(
        Horizon.QUICK, "one argument", "code for any size may be slower than for one"
    ),
    GuardCause.SIZE_CONDITION: Effort(Horizon.MEDIUM, "padding", "padding computes more"),
    GuardCause.STRIDES: Effort(Horizon.QUICK, "one call", "one copy per step"),
    GuardCause.DTYPE: Effort(Horizon.QUICK, "one call", "one copy per step"),
    GuardCause.DEVICE: Effort(Horizon.QUICK, "one call", "one copy per step"),
    GuardCause.ATTRIBUTE: Effort(Horizon.QUICK, "a number becomes a tensor", "none"),
    GuardCause.NUMBER: Effort(Horizon.QUICK, "a number becomes a tensor", "none"),
    GuardCause.BACKEND: Effort(Horizon.QUICK, "one call less", "none"),
}
"""What a remedy takes and risks, where that is not the rewriting of code around the call."""


@dataclass(frozen=True)
class Remedy:
    """What to change, as a sentence, and as code if that can be written."""

    advice: str
    change: str | None = None
    effort: Effort = REWRITTEN


def remedy(cause: GuardCause, *, subject: str, reason: str, value: str = "") -> Remedy:
    """Return what to change, given the fields of a `Recompilation`.

    >>> remedy(GuardCause.ATTRIBUTE, subject="self.calls", reason="", value="7").change
    'self.register_buffer("calls", torch.tensor(0))  # instead of self.calls = 0'
    """
    advice = _ADVICE[cause].format(subject=subject, reason=reason)
    if not subject and "{subject}" in _ADVICE[cause]:
        advice = f"{_UNKNOWN} torch's reason: {reason}."
    return Remedy(advice, _change(cause, subject, value), _EFFORTS.get(cause, REWRITTEN))


def of_limit(cause: GuardCause, limit: str) -> str:
    """Return what to know about the limit that was reached."""
    if cause in _FEW_VERSIONS:
        return f"If there are only a few variants, raise torch._dynamo.config.{limit}."
    return f"A higher torch._dynamo.config.{limit} would only compile more often."


def _change(cause: GuardCause, subject: str, value: str) -> str | None:
    if cause is GuardCause.SIZE:
        return ANY_SIZE
    if cause is GuardCause.STRIDES and subject:
        return f"{subject} = {subject}.contiguous()  # before the compiled call"
    if cause is GuardCause.NUMBER and subject.isidentifier():
        return f"{subject} = torch.tensor({subject})  # before the compiled call"
    owner, _, name = subject.rpartition(".")
    if cause is GuardCause.ATTRIBUTE and owner == "self":
        zero = "0" if value.lstrip("-").isdigit() else "0.0"
        return (
            f'self.register_buffer("{name}", torch.tensor({zero}))  # instead of {subject} = {zero}'
        )
    return None
