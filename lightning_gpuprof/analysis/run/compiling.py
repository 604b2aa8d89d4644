"""The time that torch.compile took, from the first step on, and why it compiled again."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from lightning_gpuprof.analysis.run.steady import (
    MIN_STEADY,
    SLOWED_BY_MEASURING,
    median,
    step_flags,
)
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.facts import CompileTime
from lightning_gpuprof.records.lines import CodePlace, CompileEvent, GuardCause, Recompilation
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import OutsideSpan, StepFlag

OLD_RECOMPILATION = "recompilation"
"""`CompileEvent.what` of recompilations in records of earlier versions of this package."""
_NUMBERS = (GuardCause.ATTRIBUTE, GuardCause.NUMBER)


@dataclass(frozen=True)
class Reason:
    """What made torch.compile compile a function again: its compilations for one reason.

    The fields are those of the newest `Recompilation`, which describes them.
    """

    function: CodePlace
    cause: GuardCause
    subject: str
    reason: str
    value: str
    place: CodePlace
    count: int
    """How often."""
    took_ns: int
    """How long together; 0 if torch does not record it."""
    limit: str = ""
    """torch's setting whose limit was reached, so that the function runs uncompiled since."""
    limit_step: int | None = None
    """The step in which it was reached."""


@dataclass(frozen=True)
class Repeated:
    """Compilations of what had been compiled before, without those of validations."""

    count: int
    """How many; where torch does not record single compilations, as many as there are steps."""
    steps: int
    """In how many steps."""
    took_ns: int | None
    """What they took together: the time that Dynamo measured, or else the time of these steps above
    the median step without compilation; None if neither is known."""
    last_step: int | None = None
    """The last of these steps."""
    reasons: tuple[Reason, ...] = ()
    """Their reasons, what took most time first."""


@dataclass(frozen=True)
class Compiling:
    """Compilation by torch.compile in a session, from its first step on."""

    again: Repeated
    steps: int
    """All steps of the session."""
    whole_ns: int = 0
    """Dynamo's time in all steps, first compilations included."""
    graphs_built: int = 0
    """Graphs that inductor compiled."""
    graphs_loaded: int = 0
    """Graphs that inductor loaded from its cache on disk."""
    collected_count: int = 0
    """Steady steps with a garbage collection before which, and since the collection before, torch
    compiled something. Compiling makes the objects that bring such collections about."""
    collected_ns: int = 0
    """The time of these collections."""

    @property
    def loaded_frac(self) -> float:
        """The share of all graphs that was loaded from the cache on disk."""
        return self.graphs_loaded / max(1, self.graphs_built + self.graphs_loaded)


@dataclass(frozen=True, kw_only=True)
class CompileResults:
    """Time and events of torch.compile."""

    time: Compiling | None = None
    """None if no step was recorded."""
    breaks: tuple[CompileEvent, ...] = ()
    """Lines at which torch.compile broke its graph."""
    reasons: tuple[Reason, ...] = ()
    """Why functions were compiled again, what took most time first."""


def compile_results(session: Session, steady: Mask) -> CompileResults:
    """Collect the time and the events of torch.compile."""
    events = session.all(CompileEvent)
    return CompileResults(
        time=_compiling(session, steady),
        breaks=tuple(event for event in events if event.what != OLD_RECOMPILATION),
        reasons=_reasons(_recompilations(session)),
    )


def compile_ns_by_step(session: Session) -> Counter[int]:
    """Return Dynamo's time in every step that compiled something."""
    by_step: Counter[int] = Counter()
    for record in session.all(CompileTime):
        by_step[record.step] += record.took_ns
    return by_step


@dataclass(frozen=True)
class CompileTimes:
    """Dynamo's time in every timed step, and in all steps that were not timed by phase."""

    step_ns: Int64
    """Of shape `(steps,)`. What a validation compiled between two epochs is left out: it is part of
    the time between epochs."""
    untimed_ns: int

    @property
    def total_ns(self) -> int:
        """The time in all steps."""
        return int(self.step_ns.sum()) + self.untimed_ns


def compile_times(session: Session) -> CompileTimes:
    """Return the time of torch.compile by step; zeros if it compiled nothing."""
    by_step, numbers = compile_ns_by_step(session), session.step_numbers
    step_ns = np.zeros(len(numbers), dtype=np.int64)
    if by_step and len(numbers):
        step_ns[:] = [by_step.pop(step, 0) for step in numbers.tolist()]
        np.minimum(step_ns, session.columns["dur_ns"], out=step_ns)
    return CompileTimes(step_ns, by_step.total())


def _recompilations(session: Session) -> list[Recompilation]:
    """Return all recompilations, also those that earlier versions recorded, without their times."""
    earlier = [
        Recompilation(0, event.place, GuardCause.OTHER, reason=event.reason)
        for event in session.all(CompileEvent)
        if event.what == OLD_RECOMPILATION
    ]
    return [*earlier, *session.all(Recompilation)]


def _reasons(recompilations: Sequence[Recompilation]) -> tuple[Reason, ...]:
    groups: defaultdict[tuple[object, ...], list[Recompilation]] = defaultdict(list)
    for again in recompilations:
        groups[again.function, again.cause, again.subject].append(again)
    reasons = []
    for group in groups.values():
        last, limits = group[-1], [again for again in group if again.limit]
        reason = Reason(
            function=last.function,
            cause=last.cause,
            subject=last.subject,
            reason=last.reason,
            value=last.value,
            place=last.place or last.function,
            count=len(group) - len(limits),
            took_ns=sum(again.took_ns or 0 for again in group),
            limit=limits[-1].limit if limits else "",
            limit_step=limits[-1].step if limits else None,
        )
        reasons.append(reason)
    return tuple(sorted(reasons, key=lambda reason: (-reason.took_ns, -reason.count)))


