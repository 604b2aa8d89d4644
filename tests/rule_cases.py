"""What tests of rules share: phases of a run, rows of a trace, and what a finding promises."""

import re

from lightning_gpuprof.findings.model import Abstained, Finding, Range, Severity
from lightning_gpuprof.findings.registry import rules
from lightning_gpuprof.records.schema import (
    UNTIMED_STEPS,
    Device,
    DeviceSample,
    OutsideSpan,
    StepFlag,
)

US, MS = 1_000, 1_000_000
WORK = {"forward": 6 * MS, "backward": 4 * MS}
H100 = Device(type="cuda", name="NVIDIA H100 80GB HBM3", capability="9.0")
GPU = {"span_ns": 20 * MS, "exposed_comm_ns": 4 * MS, "comm_ns": 8 * MS}


def op(name, count, total_ns, self_ns=None):
    self_ns = total_ns if self_ns is None else self_ns
    return {"name": name, "count": count, "total_ns": total_ns, "self_ns": self_ns}


def category(name, total_ns):
    return {"category": name, "count": 10, "total_ns": total_ns, "frac": 0.5}


def made(finding_id, low, high, **changes):
    """Return a finding with this saving."""
    words = {"severity": Severity.WARNING, "title": "", "advice": "", "evidence": {}}
    values = {"id": finding_id, "saving_ns": Range(low, high), "confidence": 1.0}
    return Finding(**(words | values | changes))


def span(finding):
    return finding.saving_ns.low, finding.saving_ns.high


def every(steps, value, usual=0, *, first=0, count=100):
    return [value if step % steps == first else usual for step in range(count)]


def unmarked(steps, *, phase_ns=None, flagged=None):
    """Steps without marks, of which so much is known all the same."""
    return OutsideSpan(UNTIMED_STEPS, 0, 0, phase_ns or {}, steps=steps, flagged=flagged or {})


def device_sample(samples=10, **fields):
    """What the driver said of the device in a window."""
    return DeviceSample(step=49, start_ns=0, end_ns=1, samples=samples, **fields)


def exchanging(forward, backward, waits, **phases):
    """A rank's phases and parts, with so much of backward in the exchange of gradients."""
    parts = {"backward/gradient exchange": waits}
    return {"phases": {"forward": forward, "backward": backward, **phases}, "parts": parts}


EPOCHS = {**WORK, "data_wait": every(10, 100 * MS, 100 * US)}
EPOCH_FLAGS = every(10, StepFlag.EPOCH_START)
REMADE = OutsideSpan(
    where="epoch_end",
    start_ns=0,
    dur_ns=180 * MS,
    phase_ns={"data_wait": 180 * MS},
    part_ns={"data_wait/train_dataloader": 180 * MS},
)
"""All nine epochs' ends together."""

MOST_WORDS = 12
"""Of a title, with units but without numbers."""


def outcome(finding_id, run):
    """What a rule says of a run: why it abstains, a finding, a tuple where it may find several."""
    assert finding_id in rules(), (
        f"no rule {finding_id!r}: `evaluate` takes it from the name of the test's file"
    )
    rule = rules()[finding_id]
    if (reason := rule.lacking(run)) is not None:
        return Abstained(finding_id, reason)
    found = rule.evaluate(run)
    if found and isinstance(found[0], Abstained):
        return found[0]
    for one in found:
        words = re.findall(r"\b[^\W\d]{2,}\b(?!/)", one.title)
        assert len(words) <= MOST_WORDS, f"a title has at most {MOST_WORDS} words: {one.title}"
        unknown = set(one.explains) - set(rules())
        assert not unknown, f"`explains` names findings that no rule makes: {unknown}"
    returned = rule.judge.__annotations__.get("return")
    assert returned is not None, "the rule's function says what it returns: Finding or a tuple"
    several = "tuple" in str(returned)
    return found if several else next(iter(found), None)
