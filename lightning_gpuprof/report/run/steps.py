"""Where a step's time goes, how it varies, which steps were slow, and what lay outside steps."""

from collections.abc import Iterator

from lightning_gpuprof.analysis.run.phase_split import Part, PerStep
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.report.document import (
    Bar,
    Bars,
    Chart,
    Column,
    Figure,
    Figures,
    Place,
    Section,
    Table,
    Text,
    Value,
)
from lightning_gpuprof.report.labels import PHASES, flag_label, phase_label
from lightning_gpuprof.report.run.answer import BASES
from lightning_gpuprof.units import duration, percent

MIN_PART_FRAC = 0.005
"""Named parts below this share of the step are shown only in the table of all parts."""
MIN_COMPILING_FRAC = 0.1
"""The time of torch.compile is shown if it is at least this share of the run."""
DEVICE_LABEL = "Device, including idle"
OUTSIDE_LABELS = {"unmarked_steps": "steps timed without phases"}


def phases_section(run: RunResults) -> Section | None:
    """Return the phases of a step with their named parts; None if no step was recorded."""
    bars = tuple(_bars(run))
    if run.steps is None or not bars:
        return None
    warm_up = run.steps.basis == "all"
    mean = "mean per step, including warm-up" if warm_up else "mean per steady step"
    device = any(bar.device_value is not None for bar in bars)
    part = Bars(
        "phases",
        "ns",
        bars,
        value_label="Host" if device else "Mean",
        device_label=DEVICE_LABEL if device else None,
    )
    note = f"{mean}, host clock: {duration(run.steps.dur.mean_ns)}"
    return Section("phases", "Where a step goes", "first", (part,), note=note)


def _bars(run: RunResults) -> Iterator[Bar]:
    marks = run.device.time.phases if run.device.time else {}
    for phase, stats in run.phases.items():
        time = stats.per_step
        if time is None or not time.mean_ns:
            continue
        mark = marks.get(phase)
        yield Bar(
            phase.value,
            phase_label(phase.value),
            time.mean_ns,
            time.frac,
            device_value=None if mark is None else mark.mean_ns,
            note=PHASES[phase.value][1] if phase.value in PHASES else None,
        )
        yield from _part_bars(run, phase)


def _part_bars(run: RunResults, phase: Phase) -> Iterator[Bar]:
    """Yield the named parts of a phase that matter on the host or were measured on the device."""
    host = {part.name: part.per_step for part in run.parts_of(phase)}
    marked = run.device.time.parts if run.device.time else ()
    device = {part.name: part.mean_ns for part in marked if part.phase is phase}
    names = [
        name
        for name in dict.fromkeys((*host, *device))
        if device.get(name) or _frac(host.get(name)) >= MIN_PART_FRAC
    ]
    for name in sorted(names, key=lambda name: -_frac(host.get(name))):
        time = host.get(name)
        yield Bar(
            f"{phase.value}/{name}",
            name,
            None if time is None else time.mean_ns,
            None if time is None else time.frac,
            device_value=device.get(name),
            level=1,
        )


def _frac(time: PerStep | None) -> float:
    return 0.0 if time is None else time.frac


def step_time_section(run: RunResults) -> Section | None:
    """Return how the step's time varies, and which steps were left out; None without steps."""
    steps = run.steps
    if steps is None:
        return None
    dur = steps.dur
    figures = [
        Figure("mean_ns", "mean", dur.mean_ns, "ns"),
        Figure("median_ns", "median", dur.p50_ns, "ns"),
        Figure("p95_ns", "p95", dur.p95_ns, "ns"),
        Figure("p99_ns", "p99", dur.p99_ns, "ns"),
        Figure("max_ns", "max", dur.max_ns, "ns"),
    ]
    if run.samples_per_s:
        figures.append(Figure("samples_per_s", "samples", run.samples_per_s, "per_s"))
    lines = Text(tuple(_step_lines(run)))
    chart = Chart("steps", "Steps over time")
    return Section("step_time", "Step time", "page", (Figures(tuple(figures)), lines, chart))


