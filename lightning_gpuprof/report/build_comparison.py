"""Builds the document of a comparison: two runs, or several runs with the same base."""

import os
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import msgspec

from lightning_gpuprof.analysis.compare.bootstrap import Interval as ChangeInterval
from lightning_gpuprof.analysis.compare.change import Change
from lightning_gpuprof.analysis.compare.compare import Comparison, without_compiling
from lightning_gpuprof.analysis.compare.compare import Verdict as Outcome
from lightning_gpuprof.analysis.compare.phase_changes import PhaseChange
from lightning_gpuprof.analysis.compare.same import ValueCheck
from lightning_gpuprof.analysis.compare.traced_changes import TracedChange
from lightning_gpuprof.analysis.trace.kernel_category import kernel_name
from lightning_gpuprof.findings.before_after import BeforeAfter, before_after
from lightning_gpuprof.findings.changed_findings import findings_missing_in
from lightning_gpuprof.findings.model import Finding
from lightning_gpuprof.records.span import StepSpan
from lightning_gpuprof.report.change_tables import (
    ONLY_COLUMN,
    change_columns,
    large_changes,
    only_cells,
)
from lightning_gpuprof.report.document import (
    SCHEMA_VERSION,
    Column,
    Document,
    Figure,
    Figures,
    Interval,
    Part,
    Place,
    Quantity,
    Section,
    Subject,
    Table,
    Text,
    Value,
    Verdict,
)
from lightning_gpuprof.report.finding_cards import labelled
from lightning_gpuprof.report.labels import phase_label
from lightning_gpuprof.report.load import Report
from lightning_gpuprof.report.phase_tables import (
    NOISE_COLUMN,
    noise_cells,
    ordered_phases,
    phase_multiples,
)
from lightning_gpuprof.report.predictions import checked_prediction, prediction_section
from lightning_gpuprof.report.run.answer import BASES
from lightning_gpuprof.report.run.places import place_of_line
from lightning_gpuprof.units import percent

MOST_ROWS = 20
MOST_SETTINGS = 3
"""How many settings the table of several runs names of each."""
FIRST_ROWS = 8
MIN_FIT_DIFFERENCE = 0.01
"""The sentence gives both changes if those of the whole fit and of a steady step differ by this."""
UNEQUALLY_BUSY_FRAC = 0.2
"""The title says so if the runs waited for a core for shares of their time that differ by this."""
DIFFERENCE = "relative to the base's value, or absolute where that is less"
OTHER_START = (
    "They differ from the first step on: the runs began with other weights or other data. To "
    "compare values, call seed_everything(1) in both."
)
NO_OUTPUTS = (
    "No batch has recorded outputs in both runs: whether they compute the same is unknown. Record "
    "both with GpuProfCallback(outputs=True)."
)
NO_COMMON_STEPS = "These are steps of the same run, so there are no values to compare."
NO_VALUES = "No step has a recorded loss in both runs: whether they compute the same is unknown."
INTERVAL_NOTE = (
    "the interval covers how steps vary within these two runs, not what another day or machine "
    "would change"
)
STEP_LABELS = {
    "mean_ns": "Mean step",
    "p50_ns": "Median step",
    "p95_ns": "95th percentile",
    "p99_ns": "99th percentile",
    "max_ns": "Slowest step",
    "whole_fit_ns": "Whole fit, per step",
    "wall_ns": "Wall time",
    "compiling_ns": "torch.compile, all together",
    "samples_per_s": "Samples",
    "peak_allocated_bytes": "Peak allocated",
    "peak_reserved_bytes": "Peak reserved",
    "total_bytes": "The device's memory",
}
_OUTCOMES = {
    Outcome.FASTER: "faster than the base",
    Outcome.SLOWER: "slower than the base",
    Outcome.NO_DIFFERENCE: "not measurably different from the base",
    Outcome.UNKNOWN: "too short to compare",
}
_OTHER_MODEL = "of another model"
_SAME = {None: "not compared", True: "same", False: "differ"}


