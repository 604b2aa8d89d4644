"""Wording and rows that the console report and its Markdown share."""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import nlargest

from lightning_gpuprof.analysis.compare.bootstrap import MIN_BLOCKS
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.trace.kernel_category import kernel_name
from lightning_gpuprof.findings.engine import MIN_SAVING_FRAC, step_of
from lightning_gpuprof.findings.model import Finding, Place, When
from lightning_gpuprof.findings.questions import answer_questions, first_to_look_at
from lightning_gpuprof.records.schema import UNMARKED_STEPS
from lightning_gpuprof.units import duration, interval_text, percent, shortened
from lightning_gpuprof.views.documents.gpu_words import limit_line, verdict
from lightning_gpuprof.views.documents.report import Report

MOST_IN_FULL = 6
"""Findings after these are titles alone: the first ones are worth the time."""
NAME_WIDTH = 52
MIN_COMPILING_FRAC = 0.1
"""From this share of the run on, the time of torch.compile is shown."""
DOING = {"validate": "validation", "test": "testing", "predict": "prediction"}
"""Stages that train nothing."""


def headline(report: Report) -> str:
    """Say of a session in one line what `session_line` and the limit say."""
    limit = limit_line(report.results)
    return session_line(report) + (f". {limit}" if limit else "")


def session_line(report: Report) -> str:
    """Say what kind of session this is, how it ended and how long it is."""
    results = report.results
    status = {"open": "no closing record: live, or killed"}.get(results.status, results.status)
    ranks = f", {results.start.world_size} ranks" if results.start.world_size > 1 else ""
    session = f", session {results.start.session}" if len(results.sessions) > 1 else ""
    count = results.steps.count if results.steps else 0
    steps = "1 step" if count == 1 else f"{count} steps"
    if results.end is not None and any(kind.where == UNMARKED_STEPS for kind in results.outside):
        steps = f"{results.end.steps} steps ({count} timed by phase)"
    return (
        f"{results.start.stage}{session}, {status}{ranks}, "
        f"{steps} in {duration(results.wall.wall_ns)}"
    )


def the_one(report: Report) -> Finding | None:
    """Return the finding whose change is proposed at the end, where there is one."""
    steps, first = report.results.steps, next(iter(report.findings), None)
    warm_up = steps is not None and steps.basis == "all"
    if first is None or warm_up or not report.results.step_ns or not first.worth_a_change:
        return None
    return first


def no_change(report: Report) -> tuple[str, str] | None:
    """Say, as a title and a sentence, why no change is proposed; None where one is."""
    step_ns = report.results.step_ns
    if not step_ns:
        return None
    doing = DOING.get(report.results.start.stage)
    again = " to judge." if doing else ": train longer and look again."
    too_short = "Too short to say what to change"
    if report.results.steps is not None and report.results.steps.basis == "all":
        return too_short, f"Only warm-up steps were recorded, too few{again}"
    if the_one(report) is not None:
        return None
    count = report.results.steps.dur.count if report.results.steps else 0
    if count < MIN_BLOCKS:
        steps = "1 steady step is" if count == 1 else f"{count} steady steps are"
        return too_short, f"{steps} too few{again}"
    said = verdict(report.results)
    if said is not None:
        return said[0], f"{said[1]}{_sure(report, step_ns)}"
    small = f"What is found here is small, usual, or not sure to save time.{_sure(report, step_ns)}"
    first = first_to_look_at(answer_questions(report.results, report.findings, report.abstained))
    look = f" Where to look next: {first.next}." if first else ""
    return f"Nothing here holds {doing or 'training'} back much", small + look


def _sure(report: Report, step_ns: int) -> str:
    sure = [f for f in report.findings if f.saving_ns.low >= MIN_SAVING_FRAC * step_ns]
    if not sure:
        return ""
    low, high = sure[0].saving_ns.low / step_ns, sure[0].saving_ns.high / step_ns
    return f" The largest sure gain is {sure[0].id} ({percent(low)} to {percent(high)})."


def saving(finding: Finding, run: RunResults) -> str:
    """Say what a finding saves, and how sure that is."""
    range_ns = finding.saving_ns
    if range_ns.high == 0:
        tried = f"measured ({finding.measured}): it saves nothing"
        return tried if finding.measured else "no time is claimed as saved"
    share = more = ""
    if step_ns := step_of(finding, run):
        of = "" if finding.when is When.IN_STEPS else " of the run"
        least = f"{percent(range_ns.low / step_ns)} to " if range_ns.low else ""
        share = f" ({least}{percent(range_ns.high / step_ns)}{of})"
        if finding.indirect_ns >= MIN_SAVING_FRAC * step_ns and not finding.measured:
            more = f", indirectly up to {duration(finding.indirect_ns)} more"
    saved = interval_text(range_ns.low, range_ns.high)
    return f"saves {saved} per step{share}{more}, {sureness(finding)}"


def sureness(one: Finding) -> str:
    """Say how sure a saving is."""
    return f"measured ({one.measured})" if one.measured else f"confidence {one.confidence:.0%}"


