"""`lightning-gpuprof lint`: which lines of a training loop make the host wait for a GPU."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.findings.sync_cures import cure
from lightning_gpuprof.records.schema import SyncSite

STEPS = 3
CHILD = "lightning_gpuprof.callbacks.lint_run"


class Result(msgspec.Struct):
    """What the child process found."""

    steps_watched: int
    sites: list[SyncSite]
    trainers: int = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--steps",
        type=int,
        default=STEPS,
        metavar="N",
        help=f"training steps to watch, after one that is not (default: {STEPS})",
    )
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument(
        "script",
        metavar="SCRIPT",
        help="training script; it runs on one device, without validation, until its steps have "
        "been watched. Exit status: 0 none found, 1 some found, 2 the script failed",
    )
    rest = parser.add_argument(
        "arguments",
        nargs=argparse.REMAINDER,
        metavar="...",
        help="arguments of the script; --steps may also stand right after SCRIPT, unless -- does",
    )
    rest.required = False  # else Python before 3.12 says that "..." is missing where SCRIPT is


def run(args: argparse.Namespace) -> int:
    """Print the rows; 1 if there are any."""
    steps, arguments = _own_steps(args.steps, args.arguments)
    if steps < 1:
        raise ConfigError(f"--steps {steps} would watch nothing. Pass 1 or more.")
    if not os.path.isfile(args.script):
        raise ConfigError(f"There is no script {args.script}. Pass the path of a Python file.")
    result = _watch(args.script, steps, arguments)
    if args.json:
        print(json.dumps(payload(result), indent=2))
    else:
        print(text(result))
    return 1 if result.sites else 0


def payload(result: Result) -> dict[str, object]:
    """Return the rows as JSON values."""
    rows = [
        msgspec.to_builtins(site)
        | {"per_step": site.count / site.steps_watched, "replacement": cure(site)}
        for site in result.sites
    ]
    return {"schema_version": 1, "steps_watched": result.steps_watched, "sites": rows}


def text(result: Result) -> str:
    """Return the rows as text, a paragraph each."""
    watched = f"{result.steps_watched} step{'s' if result.steps_watched != 1 else ''} watched"
    if not result.sites:
        return f"No line of the training loop makes the host wait for the device ({watched})."
    one = len(result.sites) == 1
    make = "would make" if result.sites[0].would_sync else "makes" if one else "make"
    lines = [
        f"{len(result.sites)} line{'' if one else 's'} of the training loop {make} the host wait "
        f"for a GPU ({watched})"
    ]
    for site in result.sites:
        count = f"{site.count / site.steps_watched:g} per step"
        blocked = ""
        if site.blocked_ns is not None:
            blocked = f", {site.blocked_ns / site.steps_watched / 1000:.0f} µs blocked per step"
        place = f"{_shown(site.file)}:{site.line}"
        lines += [
            "",
            f"{place}  {site.operation}  by {site.owner}  {count}{blocked}",
            f"    {site.source}",
            f"    -> {cure(site)}",
        ]
    return "\n".join(lines)


def _own_steps(steps: int, arguments: Sequence[str]) -> tuple[int, list[str]]:
    """Take `--steps N` from the front of the script's arguments; `--` keeps it there."""
    rest = list(arguments)
    if rest[:1] == ["--"]:
        return steps, rest[1:]
    if rest[:1] == ["--steps"] and len(rest) > 1 and rest[1].isdigit():
        return int(rest[1]), rest[2:]
    return steps, rest


def _watch(script: str, steps: int, arguments: Sequence[str]) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder, "found.json")
        command = [sys.executable, "-m", CHILD, str(found), str(steps), script, *arguments]
        # What the script prints is none of our answer: it goes to stderr.
        status = subprocess.run(command, stdout=2, check=False).returncode
        result = msgspec.json.decode(found.read_bytes(), type=Result) if found.exists() else None
    if status:
        raise ConfigError(
            f"{script} failed with status {status} before its steps had been watched; what it "
            "said is above. Run it by itself until it trains."
        )
    if result is not None and not result.trainers:
        raise ConfigError(
            f"{script} made no Trainer, so nothing was watched: only loops of Lightning's Trainer "
            "can be. A loop of your own can be put into a LightningModule's training_step."
        )
    if result is None or not result.steps_watched:
        raise ConfigError(
            f"{script} ended without training two steps, so nothing was watched. It must call "
            "Trainer.fit when run as a script; pass its arguments after its path."
        )
    return result


def _shown(path: str) -> str:
    """Return a path below the current folder as relative to it."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
