"""What holds a run back, what to change in which order, and what is not worth changing."""

from collections.abc import Sequence

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.engine import make_plan, step_of
from lightning_gpuprof.findings.model import Abstained, Finding
from lightning_gpuprof.findings.questions import Answer, State, first_to_look_at
from lightning_gpuprof.findings.usual_advice import not_worth_it
from lightning_gpuprof.report.document import (
    Column,
    Figure,
    Figures,
    Interval,
    Quantity,
    Section,
    Table,
    Text,
    Value,
)
from lightning_gpuprof.report.document import State as RowState
from lightning_gpuprof.report.finding_cards import finding_card, labelled, short_change

ANSWERS: dict[State, RowState] = {
    State.OK: "good",
    State.LOOK: "look",
    State.NOT_MEASURED: "not_measured",
}
BY_SAVING = "the largest saving that can be counted on first"
"""The order of findings, as `findings/ranking.py` decides it for every surface."""
ORDER = (State.LOOK, State.OK, State.NOT_MEASURED)


def findings_section(run: RunResults, findings: Sequence[Finding], *, run_dir: str) -> Section:
    """Return the findings of the run in a folder, the largest saving to count on first."""
    if not findings:
        silence = Text(("No rule fired on what was measured.",))
        return Section("findings", "What holds it back", "first", (silence,))
    cards = tuple(finding_card(finding, run, run_dir=run_dir) for finding in findings)
    note = BY_SAVING if len(cards) > 1 else None
    return Section("findings", "What holds it back", "first", cards, note=note)


def not_worth_it_section(run: RunResults, findings: Sequence[Finding]) -> Section | None:
    """Return the usual advice that would gain next to nothing in this run."""
    gains = not_worth_it(run, findings)
    if not gains:
        return None
    figures = tuple(
        Figure(f"{advice.replace(' ', '_')}_frac", advice, frac, "frac")
        for advice, frac in gains.items()
    )
    return Section(
        "not_worth_it", "Not worth it here", "page", (Figures(figures),), note="of a step, at most"
    )


def plan_section(run: RunResults, findings: Sequence[Finding]) -> Section | None:
    """Return the changes with what each takes and risks; None if nothing is to change."""
    plan = make_plan(findings)
    if not plan:
        return None
    rows: list[dict[str, Value]] = []
    for finding, effort in plan:
        saving, step_ns = finding.saving_ns, step_of(finding, run)
        rows.append(
            {
                "horizon": effort.horizon.value,
                "finding": finding.id,
                "change": short_change(finding.change, finding.advice)[0],
                "saving_ns": Interval(saving.low, saving.high) if saving.high else None,
                "saving_frac": Interval(saving.low / step_ns, saving.high / step_ns)
                if saving.high and step_ns
                else None,
                "difficulty": effort.difficulty,
                "risk": effort.risk,
            }
        )
    by_share = any(row["saving_frac"] is not None for row in rows)
    impact = Column("saving_ns", "Saves per step", "ns")
    if by_share:
        impact = Column("saving_frac", "Saves", "frac")
    columns = (
        Column("horizon", "When", "text"),
        Column("finding", "Finding", "code"),
        Column("change", "Change", "text"),
        impact,
        Column("difficulty", "Effort", "text"),
        Column("risk", "Risk", "text"),
    )
    table = Table("plan", columns, tuple(rows))
    return Section("plan", "What to change", "verbose", (table,), note="as ranked above")


def checklist_section(run: RunResults, answers: Sequence[Answer]) -> Section:
    """Return the usual questions to a profile; those that are worth a look come first.

    Without a GPU, questions on its memory are left out.
    """
    first = first_to_look_at(answers)
    asked = [answer for answer in answers if answer.view != "memory" or run.on_gpu]
    asked.sort(key=lambda answer: (ORDER.index(answer.state), answer is not first))
    rows: list[dict[str, Value]] = []
    for answer in asked:
        _, unit = labelled(answer.figure)
        rows.append(
            {
                "id": answer.id,
                "state": ANSWERS[answer.state],
                "question": answer.question,
                "value": None if answer.value is None else Quantity(answer.value, unit),
                "limit": Quantity(answer.limit, unit),
                "finding": ", ".join(answer.findings) or None,
                "note": _note(answer),
                "view": answer.view,
            }
        )
    columns = (
        Column("state", "", "state"),
        Column("value", "Value", "number"),
        Column("question", "Question", "text"),
        Column("limit", "Limit", "number", detail="verbose"),
    )
    table = Table("checklist", columns, tuple(rows))
    parts: list[Table | Text] = [table]
    if first is not None:
        parts.insert(0, Text((f"First look at {first.next}.",)))
    return Section("checklist", "Checklist", "verbose", tuple(parts))


def _note(answer: Answer) -> str | None:
    if answer.state is State.OK:
        return None
    lead = "Not measured" if answer.state is State.NOT_MEASURED else "Look at"
    return f"{lead}: {answer.next}." if lead == "Not measured" else f"{lead} {answer.next}."


def rules_section(
    run: RunResults, abstained: Sequence[Abstained], silent: Sequence[str]
) -> Section | None:
    """Return the rules without a finding, and why.

    Without a GPU, rules that need its memory are left out.
    """
    rows: list[dict[str, Value]] = [
        {
            "rule": rule.id,
            "state": "not_measured",
            "why": f"skipped: {rule.reason}",
            "finding": rule.covered_by,
        }
        for rule in abstained
        if run.on_gpu or "device memory" not in rule.reason
    ]
    rows += [
        {"rule": rule, "state": "good", "why": "found nothing worth a change"} for rule in silent
    ]
    if not rows:
        return None
    columns = (Column("rule", "Rule", "code"), Column("why", "Why", "text"))
    table = Table("rules", columns, tuple(rows))
    return Section("rules", "Rules without a finding", "verbose", (table,))
