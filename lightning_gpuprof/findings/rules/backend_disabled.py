"""oneDNN or cuDNN is switched off, and layers that it has are computed the slow way.

## What it measures
`torch.backends.mkldnn.enabled` (oneDNN, on a CPU) or `torch.backends.cudnn.enabled` (cuDNN, MIOpen
on AMD) after the first batch. On a CPU the shapes of a batch's convolutions, and of its linear
layers in 16 bits, are noted, and when training has ended each is tried, forward and backward, as it
is set (`as_set_ns` for those of a step) and with oneDNN (`enabled_ns`).

## Why it matters
Without it a convolution copies its input into columns, sample by sample, and multiplies these
(`aten::_slow_conv2d_forward`); products in 16 bits are made without the processor's instructions
for them.

## What to do
Leave it on. It is mostly switched off to find an error, or to go round one of another version: see
whether that is still there. Where a few layers need it off, do so for these alone:
`with torch.backends.mkldnn.flags(enabled=False)`.

## Thresholds
None is told from a model of shapes: of sixteen convolutions with one thread and two, oneDNN was
half as fast (8 channels of 8 by 8) to eight times (one dimension, 64 channels), twice in the middle
(torch 2.13, docs/adr/0031). `LOW`, `HIGH`: what is tried again and again finds caches full and
memory at hand, which it may not in a step, and others on a machine slow either. Where oneDNN is
no faster nothing is said. Without a trial (the run ended early; on a GPU) the saving is between
nothing and what a trace has of convolutions. An LSTM is left out: 2.5 to 3.7 times as slow, but it
was not tried with the run's own. Severity: the common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.records.backend import BackendOff, backend_off
from lightning_gpuprof.units import duration

ID = "backend-disabled"
EFFORT = Effort(Horizon.QUICK, "one line goes", "results differ in the last digits")
LOW, HIGH = 0.7, 1.4
CONVOLUTIONS = ("aten::convolution", "aten::convolution_backward")
EXPLAINS = ("costly-operators",)


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where a backend is off that would be faster."""
    if run.step_ns is None:
        return Abstained(ID, "no step was recorded")
    found = backend_off(run.notes)
    if found is None:
        return None
    return _tried(run.step_ns, found) if found.calls else _untried(run, run.step_ns, found)


def _tried(step_ns: int, found: BackendOff) -> Finding | None:
    gain_ns = found.as_set_ns - found.enabled_ns
    if gain_ns <= 0:
        return None
    saving = Range(low=min(step_ns, round(LOW * gain_ns)), high=min(step_ns, round(HIGH * gain_ns)))
    title = (
        f"{_switch(found)} is False: {found.calls} layers of a step take "
        f"{duration(found.as_set_ns)} without {_library(found)}, and "
        f"{duration(found.enabled_ns)} with it"
    )
    evidence: dict[str, int | float] = {
        "layers_count": found.calls,
        "as_set_ns": found.as_set_ns,
        "enabled_ns": found.enabled_ns,
    }
    return _finding(step_ns, found, title, evidence, saving, 0.9)


def _untried(run: RunResults, step_ns: int, found: BackendOff) -> Finding | Abstained | None:
    facts = trace_facts(run)
    if facts is None:
        return Abstained(
            ID, f"{_switch(found)} is False, and no trace says what takes longer by it"
        )
    every = facts.operators
    rows = [every[name] for name in CONVOLUTIONS if name in every]
    whole = sum((row.device_total_ns or 0.0) if run.on_gpu else row.total_ns for row in rows)
    if not whole:
        return None
    title = (
        f"{_switch(found)} is False: convolutions take {duration(round(whole))} of each step "
        f"without {_library(found)}"
    )
    saving = Range(low=0, high=min(step_ns, round(whole)))
    return _finding(step_ns, found, title, {"convolutions_ns": round(whole)}, saving, 0.6)


def _finding(
    step_ns: int,
    found: BackendOff,
    title: str,
    evidence: dict[str, int | float],
    saving: Range,
    confidence: float,
) -> Finding:
    switch = _switch(found)
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=title,
        advice=f"Leave {_library(found)} on. If it is off because of an error, see whether "
        "that is still there, and switch it off around the layers that need it alone.",
        evidence={**evidence, "step_ns": step_ns},
        saving_ns=saving,
        confidence=confidence,
        where=(Where(name=switch) if found.place is None else Where.at(found.place),),
        change=f"{switch} = True  # the default: nothing has to be written",
        explains=EXPLAINS,
    )


def _switch(found: BackendOff) -> str:
    return f"torch.backends.{found.backend}.enabled"


def _library(found: BackendOff) -> str:
    return "cuDNN" if found.backend == "cudnn" else "oneDNN"
