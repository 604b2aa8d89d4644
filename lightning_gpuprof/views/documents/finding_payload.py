"""Findings as JSON types."""

from collections.abc import Mapping
from dataclasses import asdict
from enum import Enum
from typing import Any

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.engine import step_of
from lightning_gpuprof.findings.model import Finding


def finding_payload(finding: Finding, run: RunResults) -> dict[str, Any]:
    """Return one finding as JSON types; `saving_frac` is the middle of its saving."""
    document: dict[str, Any] = plain(asdict(finding))
    del document["explains"]  # those findings are not in the report
    del document["measured"]  # of a trace alone there are no trials
    step_ns = step_of(finding, run)
    document["saving_frac"] = finding.saving_ns.middle / step_ns if step_ns else None
    document["where"] = [
        {key: value for key, value in place.items() if value is not None}
        for place in document.pop("places")
    ]
    return document


def plain(value: Any) -> Any:
    """Turn enum members, also as keys, into their values, and tuples into lists."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def is_older(document: Mapping[str, Any], than: int) -> bool:
    """Return whether a stored document is of an older version than one, or of none."""
    version = document.get("analysis_version")
    return not isinstance(version, int) or version < than