def build_comparison(base: Report, new: Report, result: Comparison, tolerance: float) -> Document:
    """Return the document of two runs."""
    subject = Subject(
        kind="comparison",
        name=f"{_name(new.name)} against {_name(base.name)}",
        line=_steps_of_both(base, new, result),
    )
    sections = tuple(_sections(base, new, result, tolerance))
    return Document(SCHEMA_VERSION, subject, sections)


def build_several(
    base: Report, compared: Sequence[tuple[Report, Comparison]], tolerance: float
) -> Document:
    """Return the document of several runs that were compared with the same base."""
    results = [result for _, result in compared]
    base_steps = counted_steps(base, results[0].base_steps)
    runs = [Figure("run_0", "base", base.name, "code", note=base_steps)]
    for number, (new, result) in enumerate(compared, start=1):
        note = f"{counted_steps(new, result.new_steps)}, {comparison_sentence(result)}"
        runs.append(Figure(f"run_{number}", str(number), new.name, "code", note=note))
    sections = [
        Section(
            "verdict",
            "",
            "first",
            (Text((several_sentence(results),), "strong"), Figures(tuple(runs))),
        ),
        Section("runs", "Runs", "page", (_named_runs(base, compared), _runs_table(base, compared))),
    ]
    for number, (new, result) in enumerate(compared, start=1):
        for section in _sections(base, new, result, tolerance):
            body = tuple(_without_verdict(section.body))
            sections.append(
                msgspec.structs.replace(
                    section,
                    id=f"{section.id}_{number}",
                    title=f"Run {number}: {section.title}" if section.title else f"Run {number}",
                    detail="page" if section.id in ("warnings", "differs") else "verbose",
                    body=body,
                )
            )
    command = ("lightning-gpuprof", "compare", base.name, compared[0][0].name)
    commands = (
        Text(("All figures of a single comparison:",)),
        Text((shlex.join(command),), "command"),
    )
    sections.append(Section("commands", "Next", "page", commands))
    subject = Subject(
        kind="comparison",
        name=f"{len(compared)} runs against {_name(base.name)}",
        line=f"the base has {base_steps}",
    )
    return Document(SCHEMA_VERSION, subject, tuple(sections))


def _without_verdict(parts: Sequence[Part]) -> Iterator[Part]:
    for part in parts:
        yield Text((part.title, part.sentence)) if isinstance(part, Verdict) else part


def comparison_sentence(result: Comparison) -> str:
    """Return the answer in plain words, such as `faster: 18% less time per step (15-21%)`.

    If the models differ, it calls neither run faster: the cause would not be your change.
    """
    other = result.other_model
    if not other:
        return _change_sentence(result)
    models = [f"{fact.name} {_number(fact.base)} -> {_number(fact.new)}" for fact in other]
    return f"another model ({', '.join(models)}): {_change_sentence(result, says_faster=False)}"


def several_sentence(results: Sequence[Comparison]) -> str:
    """Say how many runs are faster, how many are slower, and how many are neither."""
    counts = Counter(
        _OTHER_MODEL if result.other_model else _OUTCOMES[result.verdict] for result in results
    )
    kinds = [
        f"{counts[kind]} {'is' if counts[kind] == 1 else 'are'} {kind}"
        for kind in (*_OUTCOMES.values(), _OTHER_MODEL)
        if counts[kind]
    ]
    return f"Of {len(results)} runs {', '.join(kinds)}."


def counted_steps(report: Report, count: int) -> str:
    """Return the number and kind of one side's steps; those of a short run may all be warm-up."""
    steps = report.results.steps
    kind = BASES.get(steps.basis, "") if steps is not None else ""
    return f"{count:,} {kind}step{'' if count == 1 else 's'}"


