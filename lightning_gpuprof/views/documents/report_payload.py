"""Lays a report out as the `report --json` document; docs/json.md describes every key.

Every key is always there; null says that it was not measured.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import msgspec

from lightning_gpuprof.analysis.run.line_times import line_times, unlisted_ns
from lightning_gpuprof.analysis.run.module_times import module_times
from lightning_gpuprof.analysis.run.phase_split import Part, PerStep, PhaseStats
from lightning_gpuprof.analysis.run.run_results import RunResults, TraceView
from lightning_gpuprof.analysis.run.worker_lines import made_in_ns, worker_line_times
from lightning_gpuprof.findings.engine import make_plan
from lightning_gpuprof.findings.model import Abstained, Effort, Finding
from lightning_gpuprof.findings.question_figures import suggested_workers
from lightning_gpuprof.findings.questions import answer_questions, first_to_look_at
from lightning_gpuprof.findings.usual_advice import not_worth_it
from lightning_gpuprof.records.files import run_folder
from lightning_gpuprof.records.trials import Trials
from lightning_gpuprof.views.documents.finding_payload import finding_payload, is_older, plain
from lightning_gpuprof.views.documents.gpu_words import busy_payload, limit_line

SCHEMA_VERSION = 1
TOP_OPERATORS = 20
TOP_LINES = 20
_FACTS = tuple(
    "session stage started_unix_ns timer rank world_size host cpu_count torch_settings versions "
    "trainer model loader config".split()
)
_PART = ("name", "total_ns", "outside_ns", "active_steps")
_CYCLE = ("cycle", "first_step", "last_step", "stop_ns", "export_ns")
_FRACS = ("peak_frac", "fragmented_frac")
_WALL = ("wall_ns", "accounted_ns", "accounted_frac")
_TIMES = ("mean_ns", "p50_ns", "p95_ns", "p99_ns", "min_ns", "max_ns")


def report_payload(
    run: str,
    results: RunResults,
    findings: Sequence[Finding],
    abstained: Sequence[Abstained],
    silent: Sequence[str],
    notices: Sequence[str],
    trials: Trials | None = None,
) -> dict[str, Any]:
    """Return the document as JSON types."""
    return {
        "schema_version": SCHEMA_VERSION,
        "run": {**_run(run, results), "notices": list(notices)},
        "steps": _steps(results),
        "phases": {
            phase.value: _phase(stats, results.parts_of(phase))
            for phase, stats in results.phases.items()
        },
        "lines": [plain(asdict(one)) for one in line_times(results)[:TOP_LINES]],
        "lines_unlisted_ns": unlisted_ns(results),
        "workers": _workers(results),
        "modules": [asdict(module) for module in module_times(results)],
        "outside": [plain(asdict(outside)) for outside in results.outside],
        "findings": [
            {**finding_payload(finding, results), "measured": finding.measured}
            for finding in findings
        ],
        "abstained": [asdict(one) for one in abstained],
        "silent": list(silent),
        "plan": [_plan_item(*item, results) for item in make_plan(findings)],
        **_questions(results, findings, abstained),
        "not_worth_it": not_worth_it(results, findings),
        "limit": limit_line(results),
        "device": _device(results),
        "ranks": [plain(asdict(rank)) for rank in results.ranks.views],
        "sync_sites": [_struct(site) for site in results.facts.sync_sites],
        "compile_events": [_struct(event) for event in results.compiled.events],
        "trials": None if trials is None else plain(msgspec.to_builtins(trials)),
        "trace_files": [_trace(run, trace) for trace in results.traces],
    }


def _workers(results: RunResults) -> dict[str, Any] | None:
    seen = results.loader.workers
    if seen is None:
        return None
    return {
        **{key: getattr(seen, key) for key in ("processes", "waiting_frac", "start_ns", "init_ns")},
        "samples": seen.whole,
        "batch_ns": made_in_ns(results),
        "lines": [plain(asdict(one)) for one in worker_line_times(results)[:TOP_LINES]],
    }


def _plan_item(finding: Finding, effort: Effort, run: RunResults) -> dict[str, Any]:
    said = finding_payload(finding, run)
    kept = ("id", "severity", "title", "advice", "change", "saving_ns", "saving_frac")
    return {**{key: said[key] for key in kept}, **plain(asdict(effort))}


def _questions(
    results: RunResults, findings: Sequence[Finding], abstained: Sequence[Abstained]
) -> dict[str, Any]:
    answers = answer_questions(results, findings, abstained)
    first = first_to_look_at(answers)
    return {
        "focus": None if first is None else {"id": first.id, "next": first.next},
        "checks": [plain(asdict(answer)) for answer in answers],
        "suggested_num_workers": suggested_workers(results),
    }


def _run(run: str, results: RunResults) -> dict[str, Any]:
    end, facts = results.end, _struct(results.start)
    return {
        "path": run,
        "status": results.status,
        "error": end.error if end else None,
        **{key: getattr(results.wall, key) for key in _WALL},
        "own_cost_ns_per_step": end.own_cost_ns_per_step if end else None,
        **{key: facts[key] for key in _FACTS},
        "sessions": [asdict(session) for session in results.sessions],
        "notes": [_struct(note) for note in results.facts.notes],
        "probe_failures": [_struct(failure) for failure in results.facts.probe_failures],
    }


def _steps(results: RunResults) -> dict[str, Any]:
    steps = results.steps
    dur = steps.dur if steps else None
    times = {key: getattr(dur, key, None) for key in _TIMES}
    return {
        "count": steps.count if steps else 0,
        "total_ns": steps.total_ns if steps else 0,
        "basis_count": dur.count if dur else 0,
        "median_ns": times["p50_ns"],
        "step_ns": results.step_ns,
        **times,
        **{key: getattr(steps, key, None) for key in ("basis", "jitter_frac", "epochs")},
        "plain_median_ns": steps.plain_p50_ns if steps else None,
        "samples_per_s": results.samples_per_s,
        "apart": [asdict(apart) for apart in steps.apart] if steps else [],
        "slowest": [plain(asdict(slow)) for slow in results.variation.slowest],
    }


def _phase(stats: PhaseStats, parts: Sequence[Part]) -> dict[str, Any]:
    return {
        "total_ns": stats.total_ns,
        "outside_ns": stats.outside_ns,
        "frac": stats.frac,
        **_per_step(stats.per_step),
        "parts": [
            {key: getattr(part, key) for key in _PART} | _per_step(part.per_step) for part in parts
        ],
    }


def _per_step(per_step: PerStep | None) -> dict[str, Any]:
    values = {key: getattr(per_step, key, None) for key in ("median_ns", "mean_ns", "max_ns")}
    return {**values, "step_frac": getattr(per_step, "frac", None)}


def _device(results: RunResults) -> dict[str, Any]:
    device = results.start.device
    memory, time = results.memory.use, results.device.time
    return {
        **(_struct(device) if device else {"type": None}),
        "memory": memory and {**asdict(memory), **{key: getattr(memory, key) for key in _FRACS}},
        "time": {**plain(asdict(time)), "state": time.state.value} if time else None,
        "busy": busy_payload(results),
        "advice": _struct(results.memory.advice) if results.memory.advice else None,
    }


def _trace(run: str, trace: TraceView) -> dict[str, Any]:
    cycle, analysis = trace.cycle, trace.analysis or {}
    return {
        "file": cycle.trace_file,
        "path": os.path.join(run_folder(run), cycle.trace_file),
        "rank": trace.rank,
        **{key: getattr(cycle, key) for key in _CYCLE},
        "bytes": cycle.trace_bytes,
        "analysed": trace.analysis is not None,
        "older_analysis": trace.analysis is not None and is_older(trace.analysis),
        "operators": top_operators(trace),
        "warnings": list(analysis.get("warnings") or []),
    }


def top_operators(trace: TraceView) -> list[dict[str, Any]]:
    """Return the operators with the most time of their own, on the device where there is one."""
    operators = (trace.analysis or {}).get("operators") or []
    device = any(operator.get("device_self_ns") for operator in operators)
    key = "device_self_ns" if device else "self_ns"
    ranked = sorted(operators, key=lambda operator: -(operator.get(key) or 0))
    return [dict(operator) for operator in ranked[:TOP_OPERATORS]]


def _struct(record: msgspec.Struct) -> dict[str, Any]:
    fields = msgspec.structs.asdict(record)
    builtins: dict[str, Any] = msgspec.to_builtins(fields, enc_hook=str)
    return builtins
