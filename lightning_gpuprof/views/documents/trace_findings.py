"""Findings in a trace alone, without a run's records."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from lightning_gpuprof.analysis.run.run_results import RunResults, TraceView
from lightning_gpuprof.analysis.run.sessions import WallTime
from lightning_gpuprof.analysis.run.steady import Distribution, StepStats
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.findings.engine import Evaluation, evaluate_rules
from lightning_gpuprof.findings.registry import rules
from lightning_gpuprof.records.schema import SCHEMA_VERSION, Device, ProfilerCycle, RunStart
from lightning_gpuprof.views.documents.finding_payload import finding_payload

_STEP = re.compile(r"\b(of|in) each step\b|\bper step\b|\ba step\b")


def trace_findings(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the findings in an `analyze` document, ranked, as plain values.

    Savings are per profiled step: there is no other step to scale them to. A trace without
    marked steps is judged as one step, and the findings speak of the trace. A rule whose input
    the trace lacks is silent.
    """
    if not document["gpu"]:
        return []
    run, judged = judge_trace(document)
    payloads = [finding_payload(finding, run) for finding in judged.findings]
    for payload in payloads:
        if document["source"].startswith("jax"):
            payload["change"] = None  # the rules' code is torch's
        if not _marks(document):
            for key in ("title", "advice"):
                payload[key] = _STEP.sub(lambda at: f"{at[1] or 'in'} the trace", payload[key])
    return payloads


def judge_trace(document: Mapping[str, Any]) -> tuple[RunResults, Evaluation]:
    """Return a trace as a run, and what the rules of traces say of it."""
    run = as_run(document)
    return run, evaluate_rules(run, [one for one in rules().values() if one.of_trace])


def as_run(document: Mapping[str, Any]) -> RunResults:
    """Dress a trace as a run of its steps, of which nothing else is known.

    Without step marks all of it is one step.
    """
    marks, gpu, device = _marks(document), document["gpu"] or {}, Device(type="cpu")
    if not marks and gpu:
        marks = [gpu["span_ns"]]
        whole = {"name": "trace", "start_ns": 0, "dur_ns": marks[0]}
        document = {**document, "steps": [whole]}
    if found := document["device"]:
        device = Device(type="hip" if found["vendor"] == "amd" else "cuda", name=found["name"])
    step_ns = np.array(marks, dtype=np.int64)
    last, total = len(step_ns) - 1, int(step_ns.sum())
    cycle = ProfilerCycle(cycle=0, first_step=0, last_step=last, trace_file=document["file"])
    start = RunStart(SCHEMA_VERSION, session=0, stage="fit", started_unix_ns=0, rank=0)
    # Traces seldom say; where anything communicated there was another rank.
    ranks = 2 if gpu.get("comm_ns") else 1
    return RunResults(
        start=replace(start, world_size=ranks, device=device),
        wall=WallTime(wall_ns=total, steps_ns=total, outside_ns=0),
        steps=_steps(step_ns, gpu.get("span_ns", 0)) if len(step_ns) else None,
        traces=(TraceView(0, cycle, document),),
        steady_dur_ns=step_ns,
    )


def _marks(document: Mapping[str, Any]) -> list[int]:
    usual = [step for step in document["steps"] if not step.get("distorted")]
    return [step["dur_ns"] for step in usual if step["dur_ns"]]


def _steps(step_ns: Int64, device_ns: int) -> StepStats:
    # By nearest rank: numpy's percentiles load masked arrays, which takes longer than all rules.
    ordered = sorted(step_ns.tolist())
    count = len(ordered)
    spread = Distribution(
        count=count,
        mean_ns=round(max(sum(ordered), device_ns) / count),  # the host may be steps ahead
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
        dur=spread,
        plain_p50_ns=spread.p50_ns,
        jitter_frac=0.0,
        apart=(),
        epochs=None,
    )