def _steps_of_both(base: Report, new: Report, result: Comparison) -> str:
    new_steps = counted_steps(new, result.new_steps)
    return f"{new_steps} against {counted_steps(base, result.base_steps)}"


def gone_findings(base: Report, new: Report) -> tuple[Finding, ...]:
    """Return the base run's findings that are gone; none if the new run has no steps to judge."""
    return findings_missing_in(new.findings, base.findings) if new.results.step_ns else ()


def new_findings(base: Report, new: Report) -> tuple[Finding, ...]:
    """Return the new run's additional findings; none if the base run has no steps to judge."""
    return findings_missing_in(base.findings, new.findings) if base.results.step_ns else ()


def compared_figures(base: Report, new: Report, result: Comparison) -> tuple[BeforeAfter, ...]:
    """Return the figures to look at before and after a change.

    They are per sample if the comparison's times are.
    """
    scale = (1.0, 1.0)
    if result.per_sample:
        scale = (base.results.batch_size or 1.0, new.results.batch_size or 1.0)
    shown = result.verdict in (Outcome.FASTER, Outcome.SLOWER)
    runs = base.results, new.results
    if result.compiling_left_out is not None:
        runs = without_compiling(runs[0]), without_compiling(runs[1])
    return before_after(*runs, result.values, scale=scale, step_shown=shown)


def most_changed_phase(base: Report, new: Report, result: Comparison) -> Change | None:
    """Return the phase that changed most; None if none did by enough, or by more than chance."""
    if base.results.step_ns is None or new.results.step_ns is None:
        return None
    phases = [change for change in large_changes(result.phases, result) if change.sure]
    return max(phases, key=lambda change: abs(change.shift), default=None)


def values_same(result: Comparison) -> bool | None:
    """Return whether all recorded values agree; None if no step has a value in both runs."""
    answers = [value.same for value in result.values if value.same is not None]
    return all(answers) if answers else None


def _sections(base: Report, new: Report, result: Comparison, tolerance: float) -> Iterator[Section]:
    yield _verdict(base, new, result)
    if warnings := tuple(_warnings(base, new, result)):
        yield Section("warnings", "", "first", (Text(warnings, "warning"),))
    if result.differs:
        yield _differs(result)
    gone = () if base.run == new.run else gone_findings(base, new)
    if checked := checked_prediction(base.results, new.results, result, gone):
        yield prediction_section(checked)
    if figures := compared_figures(base, new, result):
        note = "figures that both runs have, and the goal of each"
        table = before_after_table(figures)
        yield Section("before_after", "Before and after", "first", (table,), note=note)
    yield from _step_sections(result)
    yield from _traced("operators", "Operators", "own time", result.operators, result)
    kernels = [replace(row, name=kernel_name(row.name)) for row in result.kernels]
    yield from _traced("kernels", "Kernels", "device time", kernels, result)
    if memory := _changes("memory", result.memory or ()):
        yield Section("memory", "Memory", "page", (memory,))
    if findings := tuple(_finding_tables(base, new)):
        yield Section("findings", "Findings", "first", findings)
    if base.run == new.run:
        lacking = NO_COMMON_STEPS
    else:
        lacking = NO_OUTPUTS if new.results.start.stage == "predict" else NO_VALUES
    yield _values(result, tolerance, lacking=lacking)
    yield _change_figures(base, new, result, tolerance)


def _verdict(base: Report, new: Report, result: Comparison) -> Section:
    sentence = comparison_sentence(result)
    steps = _steps_of_both(base, new, result)
    sure = result.verdict in (Outcome.FASTER, Outcome.SLOWER) and not result.other_model
    title = f"The new run is {sentence}" if sure else f"{sentence[0].upper()}{sentence[1:]}"
    verdict = Verdict(
        kind="other_model" if result.other_model else _KINDS[result.verdict],
        label="Result",
        title=title + _unequally_busy(base, new),
        sentence=f"{steps}; {INTERVAL_NOTE}." if result.fit_change is not None else f"{steps}.",
    )
    runs = (Figure("base", "base", base.name, "code"), Figure("new", "new", new.name, "code"))
    return Section("verdict", "", "first", (verdict, Figures(runs)))


