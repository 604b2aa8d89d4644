"""Lays a comparison out as the `compare --json` document; docs/json.md describes every key."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from lightning_gpuprof.analysis.compare.compare import Change, Comparison
from lightning_gpuprof.findings.model import Finding

SCHEMA_VERSION = 1
TOP = 20
"""Operators and kernels listed: the largest changes."""


def compare_payload(
    *,
    base: str,
    new: str,
    result: Comparison,
    gone: Sequence[Finding],
    appeared: Sequence[Finding],
    sentence: str,
    tolerance: float,
) -> dict[str, Any]:
    """Return the document as JSON types; null says that a side was not measured."""
    change = result.change
    return {
        "schema_version": SCHEMA_VERSION,
        "base": {"path": base, "steps": result.base_steps, "clock": _clock(result.by_device[0])},
        "new": {"path": new, "steps": result.new_steps, "clock": _clock(result.by_device[1])},
        "verdict": result.verdict.value,
        "same_model": not result.other_model,
        "sentence": sentence,
        "change_frac": None
        if change is None
        else {"low": change.low, "middle": change.middle, "high": change.high},
        "per_sample": result.per_sample,
        "traced_steps": None if result.traced_steps is None else list(result.traced_steps),
        "steps": [_change(one) for one in result.steps],
        "phases": [_change(one) for one in result.phases],
        "operators": [_of_few(one) for one in result.operators[:TOP]],
        "kernels": [_of_few(one) for one in result.kernels[:TOP]],
        "memory": [_change(one) for one in result.memory],
        "findings_gone": [_finding(one) for one in gone],
        "findings_new": [_finding(one) for one in appeared],
        "values": [{**_finite(asdict(one)), "same": one.same} for one in result.values],
        "tolerance": tolerance,
        "differs": [asdict(one) for one in result.differs],
    }


def _clock(by_device: bool) -> str:
    return "device" if by_device else "host"


def _change(one: Change) -> dict[str, Any]:
    return {"name": one.name, "base": one.base, "new": one.new, "diff": one.diff}


def _of_few(one: Change) -> dict[str, Any]:
    return {**_change(one), "error": one.error, "shown": one.shown}


def _finding(finding: Finding) -> dict[str, Any]:
    return {"id": finding.id, "severity": finding.severity.value, "title": finding.title}


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """Replace NaN and infinity, which JSON has no words for, by null."""
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in row.items()
    }
