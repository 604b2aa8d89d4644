"""Comparisons of runs as blocks, for a terminal, a pull request or a CI job's summary."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lightning_gpuprof.analysis.compare.compare import Change, Verdict
from lightning_gpuprof.analysis.trace.kernel_category import kernel_name
from lightning_gpuprof.units import duration, percent, quantity, rate, shortened
from lightning_gpuprof.views.documents.compare import RunComparison, SeveralComparison, changed
from lightning_gpuprof.views.documents.report import Report
from lightning_gpuprof.views.text.blocks import Block, Items, Lead, Table
from lightning_gpuprof.views.text.trace import BEFORE_AFTER, before_after_cells

TOP = 8
NAME_WIDTH = 40
DISTURBED = 0.05
"""A run whose training thread waited this share of its time for a core says so."""
NO_VALUES = "no step has a recorded loss in both runs: whether they compute the same is unknown"
COLUMNS = ("median step", "samples/s", "peak memory", "findings", "losses", "changed most")


def comparison_blocks(found: RunComparison) -> Iterator[Block]:
    """Yield the comparison of two runs, its sentence first."""
    result = found.result
    sure = result.verdict in (Verdict.FASTER, Verdict.SLOWER) and not result.other_model
    yield Lead(f"{'The new run is' if sure else 'Result:'} {found.sentence}.", bold=True)
    base, new = counted(found.base, result.base_steps), counted(found.new, result.new_steps)
    yield Items((f"base: {found.base.run} ({base})", f"new: {found.new.run} ({new})"))
    yield from notes(found)
    if figures := [before_after_cells(one) for one in found.before_after]:
        yield Table("Before and after", BEFORE_AFTER, figures)
    unit = "per sample" if result.per_sample else "per step"
    clock = ", host clock" if any(result.by_device) else ""
    phases = changed(result.phases, found.least_ns)
    yield from _changes(f"Step time, {unit}", result.steps)
    yield from _changes(f"Phases that changed, mean {unit}{clock}", phases, unit="_ns")
    between = changed(result.between, found.least_ns)
    yield from _changes(f"Between epochs, mean {unit}", between, unit="_ns")
    yield from _traced("operators", result.operators, found)
    kernels = [replace(row, name=kernel_name(row.name)) for row in result.kernels]
    yield from _traced("kernels", kernels, found)
    yield from _changes("Memory", result.memory or ())
    for title, findings in (("Findings gone", found.gone), ("Findings new", found.appeared)):
        if rows := [f"[{one.severity.value}] {one.id}: {one.title}" for one in findings]:
            yield Items(rows, title)
    yield Items(list(_values(found)) or [NO_VALUES], f"Values, within {found.tolerance:g}")


def several_blocks(found: SeveralComparison) -> Iterator[Block]:
    """Yield how many runs are faster, the table of all, and the notes on each."""
    yield Lead(found.sentence, bold=True)
    steps = found.comparisons[0].result.base_steps
    runs = [f"base: {found.base.run} ({counted(found.base, steps)})"]
    for number, one in enumerate(found.comparisons, start=1):
        count = counted(one.new, one.result.new_steps)
        runs.append(f"{number}: {one.new.run} ({count}), {one.sentence}")
    yield Items(runs)
    rows = [(str(number or "base"), *_cells(row)) for number, row in enumerate(found.rows)]
    yield Table("Run", COLUMNS, rows, left=(0, 6))
    for number, one in enumerate(found.comparisons, start=1):
        for block in notes(one):
            yield replace(block, title=f"Run {number}")
    command = ("lightning-gpuprof", "compare", found.base.run, found.comparisons[0].new.run)
    yield Lead(f"All figures of one of them: {shlex.join(command)}")


def counted(report: Report, count: int) -> str:
    """Say how many steps a side has, and of what kind: in a short run all may be warm-up."""
    steps = report.results.steps
    kind = {"steady": "steady ", "all": "warm-up "}.get(steps.basis if steps else "", "")
    return f"{count} {kind}step{'' if count == 1 else 's'}"


def notes(found: RunComparison) -> Iterator[Items]:
    """Yield what to know before the figures are believed, and the settings that changed."""
    if said := list(_warnings(found)):
        yield Items(said, mark="!")
    settings = [one for one in found.result.differs if one.kind == "settings"]
    if settings:
        said = [f"{one.name} {one.base} -> {one.new}" for one in settings]
        yield Items([f"changed: {', '.join(said)}"])


def _warnings(found: RunComparison) -> Iterator[str]:
    result = found.result
    if found.base.run == found.new.run:
        yield "both are the same run"
    sides = {"base": found.base, "new": found.new}
    if result.per_sample:
        sizes = [report.results.batch_size for report in sides.values()]
        yield f"batch sizes differ ({sizes[0]:.4g} and {sizes[1]:.4g}): times are per sample"
    for side, by_device in zip(sides, result.by_device, strict=True):
        if by_device:
            yield f"{side}: the host ran ahead, so its steps are timed by the device"
    for side, report in sides.items():
        wait = report.results.facts.core_wait
        if wait is not None and wait.frac >= DISTURBED:
            yield f"{side}: training waited {percent(wait.frac)} of its time for a free core"
    if result.other_model:
        yield "the models differ: unless your change did that, the times say nothing about it"
    for one in result.differs:
        if one.kind in ("machine", "versions"):
            yield f"another {one.name}: {one.base} and {one.new}; the difference may be due to it"


def _changes(title: str, rows: Sequence[Change], *, unit: str = "") -> Iterator[Block]:
    cells = [
        (
            shortened(row.name.removesuffix("_ns").removesuffix("_bytes"), NAME_WIDTH),
            _shown(unit or row.name, row.base),
            _shown(unit or row.name, row.new),
            f"{row.diff_frac * 100:+.1f}%" if row.diff_frac is not None else "",
        )
        for row in rows
        if row.base is not None or row.new is not None
    ]
    if cells:
        yield Table(title, ("base", "new", "change"), cells)


def _traced(title: str, rows: Sequence[Change], found: RunComparison) -> Iterator[Block]:
    """Yield figures of a few profiled steps only, and say so."""
    result = found.result
    if result.traced_steps is None:
        return
    steps = " and ".join(str(count) for count in result.traced_steps)
    per = "sample" if result.per_sample else "step"
    whole = f"{title.capitalize()}, own time per {per} of {steps} profiled steps"
    yield from _changes(whole, changed(rows, found.least_ns)[:TOP], unit="_ns")


def _values(found: RunComparison) -> Iterator[str]:
    """Say of each recorded value whether both runs have the same."""
    for one in found.result.values:
        if not one.count:
            continue
        state = f"differs from step {one.first_step} on (at most {one.max_diff:.2g})"
        if one.same:
            state = f"the same in {one.count} steps (largest difference {one.max_diff:.2g})"
        ends = ["none" if end is None else f"{end:.6g}" for end in (one.last_base, one.last_new)]
        yield f"{one.name}: {state}; last {' and '.join(ends)}"


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    pace = "-" if row["samples_per_s"] is None else rate(row["samples_per_s"])
    own = _shown("_ns", row["median_ns"]), pace, _shown("_bytes", row["peak_reserved_bytes"])
    if row["sentence"] is None:
        return (*own, "", "", "")
    phase, name, diff_ns = "-", row["phase"], row["phase_diff_ns"]
    if name is not None:
        phase = f"{name} {'+' if diff_ns > 0 else ''}{duration(diff_ns)}"
    gone, new = row["findings_gone"], row["findings_new"]
    values = {None: "not compared", True: "same", False: "differ"}[row["values_same"]]
    return (*own, f"{gone} gone, {new} new", values, phase)


def _shown(key: str, value: float | None) -> str:
    return "-" if value is None else quantity(key, value)