def _unequally_busy(base: Report, new: Report) -> str:
    """Say which run had a busier machine, which may be the whole difference; empty if neither."""
    shares = {"base": base.results.facts.busy_frac, "new": new.results.facts.busy_frac}
    side = max(shares, key=lambda side: shares[side])
    if max(shares.values()) - min(shares.values()) < UNEQUALLY_BUSY_FRAC:
        return ""
    return f". But the {side} run waited {percent(shares[side])} of its time for a free core"


_KINDS: dict[Outcome, Literal["faster", "slower", "no_difference", "too_short"]] = {
    Outcome.FASTER: "faster",
    Outcome.SLOWER: "slower",
    Outcome.NO_DIFFERENCE: "no_difference",
    Outcome.UNKNOWN: "too_short",
}


def _warnings(base: Report, new: Report, result: Comparison) -> Iterator[str]:
    """Yield what readers should know before they trust the figures."""
    if base.run == new.run and (both := _common_steps(base, new)):
        yield both
    sides = {"base": base, "new": new}
    if result.per_sample:
        sizes = [report.results.batch_size or 0.0 for report in sides.values()]
        yield f"The batch sizes differ ({sizes[0]:.4g} and {sizes[1]:.4g}): times are per sample."
    ahead = [side for side, by_device in zip(sides, result.by_device, strict=True) if by_device]
    if ahead:
        yield (
            f"Steps of the {' and the '.join(ahead)} run are timed by the device's clock, because "
            "the host ran ahead of it."
        )
    for side, report in sides.items():
        if busy_frac := report.results.facts.busy_frac:
            yield f"The {side} run waited {percent(busy_frac)} of its time for a free core."
    if result.compiling_left_out is not None:
        yield (
            "The verdict leaves out the time of torch.compile, because "
            f"{result.compiling_left_out}."
        )
    if result.other_model:
        yield (
            "The models differ: unless your change made them differ, the times say nothing about "
            "it."
        )
    others = [fact.name for fact in result.differs if fact.kind in ("machine", "versions")]
    if others:
        yield (
            f"The runs also differ in {', '.join(others)}: that may explain the difference as well "
            "as any change that you made."
        )


def _common_steps(base: Report, new: Report) -> str | None:
    """Say which steps of a run both sides have; None if they have none in common."""
    whole = StepSpan(0)
    spans = [report.results.span or whole for report in (base, new)]
    if spans[0] == spans[1]:
        return "Both are the same run." if spans[0] == whole else "Both are the same steps."
    common = spans[0].common(spans[1])
    return None if common is None else f"Both have {common.label} of the same run."


def _differs(result: Comparison) -> Section:
    columns = (
        Column("name", "What", "text"),
        Column("base", "Base", "code"),
        Column("new", "New", "code"),
        Column("kind", "Kind", "text", detail="verbose"),
    )
    rows: tuple[dict[str, Value], ...] = tuple(
        {"name": fact.name, "base": str(fact.base), "new": str(fact.new), "kind": fact.kind}
        for fact in result.differs
    )
    note = "settings, machine and versions that are not the same in both"
    return Section("differs", "What differs", "page", (Table("differs", columns, rows),), note=note)


def before_after_table(figures: Sequence[BeforeAfter]) -> Table:
    """Return the figures of both sides, with the direction in which each should change."""
    columns = (
        Column("label", "Figure", "text"),
        Column("base", "Base", "number"),
        Column("new", "New", "number"),
        Column("diff_frac", "Change", "change_frac"),
        Column("goal", "Goal", "text"),
        Column("met", "Met", "text"),
    )
    rows = []
    for figure in figures:
        unit = "number" if figure.goal == "same" else labelled(figure.name)[1]
        row: dict[str, Value] = {
            "id": figure.name,
            "label": figure.label,
            "base": Quantity(figure.base, unit),
            "new": Quantity(figure.new, unit),
            "diff_frac": figure.diff_frac,
            "goal": figure.goal,
            "met": figure.met,
        }
        rows.append(row)
    return Table("before_after", columns, tuple(rows))


