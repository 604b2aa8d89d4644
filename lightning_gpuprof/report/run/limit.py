"""What limits a run's steps, how busy the GPU is, and what helps if no rule fires."""

from collections.abc import Sequence

from lightning_gpuprof.analysis.run.device_time import DeviceTime
from lightning_gpuprof.analysis.run.gpu_busy import GpuBusy, gpu_busy
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.findings.in_use import faster
from lightning_gpuprof.findings.model import Finding
from lightning_gpuprof.findings.questions import name_findings
from lightning_gpuprof.records.device_marks import WAITS, StepState
from lightning_gpuprof.records.phases import BATCH_WORK, Phase
from lightning_gpuprof.report.document import (
    Bar,
    Bars,
    Column,
    Figure,
    Figures,
    Section,
    Table,
    Value,
)
from lightning_gpuprof.report.labels import phase_label
from lightning_gpuprof.units import duration, percent

SIDES = {
    StepState.DEVICE_BOUND: "The GPU is the limit",
    StepState.SYNC_BOUND: "The host waits for the device in {share} of steps",
    StepState.HOST_BOUND: "The GPU waits for the host in {share} of steps",
    StepState.DATA_BOUND: "The GPU waits for data in {share} of steps",
}
"""Titles by state of the steps."""
ANSWERED_BY: dict[StepState, tuple[str, ...]] = {
    StepState.DEVICE_BOUND: ("low-precision-unused", "memory-bound-kernels", "double-precision"),
    StepState.SYNC_BOUND: ("host-sync",),
    StepState.HOST_BOUND: ("host-bound", "small-kernels", "slow-python"),
    StepState.DATA_BOUND: ("data-wait", "worker-startup"),
}
"""Findings that are more specific than the general advice, and may contradict it."""
BUSY_PARTS = (
    ("compute_frac", "compute"),
    ("communication_frac", "communication"),
    ("copies_frac", "copies"),
    ("idle_frac", "idle"),
)
NAMED_FRAC = 0.05
"""The two largest phases other than work on the batch are named from this share of the step on."""
NO_SHARE = "the share needs a profiler cycle"
NOT_MEASURED = "not measured: that needs device marks or a trace"


def mostly_with(compute: float | None, copies: float | None, communication: float | None) -> str:
    """Name what keeps a device busy if that takes more time than computing; else return "".

    >>> mostly_with(0.2, 0.5, None), mostly_with(0.5, 0.1, 0.1)
    ('mostly with copies', '')
    """
    most, name = max((copies or 0.0, "copies"), (communication or 0.0, "communication"))
    return f"mostly with {name}" if most > (compute or 0.0) else ""


def host_line(run: RunResults) -> str | None:
    """Say how a step without a GPU is divided; None with a GPU or without recorded steps."""
    if not run.step_ns or run.on_gpu:
        return None
    shares = {phase: time.frac for phase in Phase if (time := run.per_step(phase)) is not None}
    worked = sum(shares.pop(phase) for phase in BATCH_WORK if phase in shares)
    large = sorted(
        ((frac, phase) for phase, frac in shares.items() if frac >= NAMED_FRAC), reverse=True
    )
    parts = [f"{percent(frac)} {_doing(phase)}" for frac, phase in large[:2]]
    return ", ".join((f"No GPU: {percent(worked)} of a step is work on the batch", *parts))


def _doing(phase: Phase) -> str:
    return "waiting for data" if phase is Phase.DATA_WAIT else phase_label(phase.value).lower()


def waiting_side(run: RunResults, findings: Sequence[Finding] = ()) -> tuple[str, str] | None:
    """Return the side that most steps wait for, as a title, and what to do about it.

    If a finding says what to do, it is named. None without device marks.
    """
    device, busy = run.device.time, gpu_busy(run)
    if device is None or busy is None or busy.state is None:
        return None
    facts, state = trace_facts(run), busy.state
    title = SIDES[state]
    advice = faster(state, facts.analysis if facts else None, trains=run.trains)
    answering = ANSWERED_BY[state]
    ids = dict.fromkeys(finding.id for finding in findings if finding.id in answering)
    if ids:
        advice = f"Look at {name_findings(tuple(ids))}."
    share = percent(device.state_frac[device.state])
    if device.state is StepState.DEVICE_BOUND:
        advice = f"It had work queued in {share} of steps. {advice}"
    elif state is StepState.DEVICE_BOUND:
        advice = (
            f"The host waits for it in {share} of steps, which costs nothing: it is busy. {advice}"
        )
    return title.format(share=share), advice


