"""`lightning-gpuprof doctor`: what this machine has and what can be measured on it."""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from importlib import metadata, util
from typing import Any

from lightning_gpuprof.hardware.lookup import find_peaks
from lightning_gpuprof.report.clean import cleaned

_PROBE = "lightning_gpuprof.trials.machine"
_PROBE_LIMIT_S = 300


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Print what this machine has; always return 0."""
    machine = _ask_torch()
    for device in machine.get("devices", []):
        match = find_peaks(
            device["name"], memory_bytes=device["total_bytes"], units=device["units"]
        )
        device["peaks"] = asdict(match)["peaks"]
        device["reason"] = match.reason or None
    document = cleaned({"machine": machine, "tensorboard": _tensorboard()})
    print(json.dumps(document, indent=2) if args.json else "\n".join(_lines(document)))
    return 0


def _ask_torch() -> dict[str, Any]:
    """Ask torch in a child process, so that this process need not load it."""
    command = [sys.executable, "-m", _PROBE]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PROBE_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"torch gave no answer within {_PROBE_LIMIT_S} s"}
    if done.returncode:
        return {"error": (done.stderr.strip() or "no message").splitlines()[-1]}
    return dict(json.loads(done.stdout))


def _tensorboard() -> dict[str, Any]:
    """Return whether TensorBoard can load the PROFILE tab, which it finds by its entry point."""
    plugins = {plugin.name: plugin for plugin in metadata.entry_points(group="tensorboard_plugins")}
    error = None
    if "gpuprof" not in plugins:
        error = "not registered: install lightning-gpuprof itself, not only its folder"
    elif util.find_spec("tensorboard") is None:
        error = "tensorboard is not installed: pip install tensorboard"
    else:
        try:
            plugins["gpuprof"].load()
        except (ImportError, AttributeError) as problem:
            error = str(problem)
    return {"plugin_loads": error is None, "error": error}


def _lines(document: dict[str, Any]) -> Iterator[str]:
    machine, board = document["machine"], document["tensorboard"]
    if "error" in machine:
        yield f"torch: cannot be used ({machine['error']})"
    else:
        cuda, hip = machine["cuda"], machine["hip"]
        build = f"CUDA {cuda}" if cuda else f"HIP {hip}" if hip else "CPU only"
        yield f"torch: {machine['torch']}, {build}"
        yield f"profiler records: {', '.join(machine['activities'])}"
    for device in machine.get("devices", []):
        row = device["peaks"]
        yield f"device: {device['name']}: {row['name'] if row else device['reason']}"
    if not machine.get("devices"):
        yield "device: none"
    yield f"TensorBoard: {'the PROFILE tab loads' if board['plugin_loads'] else board['error']}"