def _step_sections(result: Comparison) -> Iterator[Section]:
    unit = "per sample" if result.per_sample else "per step"
    if steps := _changes("steps", result.steps):
        note = (
            None
            if not result.per_sample
            else "per sample, except for the wall time and torch.compile"
        )
        yield Section("steps", "Step time", "page", (steps,), note=note)
    clock = ", by the host's clock" if any(result.by_device) else ""
    if phases := _phases(result):
        multiples = phase_multiples(result)
        body = (phases,) if multiples is None else (multiples, phases)
        yield Section("phases", "Phases", "page", body, note=f"mean {unit}{clock}")
    if lines := _lines(result):
        note = f"sampled on the host, mean {unit}; differences that are beyond chance"
        yield Section("lines", "Lines", "page", (lines,), note=note)
    if between := _between(result):
        yield Section("between_epochs", "Between epochs", "page", (between,), note=f"mean {unit}")


def _traced(
    id: str, title: str, time: str, changes: Sequence[TracedChange], result: Comparison
) -> Iterator[Section]:
    """Yield a table of times in the profiled steps; what a side did not run counts as 0 there."""
    if result.traced_steps is None or not changes:
        return
    columns = _change_columns(Column("name", title.removesuffix("s"), "code"))
    columns = (*columns, ONLY_COLUMN)
    rows: tuple[dict[str, Value], ...] = tuple(
        {"name": change.name, **_values_of(change), **only_cells(change)}
        for change in changes[:MOST_ROWS]
    )
    first = min(FIRST_ROWS, len(large_changes(changes, result)))
    table = Table(id, columns, rows, first_rows=first or 1)
    steps = " and ".join(str(count) for count in result.traced_steps)
    per = "sample" if result.per_sample else "step"
    note = f"{time} per {per} of {steps} profiled steps, the largest change first"
    yield Section(id, title, "page" if first else "verbose", (table,), note=note)


def _changes(id: str, changes: Sequence[Change]) -> Table | None:
    """Return figures in different units as a table; None if neither side has any of them."""
    columns = (
        Column("label", "", "text"),
        Column("base", "Base", "number"),
        Column("new", "New", "number"),
        Column("diff", "Difference", "number"),
        Column("diff_frac", "Change", "change_frac"),
    )
    rows = []
    for change in changes:
        if change.base is None and change.new is None:
            continue
        unit = labelled(change.name)[1]
        row: dict[str, Value] = {
            "id": change.name,
            "label": STEP_LABELS[change.name],
            "base": Quantity(change.base, unit),
            "new": Quantity(change.new, unit),
            "diff": Quantity(change.diff, unit),
            "diff_frac": change.diff_frac,
        }
        rows.append(row)
    return Table(id, columns, tuple(rows)) if rows else None


def _phases(result: Comparison) -> Table | None:
    """Return phases in both runs, the largest change first, and their parts that changed."""
    changed, rows = large_changes(result.phases, result), list[dict[str, Value]]()
    first = 0
    for phase in ordered_phases(result):
        rows.append(_phase_row(phase))
        rows += [
            {"id": part.name, "label": part.part, "level": 1, **_judged_values(part)}
            for part in large_changes(result.parts, result)[:MOST_ROWS]
            if part.name == phase.name
        ]
        first = len(rows) if phase in changed else first
    if not rows:
        return None
    columns = (*_change_columns(Column("label", "Phase", "text")), NOISE_COLUMN)
    return Table("phases", columns, tuple(rows), first_rows=max(1, first), color="id")