def recorded_steps_section(run: RunResults) -> Section | None:
    """Return which steps the figures describe, and which are reported separately."""
    steps = run.steps
    if steps is None:
        return None
    basis = BASES.get(steps.basis, steps.basis).strip()
    figures = Figures(
        (
            Figure("steps_count", "recorded", steps.count, "count"),
            Figure("basis", "figures describe", basis, "text"),
            Figure("basis_count", "of these", steps.dur.count, "count"),
            Figure("total_ns", "all together", steps.total_ns, "ns"),
            Figure("min_ns", "min", steps.dur.min_ns, "ns"),
            Figure(
                "plain_median_ns", "median without validation and checkpoints",
                steps.plain_p50_ns, "ns",
            ),
            Figure("jitter_frac", "p95 above that median", steps.jitter_frac, "frac"),
            Figure("epochs_count", "epochs", steps.epochs, "count"),
        )
    )  # fmt: skip
    apart = Table(
        "apart",
        (
            Column("reason", "Reported separately", "text"),
            Column("count", "Steps", "count"),
            Column("median_ns", "Median", "ns"),
            Column("total_ns", "Together", "ns"),
        ),
        tuple(
            {
                "reason": flag_label(left_out.reason),
                "count": left_out.count,
                "median_ns": left_out.median_ns,
                "total_ns": left_out.total_ns,
            }
            for left_out in steps.apart
        ),
    )
    body: list[Figures | Table] = [figures, apart]
    if (pace := run.variation.pace) is not None and not run.slow_downs:
        changed = (
            Figure("since_step", "steps change from", pace.since_step, "count"),
            Figure("before_change_ns", "before", pace.before_ns, "ns"),
            Figure("after_change_ns", "after", pace.after_ns, "ns"),
            Figure("growth_ns", "more from step to step", pace.per_step_ns, "ns"),
        )
        body.append(Figures(changed))
    return Section("recorded_steps", "Recorded steps", "verbose", tuple(body))


def slowest_section(run: RunResults) -> Section | None:
    """Return the slowest steps and what was longer in them; None if no step was recorded."""
    if not run.variation.slowest:
        return None
    rows: list[dict[str, Value]] = [
        {
            "step": slow.step,
            "epoch": slow.epoch,
            "dur_ns": slow.dur_ns,
            "excess_ns": slow.excess_ns,
            "phase": None if slow.phase is None else Place(phase=slow.phase.value),
            "phase_excess_ns": slow.phase_excess_ns,
            "part": slow.part,
            "part_excess_ns": slow.part_excess_ns,
            "flags": ", ".join(map(flag_label, slow.flags)) or None,
        }
        for slow in run.variation.slowest
    ]
    columns = (
        Column("step", "Step", "count"),
        Column("epoch", "Epoch", "count"),
        Column("dur_ns", "Time", "ns", bar=True),
        Column("excess_ns", "Above median", "ns"),
        Column("phase", "Longer in", "place"),
        Column("phase_excess_ns", "By", "ns"),
        Column("part", "Of it", "code"),
        Column("part_excess_ns", "By", "ns"),
        Column("flags", "Events", "text"),
    )
    table = Table("slowest", columns, tuple(rows), opens="steps")
    return Section("slowest", "Slowest steps", "verbose", (table,))


