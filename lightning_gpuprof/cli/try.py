"""`lightning-gpuprof try`: what a change gains, measured in short runs of the script itself."""

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

from lightning_gpuprof.cli.arguments import add_program, program_of, span
from lightning_gpuprof.cli.output import write_document
from lightning_gpuprof.records.trials import Trials
from lightning_gpuprof.report.build_trial import build_trial
from lightning_gpuprof.report.clean import printable
from lightning_gpuprof.trials.try_changes import try_program


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add = parser.add_argument
    add(
        "--change",
        action="append",
        type=_change,
        default=[],
        metavar="NAME[=VALUE]",
        help="try this change, with this value or all suitable ones; repeat for more (default: the "
        "changes that the findings of --into, or of a first run, suggest)",
    )
    add("--finding", metavar="ID", help="try only changes that answer this finding")
    add("--for", dest="seconds", type=span, default="10m", metavar="TIME", help="time for all "
        "trials, such as 90s (default: 10m)")  # fmt: skip
    add("--verbose", action="store_true", help="also show which findings each change answers")
    add("--write", metavar="FILE", help="write what to change as YAML")
    add_program(
        parser,
        ", as in `try train.py --lr 1` or `try -- python train.py fit`; it runs unchanged on one "
        "device and writes only to a temporary folder",
        into=": its findings choose what is tried, and its report gets the result",
    )


def run(args: argparse.Namespace) -> int:
    """Run the trials and print what they measured."""
    options = {"changes": args.change, "finding": args.finding, "seconds": args.seconds}
    trials = try_program(program_of(args), into=args.into, on_progress=_progress, **options)
    _progress("")
    if args.write:
        Path(args.write).write_text(_yaml(trials), encoding="utf-8")
    write_document(build_trial(trials), args, verbose=args.verbose)
    return 0


def _progress(text: str) -> None:
    text = printable(text, line_break=" ")
    if sys.stderr.isatty():
        print(f"\r\033[K{text[:79]}", end="", file=sys.stderr, flush=True)
    elif text and ": pair" not in text:
        print(text, file=sys.stderr)


def _change(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, yaml.safe_load(value) if value else None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{name}: the value is not valid YAML") from error


def _yaml(trials: Trials) -> str:
    """Return the settings as YAML for LightningCLI; settings without a key become comments."""
    trainer = trials.settings.trainer
    lines = [line for line in trials.paste.splitlines() if not line.startswith("Trainer(..., ")]
    comments = [f"# {line}\n" for line in (f"lightning-gpuprof try: {trials.program}", *lines)]
    return "".join(comments) + (yaml.safe_dump({"trainer": trainer}) if trainer else "")