def _between(result: Comparison) -> Table | None:
    """Return phases between epochs in both runs, the largest change first."""
    changes = sorted(result.between, key=lambda change: -abs(change.shift))
    first = len(large_changes(changes, result))
    if not changes:
        return None
    columns = _change_columns(Column("label", "Phase", "text"))
    rows = tuple(map(_phase_row, changes))
    return Table("between_epochs", columns, rows, first_rows=max(1, first), color="id")


def _phase_row(phase: PhaseChange) -> dict[str, Value]:
    return {"id": phase.name, "label": phase_label(phase.name), **_judged_values(phase)}


def _judged_values(change: PhaseChange) -> dict[str, Value]:
    return {**_values_of(change), **noise_cells(change)}


def _lines(result: Comparison) -> Table | None:
    """Return the lines whose time surely differs, the largest change first."""
    rows: tuple[dict[str, Value], ...] = tuple(
        {
            "place": place_of_line(change.line),
            "phase": Place(phase=change.name),
            **_values_of(change),
        }
        for change in large_changes(result.lines, result)[:MOST_ROWS]
        if change.sure
    )
    name, *times = _change_columns(Column("place", "Line", "place", keep_end=True))
    columns = (name, Column("phase", "In", "place"), *times)
    return Table("lines", columns, rows, first_rows=FIRST_ROWS, color="phase") if rows else None


def _values_of(change: Change) -> dict[str, Value]:
    return {
        "base": change.base,
        "new": change.new,
        "diff": change.shift,
        "diff_frac": change.diff_frac,
    }


def _change_columns(name: Column) -> tuple[Column, ...]:
    return change_columns(name, Column("base", "Base", "ns"), Column("new", "New", "ns"), "diff")


def _finding_tables(base: Report, new: Report) -> Iterator[Table]:
    columns = (
        Column("severity", "", "text"),
        Column("id", "Finding", "code"),
        Column("title", "What it says", "text"),
    )
    for id, title, findings in (
        ("findings_gone", "Gone, or nearly", gone_findings(base, new)),
        ("findings_new", "New, or ten times as large", new_findings(base, new)),
    ):
        rows = tuple(
            {"severity": finding.severity.value, "id": finding.id, "title": finding.title}
            for finding in findings
        )
        if rows:
            yield Table(id, columns, rows, title=title)


def _values(result: Comparison, tolerance: float, *, lacking: str) -> Section:
    title = "Do they compute the same?"
    if not any(value.count for value in result.values):
        return Section("values", title, "page", (Text((lacking,)),))
    columns = (
        Column("name", "Value", "code"),
        Column("same", "Same", "flag"),
        Column("steps", "Steps compared", "count"),
        Column("equal", "Bit for bit", "count"),
        Column(
            "max_diff",
            "Largest difference",
            "number",
            note=DIFFERENCE,
        ),
        Column("first_step", "Differs from step", "count"),
        Column("last_base", "Last, base", "number"),
        Column("last_new", "Last, new", "number"),
    )
    note = (
        "recorded losses, metrics and outputs of the steps that both runs have; they count as the "
        f"same within {tolerance:g} of their size"
    )
    rows = tuple(_value_row(value) for value in result.values)
    body: list[Table | Text] = [Table("values", columns, rows)]
    if any(value.first_step == 0 for value in result.values):
        body.append(Text((OTHER_START,)))
    return Section("values", title, "page", tuple(body), note=note)


def _value_row(value: ValueCheck) -> dict[str, Value]:
    row: dict[str, Value] = {"name": value.name, "steps": value.count}
    if value.count:
        finite = value.max_diff != float("inf")
        row |= {
            "same": value.same,
            "equal": value.equal_count,
            "max_diff": value.max_diff if finite else "not finite",
            "first_step": value.first_step,
            "last_base": "not finite" if value.last_base is None else value.last_base,
            "last_new": "not finite" if value.last_new is None else value.last_new,
        }
    return row


