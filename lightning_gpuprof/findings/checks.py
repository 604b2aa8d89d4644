"""The questions that a profile is read by, each with its figure, its limit and where to look next.

Findings promise a saving; these do not. They are the rules by which profiles were read by hand
before, kept whole so that each question has an answer, or a reason why it has none. Sources of the
limits: docs/adr/0030.
"""

from dataclasses import dataclass
from enum import Enum

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.check_figures import Seen, suggested_workers
from lightning_gpuprof.findings.check_questions import (
    KERNEL_CHECK,
    PHASE_CHECKS,
    QUESTIONS,
    Question,
)


class State(str, Enum):
    """How a question is answered."""

    OK = "ok"
    LOOK = "look"
    NOT_MEASURED = "not_measured"


@dataclass(frozen=True)
class Check:
    """One question.

    `figure` is the name of `value` and ends in its unit; `next` says where to look when the
    state is `look`, and what is missing when it is `not_measured`.
    """

    id: str
    question: str
    figure: str
    value: float | None
    limit: float
    state: State
    next: str


def run_checks(run: RunResults) -> tuple[Check, ...]:
    """Ask every question of a run."""
    seen = Seen.of(run)
    return tuple(_ask(question, seen) for question in QUESTIONS)


def focus(checks: tuple[Check, ...]) -> Check | None:
    """Return the check that says where to look first: the phase that dominates, or that none does.

    One kernel that is most of the step comes before: the host waits for it in whatever phase it
    queues too much. None where no step was measured.
    """
    look = [check for check in checks if check.state is State.LOOK]
    named = [check for check in look if check.id in PHASE_CHECKS]
    return next((check for check in look if check.id == KERNEL_CHECK), named[0] if named else None)


def _ask(question: Question, seen: Seen) -> Check:
    value = question.value(seen)
    if value is None:
        state = State.NOT_MEASURED
    else:
        beyond = value < question.limit if question.below else value > question.limit
        state = State.LOOK if beyond else State.OK
    return Check(
        id=question.id,
        question=question.question,
        figure=question.figure,
        value=value,
        limit=question.limit,
        state=state,
        next=question.lacks
        if value is None
        else question.next.format(workers=suggested_workers(seen.run)),
    )
