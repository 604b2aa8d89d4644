"""The questions that a profile is read by: rows of questions.toml, which promise no saving."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.check_figures import FIGURES, Seen, suggested_workers
from lightning_gpuprof.findings.operators import tables

KERNEL_CHECK = "top-kernel"
PHASES_END = "balanced"
"""The last of the questions on phases, which come first."""


class State(str, Enum):
    """How a question is answered."""

    OK = "ok"
    LOOK = "look"
    NOT_MEASURED = "not_measured"


@dataclass(frozen=True)
class Check:
    """One question.

    `figure` is the name of `value` and ends in its unit, `view` the tab's page that shows it;
    `next` says where to look when the state is `look`, and what is missing when it is
    `not_measured`.
    """

    id: str
    question: str
    view: str
    figure: str
    value: float | None
    limit: float
    state: State
    next: str


def run_checks(run: RunResults) -> tuple[Check, ...]:
    """Ask every question of a run."""
    seen = Seen.of(run)
    return tuple(_ask(row, seen) for row in questions())


def focus(checks: tuple[Check, ...]) -> Check | None:
    """Return the check that says where to look first: a kernel, or the phase that dominates."""
    of_phases = [row["id"] for row in questions()]
    of_phases = of_phases[: of_phases.index(PHASES_END) + 1]
    look = [check for check in checks if check.state is State.LOOK]
    named = [check for check in look if check.id in of_phases]
    return next((check for check in look if check.id == KERNEL_CHECK), named[0] if named else None)


def _ask(row: dict[str, Any], seen: Seen) -> Check:
    value, limit = FIGURES[row["figure"]](seen), row["limit"]
    state, next_ = State.NOT_MEASURED, row["lacks"]
    if value is not None:
        beyond = value < limit if row.get("below") else value > limit
        state = State.LOOK if beyond else State.OK
        modules = seen.run.start.model.get("children") or "[...]"
        next_ = row["next"].format(workers=suggested_workers(seen.run), modules=modules)
    asked = {key: row[key] for key in ("id", "question", "view", "figure", "limit")}
    return Check(**asked, value=value, state=state, next=next_)


def questions() -> list[dict[str, Any]]:
    """Return the rows of questions.toml."""
    rows: list[dict[str, Any]] = tables("questions.toml")["question"]
    return rows