def _change_figures(base: Report, new: Report, result: Comparison, tolerance: float) -> Section:
    """Return the figures behind the sentence, for programs that read the document."""
    clocks = ["device" if by_device else "host" for by_device in result.by_device]
    traced = result.traced_steps or (None, None)
    figures = (
        *_interval_figures("fit_change", "whole fit", result.fit_change),
        *_interval_figures("step_change", "steady step", result.change),
        Figure("verdict", "verdict", result.verdict.value, "text"),
        Figure("same_model", "same model", not result.other_model, "flag"),
        Figure("per_sample", "times per sample", result.per_sample, "flag"),
        Figure("base_steps_count", "steps of the base", result.base_steps, "count"),
        Figure("new_steps_count", "steps of the new run", result.new_steps, "count"),
        Figure("base_clock", "clock of the base", clocks[0], "text"),
        Figure("new_clock", "clock of the new run", clocks[1], "text"),
        Figure("base_traced_count", "profiled steps of the base", traced[0], "count"),
        Figure("new_traced_count", "profiled steps of the new run", traced[1], "count"),
        Figure("values_same", "values the same", values_same(result), "flag"),
        Figure("tolerance", "tolerance of values", tolerance, "number"),
    )
    return Section("figures", "Figures of the comparison", "verbose", (Figures(figures),))


def _interval_figures(key: str, label: str, change: ChangeInterval | None) -> Iterator[Figure]:
    middle = None if change is None else change.middle
    yield Figure(f"{key}_frac", f"change of the {label}", middle, "change_frac")
    interval = None if change is None else Interval(change.low, change.high)
    note = "19 times in 20"
    yield Figure(f"{key}_interval_frac", "between", interval, "change_frac", note=note)


def _runs_table(base: Report, compared: Sequence[tuple[Report, Comparison]]) -> Table:
    columns = (
        Column("run", "Run", "text"),
        Column("median_ns", "Median step", "ns"),
        Column("samples_per_s", "Samples", "per_s"),
        Column("peak_reserved_bytes", "Peak memory", "bytes"),
        Column("findings_gone", "Findings gone", "count"),
        Column("findings_new", "New", "count"),
        Column("values", "Losses", "text"),
        Column("phase", "Changed most", "text"),
        Column("phase_diff_ns", "By", "ns"),
        Column("verdict", "Verdict", "text", detail="verbose"),
        Column("path", "Log dir", "code", detail="verbose"),
    )
    rows: list[dict[str, Value]] = [{"run": "base", **_own_figures(base)}]
    for number, (new, result) in enumerate(compared, start=1):
        phase = most_changed_phase(base, new, result)
        row: dict[str, Value] = {
            "run": str(number),
            **_own_figures(new),
            "findings_gone": len(gone_findings(base, new)),
            "findings_new": len(new_findings(base, new)),
            "values": _SAME[values_same(result)],
            "phase": None if phase is None else phase_label(phase.name),
            "phase_diff_ns": None if phase is None else phase.shift,
            "verdict": _OTHER_MODEL if result.other_model else result.verdict.value,
        }
        rows.append(row)
    return Table("runs", columns, tuple(rows))


def _named_runs(base: Report, compared: Sequence[tuple[Report, Comparison]]) -> Table:
    """Return each run by its name and by what differs, with its mean step and the change."""
    names = distinct_names([base.name, *(new.name for new, _ in compared)])
    rows: list[dict[str, Value]] = [
        {"run": "base", "name": names[0], "mean_ns": base.results.step_ns}
    ]
    for number, (new, result) in enumerate(compared, start=1):
        change = result.fit_change
        row: dict[str, Value] = {
            "run": str(number),
            "name": names[number],
            "differs": _differs_in(result),
            "mean_ns": new.results.step_ns,
            "change_interval_frac": None if change is None else Interval(change.low, change.high),
        }
        rows.append(row)
    columns = (
        Column("run", "Run", "text"),
        Column("name", "Name", "text"),
        Column("differs", "Differs in", "text"),
        Column("mean_ns", "Mean step", "ns"),
        Column("change_interval_frac", "Change, 19 times in 20", "change_frac"),
    )
    return Table("named_runs", columns, tuple(rows))