def _compiling(session: Session, steady: Mask) -> Compiling | None:
    """Sum up the compilations; None if no step was recorded."""
    if not session.steps or not steady.any():
        return None
    spans, times = session.all(OutsideSpan), session.all(CompileTime)
    collected_count, collected_ns = _collected(session, steady)
    repeated = _repeated(session) or _in_later_steps(session, steady)
    return Compiling(
        again=repeated,
        steps=session.steps + sum(span.steps for span in spans),
        whole_ns=compile_ns_by_step(session).total(),
        graphs_built=sum(record.built for record in times),
        graphs_loaded=sum(record.loaded for record in times),
        collected_count=collected_count,
        collected_ns=collected_ns,
    )


def _repeated(session: Session) -> Repeated | None:
    """Return the repetitions by the records of recompilations; None without their times.

    What the first step compiles again are usually other layers of the same class, which must be
    compiled too. A number that differs between them counts if torch gave up on the function in the
    end, since a tensor would need one version. The sizes of their parameters count only then.
    """
    recorded = _with_layers(session.all(Recompilation))
    if not recorded or any(again.took_ns is None for again in recorded):
        return None
    first = min(compile_ns_by_step(session), default=0)
    left_out = {first, *session.step_numbers[_apart(session)].tolist()}
    given_up = {again.function for again in recorded if again.limit}
    counted = [
        again
        for again in recorded
        if (again.cause is not GuardCause.PARAMETER or again.function in given_up)
        and (
            again.step not in left_out
            or again.limit
            or (again.cause in _NUMBERS and again.function in given_up)
        )
    ]
    return Repeated(
        count=sum(1 for again in counted if not again.limit),
        steps=len({again.step for again in counted}),
        took_ns=sum(again.took_ns or 0 for again in counted),
        last_step=max((again.step for again in counted), default=None),
        reasons=_reasons(counted),
    )


def _with_layers(recorded: Sequence[Recompilation]) -> list[Recompilation]:
    """Return recompilations with `PARAMETER` as the cause where layers of several sizes share code.

    Of such a function torch often names the size of its input, which it checks first.
    """
    shared = {again.function for again in recorded if again.cause is GuardCause.PARAMETER}
    return [
        replace(again, cause=GuardCause.PARAMETER)
        if again.cause is GuardCause.SIZE and again.function in shared
        else again
        for again in recorded
    ]


def _in_later_steps(session: Session, steady: Mask) -> Repeated:
    """Return the repetitions by the steps that compiled something: all of them but the first."""
    flags, dur, numbers = step_flags(session), session.columns["dur_ns"], session.step_numbers
    compiled = (flags & int(StepFlag.COMPILED)) != 0
    untimed = [step_ns for span in session.all(OutsideSpan) for step_ns in span.compiled_ns]
    chosen = np.flatnonzero(compiled & ~_apart(session))[1:]
    count = len(chosen) + len(untimed)
    others = set(numbers.tolist()) - set(numbers[chosen].tolist())
    timed = {step: ns for step, ns in compile_ns_by_step(session).items() if step not in others}
    last = max((*timed, *numbers[chosen].tolist()), default=None)
    reasons = _reasons(_recompilations(session))
    if timed and len(timed) >= count:
        return Repeated(count, count, sum(timed.values()), last, reasons)
    # The profiler slows a step down too, so such steps are assumed to cost as the others do.
    undisturbed = chosen[(flags[chosen] & int(SLOWED_BY_MEASURING)) == 0]
    measured = undisturbed if len(undisturbed) else chosen
    step_ns = np.append(dur[measured], untimed).astype(np.int64)
    took_ns = _above_median(step_ns, dur[steady & ~compiled], count)
    return Repeated(count, count, took_ns, last, reasons)


def _apart(session: Session) -> Mask:
    """Return the steps whose compilations are no repetitions, such as those of validations."""
    apart: Mask = (step_flags(session) & int(StepFlag.VALIDATION | StepFlag.UNFINISHED)) != 0
    return apart


def _above_median(step_ns: Int64, plain_ns: Int64, count: int) -> int | None:
    """Return by how much `count` steps like `step_ns` exceed the median plain step in all."""
    if len(plain_ns) < MIN_STEADY:
        return None
    return int((step_ns - median(plain_ns)).clip(min=0).sum()) * count // max(1, len(step_ns))


def _collected(session: Session, steady: Mask) -> tuple[int, int]:
    """Return how many steady steps hold a collection that compiling brought about, and its time."""
    collecting_ns = session.phase_ns(Phase.GARBAGE_COLLECTION)
    if collecting_ns is None:
        return 0, 0
    compiled = (step_flags(session) & int(StepFlag.COMPILED)) != 0
    collections = np.flatnonzero(collecting_ns > 0)
    compiled_by_then = np.cumsum(compiled)[collections]
    after_compiling = collections[np.diff(compiled_by_then, prepend=0) > 0]
    chosen = after_compiling[steady[after_compiling] & ~compiled[after_compiling]]
    return len(chosen), int(collecting_ns[chosen].sum())
