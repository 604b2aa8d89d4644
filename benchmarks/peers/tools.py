"""Runs each peer on a case and returns its own statements in its own order."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CASE = Path(__file__).parents[1] / "faults" / "case.py"
TIMEOUT_S = 300
KEPT_CHARS = 1_500
ALARMING = ("crit", "critical", "warn", "warning", "high", "med", "medium")


PATTERNS = {
    "data-wait": r"input.?bound|input wait|data ?load|loader|dataset|collate|train_dataloader_next",
    # Time that workers take to start is waited for like any other input.
    "worker-startup": r"worker.*(start|persist)|persistent|epoch (start|boundary)|input.?bound",
    "slow-host-to-device-copy": r"h2d|host.to.device|transfer|batch_to_device|pcie|copy",
    "slow-callback": r"callback",
    "slow-logging": r"logg|log_metrics|metric",
    "slow-checkpoint": r"checkpoint",
    "frequent-validation": r"validat|run_validation|eval",
    "small-kernels": r"launch|small (op|kernel)|many (op|kernel)|fus|compile|python overhead",
    "host-bound": r"host.?bound|cpu.?bound|launch|python overhead",
    "host-sync": r"sync|\.item",
    "retained-graph": r"retain|graph|backward twice",
    "unfused-optimizer": r"fused|foreach|optimizer",
    "non-contiguous-layout": r"contiguous|layout|memory format|channels.last|transpose",
    "anomaly-detection-on": r"anomaly|detect_anomaly",
    "recompilation": r"recompil|dynamo|dynamic shape|compil",
    "step-time-jitter": r"jitter|varia|spike|p9[59]|straggl|garbage|\bgc\b",
    "memory-growth": r"memory.*(creep|grow|leak)|leak|creep|drift",
}
"""By finding id the words of a peer that name a cause: generous, as it need not use our names, nor
name a line or a change. "Waiting on the loader" is right for a slow sampler."""


@dataclass(frozen=True)
class Statement:
    """One thing that a peer said, with the severity it gave, where it gives any."""

    severity: str | None
    text: str

    @property
    def alarming(self) -> bool:
        return (self.severity or "").lower() in ALARMING


@dataclass(frozen=True)
class Heard:
    """The statements of a peer on one case; `text` is its output's end where it failed."""

    statements: list[Statement]
    text: str
    failed: bool = False


def credited(finding: str, also: tuple[str, ...], statement: str) -> bool:
    """Tell whether a statement names one of the ids that a cause accepts.

    >>> credited("data-wait", (), "INPUT-BOUND: Input wait is 53.7% of the step.")
    True
    """
    patterns = [PATTERNS[name] for name in (finding, *also) if name in PATTERNS]
    return any(re.search(pattern, statement, re.IGNORECASE) for pattern in patterns)


Tool = Callable[[Path, list[str], Path], Heard]
"""Runs a case with a peer: virtual environment, arguments of the case, an empty folder."""


def traceml(venv: Path, case: list[str], folder: Path) -> Heard:
    """`traceml run`, as its docs say for Lightning; its verdict, then the other sections'."""
    command = [
        str(venv / "bin" / "traceml"), "run", str(CASE), "--mode", "summary",
        "--logs-dir", str(folder / "logs"), "--run-name", "run",
        "--args", *case, "--folder", str(folder / "case"),
    ]  # fmt: skip
    done = _run(command, folder)
    summary = folder / "logs" / "run" / "final_summary.json"
    if not summary.exists():
        return Heard([], _tail(done), failed=True)
    payload = json.loads(summary.read_text(encoding="utf-8"))
    found = [payload["primary_diagnosis"]]
    for section in ("step_time", "system", "process", "step_memory"):
        found += payload.get(section, {}).get("issues", [])
    statements = [
        Statement(one["severity"], f"{one['status']}: {one['summary']} {one['action']}")
        for one in found
    ]
    text = summary.with_suffix(".txt").read_text(encoding="utf-8")
    return Heard(_unique(statements), re.sub(r"[ \-+|]{3,}", "  ", text)[:KEPT_CHARS])


def gpuprof(venv: Path, case: list[str], folder: Path) -> Heard:
    """The Lightning callback of PyPI's gpuprof, then `gpuprof insights`."""
    done = _trained(venv, case, "gpuprof", folder)
    if done.returncode:
        return Heard([], _tail(done), failed=True)
    shown = _run([str(venv / "bin" / "gpuprof"), "insights"], folder)
    found = re.findall(r"^\s*\[(\w+)\]\s+(.+(?:\n\s{4,}\S.*)*)", shown.stdout, re.MULTILINE)
    statements = [Statement(level, " ".join(text.split())) for level, text in found]
    return Heard(statements, shown.stdout[:KEPT_CHARS], failed=shown.returncode != 0)


def lightning_simple(venv: Path, case: list[str], folder: Path) -> Heard:
    """Lightning's SimpleProfiler: a table of actions by total time, without a verdict."""
    done = _trained(venv, case, "simple", folder)
    # One row per action: name, mean, calls, total, percentage.
    rows = re.findall(r"^\|\s+(\S.*?)\s+\|.*\|\s+([\d.]+)\s+\|$", done.stdout + done.stderr, re.M)
    # Left out: actions that hold others (optimizer_step runs forward and backward).
    containers = re.compile(r"Total$|Action|run_training_(epoch|batch)|\S+\.optimizer_step$")
    actions = [
        Statement(None, f"{name}: {share} % of the time")
        for name, share in rows
        if not containers.match(name)
    ]
    return Heard(actions[:5], "", failed=bool(done.returncode) or not rows)


TOOLS: dict[str, Tool] = {
    "traceml": traceml,
    "gpuprof": gpuprof,
    "lightning-simple": lightning_simple,
}


def _trained(venv: Path, case: list[str], peer: str, folder: Path) -> Any:
    return _run([str(venv / "bin" / "python"), str(CASE), *case, "--peer", peer], folder)


def _run(command: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "COLUMNS": "200"}
    try:
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"took more than {TIMEOUT_S} s")


def _tail(done: "subprocess.CompletedProcess[str]") -> str:
    return (done.stdout + done.stderr)[-KEPT_CHARS:]


def _unique(statements: list[Statement]) -> list[Statement]:
    """Drop repeats: the verdict is also the first issue of its section."""
    return list(dict.fromkeys(statements))
