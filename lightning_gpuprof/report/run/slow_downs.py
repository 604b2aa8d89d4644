"""The slow-downs of a run: since when, what changed with them, and what was captured of them."""

import shlex
from collections.abc import Iterator, Sequence

from lightning_gpuprof.analysis.compare.before_during import BeforeDuring
from lightning_gpuprof.analysis.compare.change import Change
from lightning_gpuprof.analysis.compare.compare import Comparison
from lightning_gpuprof.analysis.compare.traced_changes import TracedChange
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.trace.kernel_category import kernel_name
from lightning_gpuprof.records.facts import Capture, CaptureReason, SlowDown, SlowDownShape
from lightning_gpuprof.report.change_tables import (
    ONLY_COLUMN,
    ChangeType,
    change_columns,
    large_changes,
    only_cells,
)
from lightning_gpuprof.report.document import (
    Column,
    Place,
    Quantity,
    Section,
    Table,
    Text,
    Value,
)
from lightning_gpuprof.report.finding_cards import labelled
from lightning_gpuprof.report.labels import phase_label
from lightning_gpuprof.report.phase_tables import (
    NOISE_COLUMN,
    noise_cells,
    ordered_phases,
)
from lightning_gpuprof.report.run.places import place_of_line
from lightning_gpuprof.units import duration

MOST_ROWS = 12
MOST_FRAC = 100.0
"""No relative change is shown of what took next to nothing before."""
SHAPES = {
    SlowDownShape.STEP: "all steps",
    SlowDownShape.RAMP: "more and more",
    SlowDownShape.SPIKES: "single steps",
}
REASONS = {CaptureReason.SLOW_DOWN: "a slow-down", CaptureReason.REQUEST: "a request"}


def slow_downs_section(run: RunResults) -> Section | None:
    """Return the slow-downs that were noticed while training ran; None if there were none."""
    if not run.slow_downs:
        return None
    rows: tuple[dict[str, Value], ...] = tuple(
        {
            "since_step": slow_down.since_step,
            "until_step": slow_down.until_step,
            "shape": SHAPES[slow_down.shape],
            "phase": None if slow_down.phase is None else Place(phase=slow_down.phase),
            "before_ns": slow_down.before_ns,
            "during_ns": slow_down.during_ns,
            "diff_ns": slow_down.more_ns,
            "pattern": pattern(slow_down),
            "noticed_step": slow_down.noticed_step,
        }
        for slow_down in run.slow_downs
    )
    columns = (
        Column("since_step", "Since step", "count"),
        Column("until_step", "Until", "count", note="empty while it lasts"),
        Column("shape", "Longer are", "text"),
        Column("phase", "In", "place"),
        Column("before_ns", "A step before", "ns"),
        Column("during_ns", "Since then", "ns"),
        Column("diff_ns", "More", "ns", bar=True, difference=True),
        Column("pattern", "How", "text"),
        Column("noticed_step", "Noticed at", "count", detail="verbose"),
    )
    table = Table("slow_downs", columns, rows, opens="steps")
    return Section("slow_downs", "Slow-downs", "page", (table,))


def pattern(slow_down: SlowDown) -> str | None:
    """Say how a slow-down goes on: by how much per step, or at which distances; None if at once."""
    if slow_down.per_100_steps_ns is not None:
        return f"{duration(slow_down.per_100_steps_ns)} more every 100 steps"
    if slow_down.every_steps is None:
        return None
    height = "" if slow_down.height_ns is None else f", {duration(slow_down.height_ns)}"
    return f"every {slow_down.every_steps:,} steps{height}"


def captures_section(run: RunResults) -> Section | None:
    """Return what was captured while training ran; None if nothing was."""
    if not run.captures:
        return None
    columns = (
        Column("number", "Capture", "count"),
        Column("why", "Because of", "text"),
        Column("step", "At step", "count"),
        Column("first_step", "From", "count"),
        Column("last_step", "To", "count"),
        Column("samples", "Samples", "count", note="of the training thread"),
        Column("worker_samples", "Of workers", "count"),
        Column("file", "Trace", "code"),
        Column("problem", "No trace because", "text"),
    )
    rows = tuple(_capture_row(capture) for capture in run.captures)
    table = Table("captures", columns, rows)
    return Section("captures", "Captures", "page", (table,))


def _capture_row(capture: Capture) -> dict[str, Value]:
    row: dict[str, Value] = {
        "number": capture.number,
        "why": REASONS[capture.why],
        "step": capture.step,
        "first_step": capture.first_step,
        "last_step": capture.last_step,
        "samples": capture.samples or None,
        "worker_samples": capture.worker_samples or None,
        "file": capture.trace_file or None,
        "problem": capture.problem or None,
    }
    if capture.trace_file:
        row |= {"view": "timeline", "trace": capture.trace_file}
    return row