def _differs_in(result: Comparison) -> str | None:
    """Name the settings that distinguish a run from the base; None if none does."""
    settings = [
        f"{fact.name}={_number(fact.new)}"
        for fact in result.differs
        if fact.kind in ("settings", "model")
    ]
    named = settings[:MOST_SETTINGS]
    if more := settings[MOST_SETTINGS:]:
        named.append(f"and {len(more)} more")
    return ", ".join(named) or None


def distinct_names(paths: Sequence[str]) -> list[str]:
    """Return the ends of paths that distinguish them.

    >>> distinct_names(["logs/a/version_0", "logs/b/version_0"])
    ['a/version_0', 'b/version_0']
    >>> distinct_names(["logs/version_0", "logs/version_1"])
    ['version_0', 'version_1']
    """
    parts = [os.path.normpath(path).split(os.sep) for path in paths]
    for length in range(1, max(map(len, parts)) + 1):
        names = [os.sep.join(own[-length:]) for own in parts]
        if len({*names}) == len({*paths}):
            return names
    return list(paths)


def _own_figures(report: Report) -> dict[str, Value]:
    results = report.results
    use = results.memory.use
    return {
        "median_ns": results.step_dur.p50_ns if results.step_dur else None,
        "samples_per_s": results.samples_per_s,
        "peak_reserved_bytes": None if use is None else use.peak_reserved_bytes,
        "path": report.name,
    }


def _change_sentence(result: Comparison, *, says_faster: bool = True) -> str:
    """Say how the whole fit changed, and how a steady step did if that differs.

    With `says_faster` it begins with `faster:` or `slower:`, if one is sure.
    """
    fit, step = result.fit_change, result.change
    if fit is None or step is None or abs(fit.middle - step.middle) < MIN_FIT_DIFFERENCE:
        return _interval_sentence(result, fit, result.verdict, says_faster=says_faster)
    whole = _interval_sentence(
        result, fit, result.verdict, " of the whole fit", says_faster=says_faster
    )
    steps = _interval_sentence(result, step, result.step_verdict, says_faster=False)
    return f"{whole}; steps alone: {steps}"


def _interval_sentence(
    result: Comparison,
    change: ChangeInterval | None,
    outcome: Outcome,
    of: str = "",
    *,
    says_faster: bool,
) -> str:
    if change is None:
        return f"too few steps to compare: {result.base_steps} and {result.new_steps}"
    if outcome is Outcome.NO_DIFFERENCE:
        steps = min(result.base_steps, result.new_steps)
        per = " per sample" if result.per_sample else ""
        return (
            f"no difference{per}{of} that {steps} steps could show "
            f"({change.low * 100:+.1f}% to {change.high * 100:+.1f}% in time)"
        )
    per = "per sample" if result.per_sample else "per step"
    digits = 0 if abs(change.middle) >= 0.10 else 1
    middle = f"{abs(change.middle) * 100:.{digits}f}"
    low, high = (
        f"{bound * 100:.{digits}f}" for bound in sorted((abs(change.low), abs(change.high)))
    )
    word, less, times = "slow", "more", 1 + change.middle
    if outcome is Outcome.FASTER:
        word, less, times = "fast", "less", 1 / (1 + change.middle)
    lead = f"{word}er: " if says_faster else ""
    return f"{lead}{middle}% {less} time {per}{of} ({low}-{high}%), {times:.3g} times as {word}"


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _name(run: str) -> str:
    return os.path.basename(os.path.normpath(os.path.abspath(run)))