def busy_figure(run: RunResults) -> Figure | None:
    """Return how busy the GPU is, and which side waits; None without a GPU."""
    if not run.on_gpu:
        return None
    busy = gpu_busy(run)
    if busy is None:
        return Figure("gpu_busy_frac", "GPU busy", None, "frac", NOT_MEASURED)
    waits = "" if busy.state is None else WAITS[busy.state]
    if busy.busy_frac is not None:
        doing = mostly_with(busy.compute_frac, busy.copies_frac, busy.communication_frac)
        note = ": ".join(filter(None, (doing, waits)))
        return Figure("gpu_busy_frac", "GPU busy", busy.busy_frac, "frac", note or None)
    why = "; ".join(filter(None, (waits, NO_SHARE)))
    return Figure("gpu_busy_frac", "GPU busy", None, "frac", why)


def gpu_section(run: RunResults) -> Section | None:
    """Return how the GPU's time is divided, and figures of the marked steps; None if unknown."""
    busy, time = gpu_busy(run), run.device.time
    parts: list[Bars | Figures | Table] = []
    if busy is not None and busy.idle_frac is not None:
        bars = (
            Bar(key, label, frac * busy.step_ns, frac)
            for key, label in BUSY_PARTS
            if (frac := getattr(busy, key)) is not None
        )
        parts.append(Bars("gpu_busy", "ns", tuple(bars), value_label="Per step"))
    if busy is not None:
        parts.append(
            Figures(
                (
                    Figure("busy_frac", "busy", busy.busy_frac, "frac"),
                    Figure("device_step_ns", "step on the device", busy.step_ns, "ns"),
                    Figure("basis", "measured by", busy.basis, "text"),
                )
            )
        )
    if time is not None:
        states = [
            Figure(f"{state.value}_frac", state.value.replace("_", "-"), frac, "frac")
            for state, frac in time.state_frac.items()
        ]
        marks = (
            Figure("marked_steps_count", "marked steps", time.marked_steps, "count"),
            Figure("queued_frac", "had work queued", time.queued_frac, "frac"),
            Figure("falls_behind_ns", "falls behind per step", time.falls_behind_ns, "ns"),
            Figure("launch_latency_ns", "launch latency", time.latency_ns, "ns"),
        )
        parts.append(Figures((*states, *marks), title="Marked steps"))
        parts.append(_marked_phases(time))
    if not parts:
        return None
    note = None if busy is None else _basis(busy)
    return Section("gpu", "What the GPU does", "verbose", tuple(parts), note=note)


def _marked_phases(time: DeviceTime) -> Table:
    """Return the phases of the marked steps on both clocks, with the components within them."""
    rows: list[dict[str, Value]] = []
    for phase in time.phases.values():
        rows.append(
            {
                "phase": phase_label(phase.phase.value),
                "mean_ns": phase.mean_ns,
                "median_ns": phase.median_ns,
                "frac": phase.frac,
                "host_mean_ns": phase.host_mean_ns,
            }
        )
        rows += [
            {"phase": part.name, "mean_ns": part.mean_ns, "median_ns": part.median_ns, "level": 1}
            for part in time.parts
            if part.phase is phase.phase
        ]
    columns = (
        Column("phase", "Phase", "text"),
        Column("mean_ns", "Device mean", "ns", note="from the phase's start to its end there"),
        Column("median_ns", "Median", "ns"),
        Column("frac", "Share", "frac"),
        Column("host_mean_ns", "Host mean", "ns", note="in the same steps"),
    )
    return Table("marked_phases", columns, tuple(rows))


def _basis(busy: GpuBusy) -> str:
    step = f"of the device's steady step, {duration(busy.step_ns)}"
    if busy.basis == "marks":
        return f"{step}: for at least this share it had work queued, by the device marks"
    return f"{step}; the work was measured in the profiled steps"