def totals_section(run: RunResults) -> Section | None:
    """Return the time of every phase, and of every part of a phase, over the whole session."""
    rows: list[dict[str, Value]] = []
    for phase, stats in run.phases.items():
        rows.append(
            {
                "phase": phase_label(phase.value),
                "total_ns": stats.total_ns,
                "outside_ns": stats.outside_ns,
                "frac": stats.frac,
                **_per_step(stats.per_step),
            }
        )
        rows += [_part_row(part) for part in run.parts_of(phase)]
    columns = (
        Column("phase", "Phase", "text"),
        Column("total_ns", "Total", "ns"),
        Column("frac", "Share", "frac"),
        Column("outside_ns", "Outside", "ns", note="outside of steps"),
        Column("mean_ns", "Mean", "ns", note="per steady step"),
        Column("median_ns", "Median", "ns"),
        Column("max_ns", "Longest", "ns"),
        Column("active_steps", "Active", "count", note="recorded steps in which it took any time"),
    )
    if not any(row["total_ns"] for row in rows):
        return None
    table = Table("totals", columns, tuple(row for row in rows if row["total_ns"]))
    body: list[Table | Figures] = [table]
    if (compiling := run.compiled.time) is not None and compiling.whole_ns:
        took = Figure("compiling_total_ns", "torch.compile, in any phase", compiling.whole_ns, "ns")
        body.append(Figures((took,)))
    return Section("totals", "Phases over the whole session", "verbose", tuple(body))


def _part_row(part: Part) -> dict[str, Value]:
    return {
        "phase": part.name,
        "total_ns": part.total_ns,
        "outside_ns": part.outside_ns,
        "active_steps": part.active_steps,
        "level": 1,
        **_per_step(part.per_step),
    }


def _per_step(time: PerStep | None) -> dict[str, Value]:
    if time is None:
        return {}
    return {"mean_ns": time.mean_ns, "median_ns": time.median_ns, "max_ns": time.max_ns}


def outside_section(run: RunResults) -> Section | None:
    """Return the time outside of steps by kind, with the callbacks and hooks in each."""
    rows: list[dict[str, Value]] = []
    for kind in run.outside:
        rows.append(
            {
                "where": OUTSIDE_LABELS.get(kind.where, kind.where.replace("_", " ")),
                "count": kind.count,
                "total_ns": kind.total_ns,
                "max_ns": kind.max_ns,
            }
        )
        of_phases = {phase_label(phase): ns for phase, ns in kind.phase_ns.items()}
        of_parts = {
            f"{phase_label(phase)}: {name}": ns
            for (phase, _, name), ns in (
                (key.partition("/"), ns) for key, ns in kind.part_ns.items()
            )
        }
        rows += [
            {"where": name, "total_ns": ns, "level": 1}
            for name, ns in (of_phases | of_parts).items()
            if ns
        ]
    columns = (
        Column("where", "Where", "text"),
        Column("count", "Times", "count"),
        Column("total_ns", "Together", "ns"),
        Column("max_ns", "Longest", "ns"),
    )
    if not rows:
        return None
    table = Table("outside", columns, tuple(rows))
    return Section("outside", "Outside of steps", "verbose", (table,))


def _step_lines(run: RunResults) -> Iterator[str]:
    steps = run.steps
    assert steps is not None
    dur = steps.dur
    noun = "step" if dur.count == 1 else "steps"
    basis = {
        "steady": f"steady {noun}",
        "measured": f"{noun}, some of them with the profiler on",
        "compiled": f"{noun}, in most of which torch.compile compiled something",
    }.get(steps.basis, f"{noun}, including warm-up")
    apart = [
        f"; {left_out.count} {flag_label(left_out.reason)} (median {duration(left_out.median_ns)})"
        for left_out in steps.apart
    ]
    yield f"over {dur.count} {basis}{''.join(apart)}"
    compiling, wall = run.compiled.time, run.wall
    if compiling is not None and compiling.whole_ns >= MIN_COMPILING_FRAC * wall.wall_ns:
        took = duration(compiling.whole_ns)
        yield f"torch.compile took {took} of the run's {duration(wall.wall_ns)}"
    if (time := run.device.time) is not None:
        states = sorted(time.state_frac.items(), key=lambda item: -item[1])
        named = [f"{state.value.replace('_', '-')} {percent(n)}" for state, n in states if n]
        yield f"steps by state: {', '.join(named)}"
    if run.by_device:
        yield (
            f"the device takes {duration(run.step_ns or 0)} per step and is behind the host "
            "until an epoch's end: savings and samples are computed from that"
        )
