"""The tables of the console report."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lightning_gpuprof.analysis.run.line_times import SampledLine, line_times, unlisted_ns
from lightning_gpuprof.analysis.run.module_times import module_times
from lightning_gpuprof.analysis.run.run_results import RunResults, TraceView
from lightning_gpuprof.analysis.run.worker_lines import worker_line_times
from lightning_gpuprof.analysis.trace.kernel_category import kernel_name
from lightning_gpuprof.findings.engine import make_plan
from lightning_gpuprof.findings.questions import State, answer_questions
from lightning_gpuprof.units import (
    duration,
    interval_text,
    percent,
    percents,
    quantity,
    shortened,
    size,
)
from lightning_gpuprof.views.documents.gpu_words import kernel_facts
from lightning_gpuprof.views.documents.report import Report
from lightning_gpuprof.views.documents.report_payload import top_operators
from lightning_gpuprof.views.documents.report_words import MIN_PART_FRAC, phase_rows
from lightning_gpuprof.views.text.trace import HEADS, cell

BAR_WIDTH = 40
MOST_LINES = 5
BRIEF_ROWS = 8
LEAST_WIDTH = 78
"""Columns of a narrow terminal, without the indent."""
_HOST_WIDTH, _DEVICE_WIDTH = 42, 60
"""Columns beside the bars of phases."""
MIN_WORKER_FRAC = 0.02
_LINE_WIDTH, _LEAST_SOURCE = 52, 20
"""Of a place in the program and its source, so that they mostly fit into one line of the table."""
_ANSWERS = {
    State.OK: ("ok", ""),
    State.LOOK: ("look", "Next:"),
    State.NOT_MEASURED: ("-", "Not measured:"),
}
_MODULE_TIMES = tuple(
    "calls_per_step forward_ns backward_ns device_forward_ns device_backward_ns".split()
)
MOST_KERNELS = 20
Titled = tuple[str, Padding]


def grid(
    rows: Iterable[Sequence[str | Text]],
    *,
    right: Sequence[int] = (),
    head: Sequence[str] = (),
    first: str = "",
    indent: int = 2,
) -> Padding:
    """Return a table, whose last column is wrapped where it is too long; `first` is a style."""
    rows = [*([[Text(one, style="dim") for one in head]] if head else []), *rows]
    table = Table.grid(padding=(0, 2))
    for column in range(len(rows[0]) if rows else 0):
        table.add_column(
            justify="right" if column in right else "left",
            no_wrap=column < len(rows[0]) - 1,
            overflow="fold",
            style=first if column == 0 else "",
        )
    for row in rows:
        # As Text: names, lines and paths hold brackets, which a str would lose as markup.
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return Padding(table, (0, 0, 0, indent))


def tables(report: Report, *, verbose: bool) -> Iterator[Titled]:
    """Yield the tables of lines, workers, modules, operators, kernels; with `verbose` all."""
    results = report.results
    if (lines := line_table(results)) is not None:
        rest = unlisted_ns(results)
        others = "" if rest is None else f"; other lines take up to {duration(rest)} each"
        yield f"AT WHICH LINES (sampled on the host in the first seconds{others})", lines
    if (workers := worker_table(results)) is not None:
        yield workers
    yield from module_tables(results)
    for trace in results.traces:
        if trace.rank == results.start.rank and trace.analysis is not None:
            yield from _trace_tables(trace, None if verbose else BRIEF_ROWS)
    if verbose:
        yield from verbose_tables(report)


def phase_table(results: RunResults, *, bar: str, most: int | None, width: int) -> Padding:
    """Return the phases of a step with bars; of `most` rows the largest, None for all."""
    rows = list(phase_rows(results, verbose=most is None, most=most))
    device = any(row.device_ns is not None for row in rows)
    bar *= max(1, min(BAR_WIDTH, width - (_DEVICE_WIDTH if device else _HOST_WIDTH)))
    cells: list[Sequence[str | Text]] = []
    for row in rows:
        style = "" if row.of_phase else "dim"
        own = ("  " * row.part + row.name, duration(row.mean_ns), percent(row.frac))
        marked = "" if row.device_ns is None else duration(row.device_ns)
        shown = Text(bar[: round(row.frac * len(bar)) * row.of_phase], style="blue")
        texts = [Text(one, style=style) for one in own]
        cells.append((*texts, *([marked] if device else []), shown))
    head = ("", "host", "", "device, idle too", "") if device else ()
    return grid(cells, right=(1, 2, 3) if device else (1, 2), head=head)


def line_table(results: RunResults) -> Padding | None:
    """Return the lines of the program at which a step is longest; None where none were sampled."""
    rows = [
        (interval_text(one.low_ns, one.high_ns), *_at(one, one.phase.value))
        for one in line_times(results)
        if one.frac >= MIN_PART_FRAC
    ]
    head = ("of a step", "", "in", "line")
    return grid(rows[:MOST_LINES], right=(0, 1), head=head) if rows else None


def module_tables(results: RunResults) -> Iterator[Titled]:
    """Yield the modules that were named, and those whose calls could be one."""
    modules = module_times(results)
    figures = [asdict(module) for module in modules]
    keys = [key for key in _MODULE_TIMES if any(row[key] is not None for row in figures)]
    rows = [(*(cell(key, row[key]) for key in keys), row["name"]) for row in figures]
    if rows:
        head = (*(key.removesuffix("_ns").replace("_", " ") for key in keys), "")
        yield "MODULES (own time, mean per step)", grid(rows, right=range(len(keys)), head=head)
    if loops := [(module.name, module.advice) for module in modules if module.advice]:
        yield "MODULES CALLED IN A LOOP", grid(loops)


def worker_table(results: RunResults) -> Titled | None:
    """Return the lines at which worker processes were sampled, with a title; None where none."""
    rows = [
        ("" if one.batch_ns is None else duration(one.batch_ns), *_at(one))
        for one in worker_line_times(results)
        if one.frac >= MIN_WORKER_FRAC
    ]
    workers = results.loader.workers
    if not rows or workers is None:
        return None
    processes = f"{workers.processes} worker process{'es' * (workers.processes != 1)}"
    title = (
        f"IN THE LOADER'S WORKERS ({workers.whole} samples in {processes}, waiting for work in "
        f"{percent(workers.waiting_frac)})"
    )
    return title, grid(rows[:MOST_LINES], right=(0, 1), head=("of a batch", "", "line"))


def _trace_tables(trace: TraceView, most: int | None) -> Iterator[Titled]:
    """Yield the top operators and kernels of an analysed trace, by time on the device if any."""
    cycle, document = trace.cycle, trace.analysis or {}
    steps = f"CYCLE {cycle.cycle} (sums over steps {cycle.first_step} to {cycle.last_step}"
    operators, kernels = top_operators(trace), document.get("kernels") or ()
    named = [{**row, "name": kernel_name(row["name"])} for row in kernels[:MOST_KERNELS]]
    device = any(row.get("device_self_ns") for row in operators)
    occupancy = ("occupancy_frac",) * any(row.get("occupancy_frac") is not None for row in kernels)
    own = (*(("device_self_ns",) * device), "self_ns", "total_ns", "count")
    by = f"TOP OPERATORS, {steps}, by {'device ' * device}self time)"
    facts = f"TOP KERNELS, {steps})\n{', '.join(kernel_facts(document))}"
    for title, rows, columns in (
        (by, operators, own),
        (facts, named, ("total_ns", "frac", "count", *occupancy)),
    ):
        name_width = LEAST_WIDTH - 11 * len(columns)
        cells = [
            (*(cell(key, row.get(key)) for key in columns), shortened(row["name"], name_width))
            for row in rows[:most]
        ]
        if cells:
            head = (*(HEADS[key] for key in columns), "")
            yield title, grid(cells, right=range(len(columns)), head=head)


def verbose_tables(report: Report) -> Iterator[Titled]:
    """Yield what only --verbose shows."""
    steps = []
    for slow in report.results.variation.slowest:
        inside = f" ({slow.part} {duration(slow.part_excess_ns or 0)})" if slow.part else ""
        why = f"{slow.phase.value} +{duration(slow.phase_excess_ns or 0)}" if slow.phase else ""
        flags = Text(" ".join(slow.flags))
        steps.append((f"step {slow.step}", duration(slow.dur_ns), Text(why + inside), flags))
    yield "SLOWEST STEPS", grid(steps)
    if (memory := report.results.memory.use) is not None and memory.allocator_bytes:
        found = memory.allocator_bytes
        head = ("", *(pool.replace("_", " ") for pool in next(iter(found.values()))))
        rows = [(name.replace("_", " "), *map(size, of.values())) for name, of in found.items()]
        title = (
            f"THE ALLOCATOR (fragmentation {percent(memory.fragmented_frac or 0.0)}, "
            f"{memory.alloc_retries} retries, {memory.ooms} times out of memory)"
        )
        yield title, grid(rows, right=(1, 2, 3), head=head)
    if report.findings:
        yield "PLAN", _plan(report)
    yield "QUESTIONS", _questions(report)
    on_gpu = report.results.on_gpu
    abstained = [one for one in report.abstained if on_gpu or "device memory" not in one.reason]
    rules = [(one.id, f"says nothing: {one.reason}") for one in abstained]
    rules += [(rule, "found nothing worth a change") for rule in report.silent]
    yield "RULES WITHOUT A FINDING", grid(rules)


def _plan(report: Report) -> Padding:
    rows = []
    for finding, effort in make_plan(report.findings):
        saved = finding.saving_ns
        impact = interval_text(saved.low, saved.high) if saved.high else "no time claimed"
        how = f"{effort.difficulty}; {effort.risk}"
        rows.append((effort.horizon.value, finding.id, impact, how))
    head = ("when", "finding", "impact per step", "difficulty; risk")
    return grid(rows, right=(2,), head=head, first="dim")


def _questions(report: Report) -> Padding:
    rows = []
    for answer in answer_questions(report.results, report.findings, report.abstained):
        if answer.view == "memory" and not report.results.on_gpu:
            continue
        value = "" if answer.value is None else quantity(answer.figure, answer.value)
        mark, lead = _ANSWERS[answer.state]
        rows.append((mark, value, f"{answer.question}{lead and f' {lead} {answer.next}.'}"))
    return grid(rows, right=(1,))


def _at(one: SampledLine, *more: str) -> tuple[str | Text, ...]:
    name = f"{one.file}:{one.line}"
    shown = shortened(one.source, max(_LEAST_SOURCE, _LINE_WIDTH - len(name)))
    source = Text(f" `{shown}`" if one.source else "", style="dim")
    return percents(one.low_frac, one.high_frac), *more, Text.assemble(name, source)