def before_during_section(compared: BeforeDuring | None, run: str) -> Section | None:
    """Return what differs between the steps before a slow-down and during it.

    Args:
        compared: The slow-down that has cost most; None if there is none.
        run: The run's log dir.
    """
    if compared is None:
        return None
    before, during = compared.before, compared.during
    assert before.span is not None
    assert during.span is not None
    result = compared.result
    tables = [
        *_steps(result),
        *_phases(result),
        *_lines(result),
        *_traced("operators", "Operator", result.operators, result),
        *_traced("kernels", "Kernel", result.kernels, result),
        *_circumstances(compared),
    ]
    sides = [shlex.quote(f"{run}@{results.span}") for results in (before, during)]
    command = Text((f"lightning-gpuprof compare {' '.join(sides)}",), "command")
    note = f"{before.span.label} against {during.span.label}, means per step"
    return Section(
        "before_during", "Before and during the slow-down", "verbose", (*tables, command), note=note
    )


def _columns(name: Column) -> tuple[Column, ...]:
    before, during = Column("before_ns", "Before", "ns"), Column("during_ns", "During", "ns")
    return change_columns(name, before, during, "diff_ns")


def _times(change: Change) -> dict[str, Value]:
    frac = change.diff_frac
    return {
        "before_ns": change.base,
        "during_ns": change.new,
        "diff_ns": change.shift,
        "diff_frac": None if frac is None or frac > MOST_FRAC else frac,
    }


def _steps(result: Comparison) -> Iterator[Table]:
    steps = {
        "mean step": result.steps.mean_ns,
        "median step": result.steps.p50_ns,
        "95th percentile": result.steps.p95_ns,
        "slowest step": result.steps.max_ns,
    }
    rows = tuple({"label": label, **_times(change)} for label, change in steps.items())
    yield Table("before_during_steps", _columns(Column("label", "Step", "text")), rows)


def _phases(result: Comparison) -> Iterator[Table]:
    """Yield the phases that changed, the largest change first, with their named parts."""
    rows: list[dict[str, Value]] = []
    for phase in _changed(ordered_phases(result), result):
        label = phase_label(phase.name)
        rows.append({"id": phase.name, "label": label, **_times(phase), **noise_cells(phase)})
        rows += [
            {"id": part.name, "label": part.part, "level": 1, **_times(part), **noise_cells(part)}
            for part in _changed(result.parts, result)
            if part.name == phase.name
        ]
    columns = (*_columns(Column("label", "Phase", "text")), NOISE_COLUMN)
    yield Table("before_during_phases", columns, tuple(rows), color="id")


def _lines(result: Comparison) -> Iterator[Table]:
    rows: tuple[dict[str, Value], ...] = tuple(
        {
            "place": place_of_line(change.line),
            "phase": Place(phase=change.name),
            **_times(change),
        }
        for change in _changed([change for change in result.lines if change.sure], result)
    )
    if rows:
        name = Column("place", "Line", "place", keep_end=True)
        columns = (name, Column("phase", "In", "place"), *_columns(name)[1:])
        note = "sampled on the host before and during the slow-down, beyond chance"
        yield Table("before_during_lines", columns, rows, color="phase", note=note)


def _traced(
    id: str, label: str, changes: Sequence[TracedChange], result: Comparison
) -> Iterator[Table]:
    rows: tuple[dict[str, Value], ...] = tuple(
        {
            "name": kernel_name(change.name) if id == "kernels" else change.name,
            **_times(change),
            **only_cells(change),
        }
        for change in _changed(changes, result)
    )
    if rows and result.traced_steps is not None:
        before, during = result.traced_steps
        note = f"in the profiled steps, {before} before and {during} during"
        columns = (*_columns(Column("name", label, "code")), ONLY_COLUMN)
        yield Table(f"before_during_{id}", columns, rows, note=note)


def _changed(changes: Sequence[ChangeType], result: Comparison) -> list[ChangeType]:
    """Return the changes that are large enough to be looked at, or else the largest."""
    return (large_changes(changes, result) or list(changes[:1]))[:MOST_ROWS]


def _circumstances(compared: BeforeDuring) -> Iterator[Table]:
    before, during = compared.before.circumstances, compared.during.circumstances
    rows = []
    for key in [key for key in before if key in during]:
        label, unit = labelled(key)
        change = Change(key, before[key], during[key])
        row: dict[str, Value] = {
            "id": key,
            "label": label,
            "before": Quantity(change.base, unit),
            "during": Quantity(change.new, unit),
            "diff_frac": change.diff_frac,
        }
        rows.append(row)
    if rows:
        columns = (
            Column("label", "Else", "text"),
            Column("before", "Before", "number"),
            Column("during", "During", "number"),
            Column("diff_frac", "Change", "change_frac"),
        )
        yield Table("before_during_circumstances", columns, tuple(rows))
