"""The findings in a trace alone, without a run's records."""

import re
from dataclasses import replace

import numpy as np
from msgspec import structs

from lightning_gpuprof.analysis.run.run_results import RunResults, TraceView
from lightning_gpuprof.analysis.run.sessions import WallTime
from lightning_gpuprof.analysis.run.steady import Distribution, StepStats
from lightning_gpuprof.analysis.trace_tables import StepRow, TraceAnalysis
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.findings.engine import Evaluation, evaluate_rules
from lightning_gpuprof.findings.model import Finding
from lightning_gpuprof.findings.registry import rules
from lightning_gpuprof.records.schema import SCHEMA_VERSION, Device, ProfilerCycle, RunStart

MIN_STEPS = 2
"""One step alone may be the first, with its compilation and allocations: it is not judged."""
MIN_KERNELS = 50
"""A trace without marked steps and with fewer kernels than this is an example, not a training."""
_STEP = re.compile(r"\b(of|in) each step\b|\bper step\b|\ba step\b")


def judge_trace(analysis: TraceAnalysis) -> tuple[RunResults, Evaluation]:
    """Return a trace as a run, and what the rules for traces find in it.

    Savings are per profiled step: there is no other step to scale them to. A trace without
    marked steps is judged as one step, and its findings speak of the trace. A trace without a
    device, or with too little in it, has no findings.
    """
    run = as_run(analysis)
    if not _can_be_judged(analysis):
        return run, Evaluation((), (), ())
    judged = evaluate_rules(run, [rule for rule in rules().values() if rule.of_trace])
    return run, replace(
        judged, findings=tuple(_worded(finding, analysis) for finding in judged.findings)
    )


def _can_be_judged(analysis: TraceAnalysis) -> bool:
    if analysis.gpu is None:
        return False
    if analysis.steps:
        return analysis.distinct_steps >= MIN_STEPS
    return sum(row.count for row in analysis.kernels) >= MIN_KERNELS


def _worded(finding: Finding, analysis: TraceAnalysis) -> Finding:
    finding = replace(finding, trial=None)  # which program made the trace is not known
    if analysis.source.startswith("jax") or analysis.engine is not None:
        finding = replace(finding, change=None)  # the rules' code is of a loop in plain torch
    if not _marks(analysis):
        finding = replace(finding, title=_of_trace(finding.title), advice=_of_trace(finding.advice))
    return finding


def _of_trace(text: str) -> str:
    """Speak of the trace where a text speaks of a step.

    >>> _of_trace("Copies take 2 ms of each step")
    'Copies take 2 ms of the trace'
    """
    return _STEP.sub(lambda match: f"{match[1] or 'in'} the trace", text)


def as_run(analysis: TraceAnalysis) -> RunResults:
    """Return a trace as a run of which only the steps were measured.

    Without step marks all of it is one step.
    """
    marks, gpu, device = _marks(analysis), analysis.gpu, Device(type="cpu")
    if not marks and gpu is not None:
        marks = [gpu.span_ns]
        whole = StepRow(name="trace", start_ns=0, dur_ns=gpu.span_ns)
        analysis = structs.replace(analysis, steps=(whole,))
    if analysis.device is not None:
        kind = "hip" if analysis.device.vendor == "amd" else "cuda"
        device = Device(type=kind, name=analysis.device.name)
    step_ns = np.array(marks, dtype=np.int64)
    last, total = len(step_ns) - 1, int(step_ns.sum())
    cycle = ProfilerCycle(cycle=0, first_step=0, last_step=last, trace_file=analysis.file)
    stage = "predict" if analysis.purpose == "inference" else "fit"
    start = RunStart(SCHEMA_VERSION, session=0, stage=stage, started_unix_ns=0, rank=0)
    # Traces seldom say; where anything communicated there was another rank.
    ranks = 2 if gpu is not None and gpu.comm_ns else 1
    return RunResults(
        start=structs.replace(start, world_size=ranks, device=device),
        wall=WallTime(wall_ns=total, steps_ns=total, outside_ns=0),
        steps=_steps(step_ns) if len(step_ns) else None,
        device_step_ns=round(gpu.span_ns / (gpu.steps or len(step_ns))) if gpu and marks else 0,
        traces=(TraceView(0, cycle, analysis),),
        steady_dur_ns=step_ns,
    )


def _marks(analysis: TraceAnalysis) -> list[int]:
    """Return the durations of the marked steps that the profiler did not distort.

    Of a file that joins several ranks, they are the steps of the first device's rank.
    """
    rank = analysis.gpu.rank if analysis.gpu is not None else None
    return [
        step.dur_ns
        for step in analysis.steps
        if step.dur_ns and not step.distorted and step.rank == rank
    ]


def _steps(step_ns: Int64) -> StepStats:
    # By nearest rank: numpy's percentiles load masked arrays, which takes longer than all rules.
    ordered = sorted(step_ns.tolist())
    count = len(ordered)
    distribution = Distribution(
        count=count,
        mean_ns=round(sum(ordered) / count),
        min_ns=ordered[0],
        p50_ns=ordered[count // 2],
        p95_ns=ordered[min(count - 1, count * 95 // 100)],
        p99_ns=ordered[min(count - 1, count * 99 // 100)],
        max_ns=ordered[-1],
    )
    return StepStats(
        count=len(step_ns),
        ran=len(step_ns),
        total_ns=int(step_ns.sum()),
        basis="measured",
        dur=distribution,
        plain_p50_ns=distribution.p50_ns,
        jitter_frac=0.0,
        apart=(),
        epochs=None,
    )
