"""Builds the document of `lightning-gpuprof try`, and its sections in the document of a run."""

import math
from collections.abc import Iterator, Sequence

import msgspec

from lightning_gpuprof.records.trials import FASTER, Side, Trial, Trials
from lightning_gpuprof.report.document import (
    SCHEMA_VERSION,
    Column,
    Document,
    Figure,
    Figures,
    Interval,
    Section,
    Subject,
    Table,
    Text,
    Value,
    Verdict,
)
from lightning_gpuprof.units import duration, percent

NO_CHANGE = "No change is sure to save time without altering results"
WHERE = (
    "{name} shows the most that less work can gain there, and is no change to keep: what the "
    "report advises for that place gains a part of it."
)
LONGER, SHORTEST_S = 3, 60.0
"""Where the time was too short, this many times as much is proposed, or as this many seconds."""
CEILING = "upper bound of what can be gained here"


def build_trial(trials: Trials) -> Document:
    """Return the document of a program's trials; what to change comes first."""
    subject = Subject(
        kind="trial",
        name=trials.program,
        line=f"tried in {duration(trials.seconds * 1e9)}",
        facts={"settings": msgspec.to_builtins(trials.settings)},
    )
    answer = Section("verdict", "", "first", (_verdict(trials),))
    return Document(SCHEMA_VERSION, subject, (answer, *_table_sections(trials)))


def trial_sections(trials: Trials) -> Iterator[Section]:
    """Yield the trials of a run's program as a table, and what to change."""
    yield from _table_sections(trials)
    answer = _verdict(trials)
    if answer.change is None:
        sentence = Text((f"{answer.title}. {answer.sentence}",), "strong")
        yield Section("trial_change", "To change", "page", (sentence,))
    else:
        code = Text(tuple(answer.change.splitlines()), "code")
        yield Section("trial_change", "To change", "page", (code,), note=_gain(trials))


def _verdict(trials: Trials) -> Verdict:
    gain = _gain(trials)
    if gain is not None:
        sentence = "Write these settings into the program; the rest of it stays as it is."
        title = f"{gain[0].upper()}{gain[1:]}"
        return Verdict("change", "To change", title, sentence, change=trials.paste)
    if not trials.undecided:
        ceilings = [trial for trial in trials.trials if trial.ceiling and trial.verdict == FASTER]
        if not ceilings:
            return Verdict("nothing", "To change", NO_CHANGE, "Leave the program as it is.")
        most = max(ceilings, key=lambda trial: trial.gain_frac or 0.0)
        title = f"At most {percent(most.gain_frac or 0.0)} of a step can be gained in one place"
        return Verdict("limit", "To change", title, WHERE.format(name=most.name))
    whole = trials.decided + trials.undecided
    title = f"{trials.decided} of {whole} changes measured: undecided"
    return Verdict("too_short", "To change", title, _more_time(trials))


def _more_time(trials: Trials) -> str:
    seconds = LONGER * max(trials.seconds, SHORTEST_S)
    return (
        "There was too little time for the others, which may gain or not: give it --for "
        f"{math.ceil(seconds / 60)}m."
    )


def _gain(trials: Trials) -> str | None:
    """Say how much the winning changes save together; None if no change wins."""
    together = trials.combination
    if not trials.paste or together is None:
        return None
    if not together.note:
        return f"measured together: {percent(together.gain_frac or 0.0)} less per step"
    alone = max(trial.gain_frac or 0.0 for trial in trials.trials if trial.verdict == FASTER)
    return f"measured: {percent(alone)} less per step ({together.note})"


def _table_sections(trials: Trials) -> Iterator[Section]:
    yield _measured_section(trials)
    untried = [trial for trial in trials.trials if trial.after is None]
    if not untried:
        return
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


def _measured_section(trials: Trials) -> Section:
    named = [(trial.name, trial) for trial in trials.trials if trial.after is not None]
    if trials.combination is not None and trials.combination.after is not None:
        named.append(("all together", trials.combination))
    parts: list[Table | Figures | Text] = []
    if named:
        parts += [_gain_table(named), _effects_table(named)]
    remarks = tuple(remark for name, trial in named for remark in _remarks(name, trial))
    if remarks:
        parts.append(Text(remarks))
    program = Figure("program", "program", trials.program, "code")
    took = Figure("seconds_ns", "took", trials.seconds * 1e9, "ns")
    parts.append(Figures((program, took)))
    if trials.notes:
        parts.append(Text(trials.notes, "note"))
    note = "measured by lightning-gpuprof try in short runs, with and without a change in turns"
    return Section("trials", "Tried", "page", tuple(parts), note=note)


Named = Sequence[tuple[str, Trial]]


def _gain_table(named: Named) -> Table:
    columns = (
        Column("change", "Change", "code"),
        Column("gain_ns", "Gain per step", "ns", note="the interval holds the gain 19 times in 20"),
        Column("gain_frac", "Of the step", "frac"),
        Column("before_ns", "Before", "ns"),
        Column("after_ns", "With it", "ns"),
        Column("verdict", "Verdict", "text"),
    )
    rows = []
    for name, trial in named:
        gain = trial.gain_ns
        row: dict[str, Value] = {
            "change": name,
            "gain_ns": Interval(*gain) if gain is not None else None,
            "gain_frac": trial.gain_frac,
            "before_ns": None if trial.before is None else trial.before.step_ns,
            "after_ns": None if trial.after is None else trial.after.step_ns,
            "verdict": trial.verdict,
        }
        rows.append(row)
    return Table("trials", columns, tuple(rows))


def _effects_table(named: Named) -> Table:
    """Return what else each change affects; the first row is the program as it is."""
    columns = (
        Column("change", "Change", "code"),
        Column("predicted_ns", "Predicted gain", "ns", note="what its finding expects"),
        Column("samples_per_s", "Samples", "per_s"),
        Column("memory_bytes", "Memory", "bytes"),
        Column("first_step_ns", "First step", "ns"),
        Column("losses", "Losses", "text", note="of the first steps, against the program as it is"),
        Column("pairs", "Pairs of blocks", "count", detail="verbose"),
        Column("break_even_step", "Pays off by step", "count", detail="verbose"),
        Column("findings", "Answers", "code", detail="verbose"),
    )
    rows: list[dict[str, Value]] = []
    if named[0][1].before is not None:
        rows.append({"change": "as it is", **_side(named[0][1].before)})
    for name, trial in named:
        row: dict[str, Value] = {
            "change": name,
            "predicted_ns": Interval(*trial.predicted_ns) if trial.predicted_ns else None,
            "losses": trial.losses,
            "pairs": trial.pairs,
            "break_even_step": trial.break_even_step,
            "findings": ", ".join(trial.findings) or None,
        }
        rows.append(row | _side(trial.after) if trial.after is not None else row)
    return Table("trial_effects", columns, tuple(rows))


def _side(side: Side) -> dict[str, Value]:
    return {
        "samples_per_s": side.samples_per_s,
        "memory_bytes": side.memory_bytes,
        "first_step_ns": side.first_step_ns,
    }


def _remarks(name: str, trial: Trial) -> Iterator[str]:
    if trial.ceiling:
        yield f"{name}: {CEILING}: {trial.alters}."
    elif trial.alters:
        yield f"{name}: {trial.alters}."
    if trial.break_even_step is not None:
        yield f"{name}: its longer first step pays off by step {trial.break_even_step:,}."