def step_lines(results: RunResults) -> Iterator[str]:
    """Yield the step's time and its spread, and what was left out of it."""
    steps = results.steps
    assert steps is not None
    dur = steps.dur
    rate = f", {results.samples_per_s:,.0f} samples/s" if results.samples_per_s else ""
    yield (
        f"mean {duration(dur.mean_ns)}, median {duration(dur.p50_ns)}, p95 {duration(dur.p95_ns)}, "
        f"p99 {duration(dur.p99_ns)}, max {duration(dur.max_ns)}{rate}"
    )
    step = "step" if dur.count == 1 else "steps"
    basis = {"steady": f"steady {step}", "measured": f"{step}, the profiler on in some of them"}
    apart = [
        f"; {one.count} {one.reason} (median {duration(one.median_ns)})" for one in steps.apart
    ]
    yield f"over {dur.count} {basis.get(steps.basis, f'{step}, warm-up too')}{''.join(apart)}"
    compiling, wall = results.compiled.time, results.wall
    if compiling is not None and compiling.whole_ns >= MIN_COMPILING_FRAC * wall.wall_ns:
        took = duration(compiling.whole_ns)
        yield f"torch.compile took {took} of the run's {duration(wall.wall_ns)}"
    if (time := results.device.time) is not None:
        states = sorted(time.state_frac.items(), key=lambda item: -item[1])
        named = [f"{state.value.replace('_', '-')} {percent(n)}" for state, n in states if n]
        yield f"steps by state: {', '.join(named)}"
    if results.by_device:
        yield (
            f"the device takes {duration(results.step_ns or 0)} per step and is behind the host "
            "until an epoch's end: savings and samples are by that"
        )


def place(where: Place) -> str:
    """Return a place as text; a bare phase says nothing that the title does not."""
    source = f" `{where.source}`" if where.file is not None and where.source else ""
    return f"{place_name(where)}{source}"


def place_name(where: Place) -> str:
    """Return a place without its source: `file:line`, or a kernel, a name, a rank."""
    if where.file is not None:
        return where.file if where.line is None else f"{where.file}:{where.line}"
    kernel = kernel_name(where.kernel or "")
    if len(kernel) > NAME_WIDTH:
        kernel = shortened(kernel.partition("<")[0], NAME_WIDTH)
    names = [name for name in (kernel, where.name) if name]
    if where.rank is not None:
        names.append(f"rank {where.rank}")
    return " ".join(names)


def of_which_steps(report: Report) -> str:
    """Say of which steps the phases' times are means."""
    steps = report.results.steps
    warm_up = steps is not None and steps.basis == "all"
    return "mean per step, warm-up too" if warm_up else "mean per steady step"


def no_steps(report: Report) -> str:
    """Say why there is nothing to break down."""
    start = report.results.start
    if start.timer or report.results.status == "exception":
        step = "batch" if start.stage in DOING else "training step"
        return f"No {step} was recorded in this session: nothing to break down."
    return "Steps were not timed: neither GpuProfCallback nor PhaseTimer was among the callbacks."


MIN_PART_FRAC = 0.005
"""Parts below this share of the step are left out, and short phases are one row."""


@dataclass(frozen=True)
class PhaseRow:
    """A phase, a named part of the one above it, or all short ones together."""

    name: str
    mean_ns: int
    frac: float
    device_ns: int | None = None
    part: bool = False
    of_phase: bool = True


def phase_rows(
    results: RunResults, *, verbose: bool = False, most: int | None = None
) -> Iterator[PhaseRow]:
    """Yield the phases of a step, and after each its named parts; of `most` rows the largest.

    Unless verbose, the phases that are short on the host and on the device are one row, so that
    all still add up to the step.
    """
    marks = results.device.time.phases if results.device.time else {}
    every = {phase: stats.per_step for phase, stats in results.phases.items()}
    measured = {phase: one for phase, one in every.items() if one is not None and one.mean_ns}
    larger = {
        phase: max(one.frac, marks[phase].frac if phase in marks else 0.0)
        for phase, one in measured.items()
    }
    shown = [phase for phase in measured if verbose or larger[phase] >= MIN_PART_FRAC]
    parts = {
        (phase, part.name): part.per_step
        for phase in shown
        for part in results.parts_of(phase)
        if part.per_step is not None and part.per_step.frac >= MIN_PART_FRAC
    }
    if most is not None and len(shown) + len(parts) >= most:
        shown = nlargest(most - 1, shown, key=lambda phase: larger[phase])
        own = [key for key in parts if key[0] in shown]
        own = nlargest(most - 1 - len(shown), own, lambda key: parts[key].frac)
        parts = {key: parts[key] for key in own}
    for phase, one in measured.items():
        if phase not in shown:
            continue
        mark = marks.get(phase)
        yield PhaseRow(phase.value, one.mean_ns, one.frac, mark.mean_ns if mark else None)
        for (of, name), share in parts.items():
            if of is phase:
                yield PhaseRow(name, share.mean_ns, share.frac, part=True, of_phase=False)
    short = {phase: one for phase, one in measured.items() if phase not in shown}
    if short:
        marked = [marks[phase].mean_ns for phase in short if phase in marks]
        yield PhaseRow(
            f"{len(short)} smaller one{'' if len(short) == 1 else 's'}",
            sum(one.mean_ns for one in short.values()),
            sum(one.frac for one in short.values()),
            sum(marked) if marked else None,
            of_phase=False,
        )
