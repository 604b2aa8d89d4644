"""The usual questions to a profile, with a run's answers: the rows of questions.toml.

A question says where to look; what to change is said by findings alone. Where a finding answers a
question that is not as it should be, the answer is that finding's id.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache

from msgspec import Struct

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.findings.model import Abstained, Finding
from lightning_gpuprof.findings.question_figures import FIGURES, FigureInputs, suggested_workers
from lightning_gpuprof.findings.tables import read_toml
from lightning_gpuprof.records.phases import Phase

KERNEL_QUESTION = "top-kernel"
LAST_OF_PHASES = "balanced"
"""The last question on phases; they come first in the file."""


class State(str, Enum):
    """How a question is answered."""

    OK = "ok"
    LOOK = "look"
    NOT_MEASURED = "not_measured"


class Question(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of questions.toml.

    Args:
        view: The tab's view that shows the figure.
        figure: A name in `FIGURES`, which ends in the figure's unit.
        below: Whether a figure below the limit, not above it, is worth a look.
        findings: Ids of the findings that answer the question.
        phases: Phases that the question is about; empty where it is about something else.
        findings_in_phases: Ids of findings that answer it if they name one of these phases.
        any_change: Whether every finding that is worth a change answers it.
        look: Where to look if no finding answers it, as a noun phrase after "look at".
        lacks: What is missing if the figure was not measured.
    """

    id: str
    view: str
    question: str
    figure: str
    limit: float
    below: bool = False
    findings: tuple[str, ...] = ()
    phases: tuple[Phase, ...] = ()
    findings_in_phases: tuple[str, ...] = ()
    any_change: bool = False
    look: str
    lacks: str

    def is_answered_by(self, finding: Finding) -> bool:
        """Return whether a finding says what to change about what the question asks."""
        if finding.id in self.findings or (self.any_change and finding.worth_a_change):
            return True
        named = {place.phase for place in finding.places}
        return finding.id in self.findings_in_phases and any(
            phase.value in named for phase in self.phases
        )


@dataclass(frozen=True)
class Answer:
    """A question with the answer of a run.

    Args:
        figure: The name of `value`; it ends in the unit.
        next: What to look at next if the state is `look`, what is missing if it is
            `not_measured`.
        findings: Ids of the run's findings that answer the question, in their order; empty
            unless the state is `look`.
    """

    id: str
    question: str
    view: str
    figure: str
    value: float | None
    limit: float
    state: State
    next: str
    findings: tuple[str, ...] = ()


class _QuestionFile(Struct, frozen=True, forbid_unknown_fields=True):
    question: tuple[Question, ...]


@cache
def questions() -> tuple[Question, ...]:
    """Return the rows of questions.toml."""
    return read_toml("questions.toml", _QuestionFile).question


def answer_questions(
    run: RunResults, findings: Sequence[Finding], abstained: Sequence[Abstained] = ()
) -> tuple[Answer, ...]:
    """Answer every question about a run.

    Args:
        run: The run's results.
        findings: The findings in the run, which are all that answers propose.
        abstained: Rules without a finding; one whose time another finding covers leads to that.
    """
    inputs = FigureInputs.of(run)
    return tuple(_answer(question, inputs, findings, abstained) for question in questions())


def first_to_look_at(answers: Sequence[Answer]) -> Answer | None:
    """Return the answer that says where to look first: a kernel, or the phase that dominates."""
    ids = [question.id for question in questions()]
    of_phases = ids[: ids.index(LAST_OF_PHASES) + 1]
    look = [answer for answer in answers if answer.state is State.LOOK]
    kernel = next((answer for answer in look if answer.id == KERNEL_QUESTION), None)
    return kernel or next((answer for answer in look if answer.id in of_phases), None)


def _answer(
    question: Question,
    inputs: FigureInputs,
    findings: Sequence[Finding],
    abstained: Sequence[Abstained],
) -> Answer:
    value = FIGURES[question.figure](inputs)
    answering: tuple[str, ...] = ()
    if value is None:
        state, next_ = State.NOT_MEASURED, question.lacks
    elif not (value < question.limit if question.below else value > question.limit):
        state, next_ = State.OK, _where_to_look(question, inputs.run)
    else:
        state, answering = State.LOOK, _answering(question, findings, abstained)
        next_ = name_findings(answering) if answering else _where_to_look(question, inputs.run)
    return Answer(
        id=question.id,
        question=question.question,
        view=question.view,
        figure=question.figure,
        value=value,
        limit=question.limit,
        state=state,
        next=next_,
        findings=answering,
    )


def _answering(
    question: Question, findings: Sequence[Finding], abstained: Sequence[Abstained]
) -> tuple[str, ...]:
    """Return the ids of the findings that answer a question, in their order."""
    covering = {rule.covered_by for rule in abstained if rule.id in question.findings}
    answering = (
        finding.id
        for finding in findings
        if question.is_answered_by(finding) or finding.id in covering
    )
    return tuple(dict.fromkeys(answering))


def name_findings(ids: Sequence[str]) -> str:
    """Return the names of findings for a sentence.

    >>> name_findings(["data-wait"]), name_findings(["data-wait", "host-sync", "host-bound"])
    ('the finding data-wait', 'the findings data-wait, host-sync and host-bound')
    """
    if len(ids) == 1:
        return f"the finding {ids[0]}"
    return f"the findings {', '.join(ids[:-1])} and {ids[-1]}"


def _where_to_look(question: Question, run: RunResults) -> str:
    modules = list(settings_of(run.start).children) or "[...]"
    return question.look.format(workers=suggested_workers(run), modules=modules)
