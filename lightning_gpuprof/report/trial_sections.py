"""What `lightning-gpuprof try` measured of a program's changes, as sections of a document."""

from collections.abc import Iterator

from lightning_gpuprof.records.trials import FASTER, SLOWER, Side, Trial, Trials
from lightning_gpuprof.report.document import (
    Column,
    Figure,
    Figures,
    Interval,
    Section,
    Table,
    Text,
    Value,
)
from lightning_gpuprof.units import percent

NO_CHANGE = "No change gains for sure without altering results: leave it as it is."
CEILING = "the most that data can give"


def trial_sections(trials: Trials) -> Iterator[Section]:
    """Yield the trials as a table, what needed no trial or failed, and what to change."""
    yield _measured_section(trials)
    untried = [trial for trial in trials.trials if trial.after is None]
    if untried:
        rows: list[dict[str, Value]] = [
            {
                "change": trial.name,
                "verdict": trial.verdict,
                "gain_frac": trial.gain_frac,
                "why": trial.note or trial.alters or None,
                "computed": trial.computed,
            }
            for trial in untried
        ]
        columns = (
            Column("change", "Change", "code"),
            Column("verdict", "Verdict", "text"),
            Column("gain_frac", "Gain", "frac"),
            Column("why", "Why", "text"),
            Column("computed", "By the run's own figures", "flag", detail="verbose"),
        )
        table = Table("untried", columns, tuple(rows))
        yield Section("untried", "Needed no trial, or failed", "page", (table,))
    yield _change_section(trials)


def _measured_section(trials: Trials) -> Section:
    together = trials.combination
    measured = [
        trial
        for trial in (*trials.trials, together)
        if trial is not None and trial.after is not None
    ]
    rows = tuple(_row(trial, together=trial is together) for trial in measured)
    columns = (
        Column("change", "Change", "code"),
        Column("predicted_ns", "Predicted gain", "ns"),
        Column("gain_ns", "Gain per step", "ns", note="where it lies 19 times in 20"),
        Column("gain_frac", "Of the step", "frac"),
        Column("verdict", "Verdict", "text"),
        Column("before_ns", "Before", "ns"),
        Column("after_ns", "With it", "ns"),
        Column("losses", "Losses", "text"),
        Column("samples_per_s", "Samples", "per_s", detail="verbose"),
        Column("memory_bytes", "Memory", "bytes", detail="verbose"),
        Column("first_step_ns", "First step", "ns", detail="verbose"),
        Column("break_even_step", "Made good by step", "count", detail="verbose"),
        Column("pairs", "Pairs of blocks", "count", detail="verbose"),
        Column("findings", "Answers", "code", detail="verbose"),
    )
    parts: list[Table | Figures | Text] = []
    if rows:
        parts.append(Table("trials", columns, rows))
    parts.append(
        Figures(
            (
                Figure("program", "program", trials.program, "code"),
                Figure("seconds", "took", trials.seconds * 1e9, "ns"),
            )
        )
    )
    if trials.notes:
        parts.append(Text(trials.notes, "note"))
    note = "measured by lightning-gpuprof try in short runs, with and without a change in turns"
    return Section("trials", "Tried", "page", tuple(parts), note=note)


def _row(trial: Trial, *, together: bool) -> dict[str, Value]:
    before, after = trial.before or Side(0), trial.after or Side(0)
    remarks = [CEILING if trial.ceiling else trial.alters]
    if trial.verdict in (FASTER, SLOWER) and trial.break_even_step is not None:
        remarks.append(f"its first step is made good by step {trial.break_even_step:,}")
    gain = trial.gain_ns
    note = "; ".join(filter(None, remarks))
    return {
        "change": "all together" if together else trial.name,
        "predicted_ns": Interval(*trial.predicted_ns) if trial.predicted_ns else None,
        "gain_ns": Interval(*gain) if gain is not None else None,
        "gain_frac": trial.gain_frac,
        "verdict": trial.verdict,
        "before_ns": before.step_ns or None,
        "after_ns": after.step_ns or None,
        "losses": trial.losses,
        "samples_per_s": after.samples_per_s,
        "memory_bytes": after.memory_bytes,
        "first_step_ns": after.first_step_ns,
        "break_even_step": trial.break_even_step,
        "pairs": trial.pairs,
        "findings": ", ".join(trial.findings) or None,
        "note": note or None,
    }


def _change_section(trials: Trials) -> Section:
    together = trials.combination
    if not trials.paste or together is None:
        return Section("trial_change", "To change", "page", (Text((NO_CHANGE,), "strong"),))
    gain = f"measured together: {percent(together.gain_frac or 0.0)} less per step"
    code = Text(tuple(trials.paste.splitlines()), "command")
    return Section("trial_change", "To change", "page", (code,), note=gain)
