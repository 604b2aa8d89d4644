"""`lightning-gpuprof tune`: a few batch sizes run for real, each in a process of its own."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict

from lightning_gpuprof.cli.arguments import add_training_arguments
from lightning_gpuprof.trials.tune import TunePoint, tune
from lightning_gpuprof.units import duration, percent, rate, size
from lightning_gpuprof.views.text.blocks import aligned


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_training_arguments(parser, sizes="8,16,32,64")
    parser.add_argument(
        "--steps", type=int, default=20, metavar="N", help="steps measured per size (default: 20)"
    )


def run(args: argparse.Namespace) -> int:
    """Measure, and print the table; returns 1 where no size ran."""
    points = tune(args.model, args.batch_sizes, steps=args.steps, precision=args.precision)
    if args.json:
        rows = [{**asdict(point), "samples_per_s": point.samples_per_s} for point in points]
        print(json.dumps({"schema_version": 1, "measured": True, "points": rows}, indent=2))
    else:
        print(text(points))
    return 0 if any(point.step_ns for point in points) else 1


def text(points: Sequence[TunePoint]) -> str:
    """Return the points as a table, with the device and the errors."""
    rows: list[tuple[str, ...]] = [("batch size", "step", "samples/s", "peak", "of device")]
    for point in points:
        if point.step_ns:
            speed = (duration(point.step_ns), rate(point.samples_per_s or 0.0))
            rows.append((str(point.batch_size), *speed, *_peak(point)))
        else:
            rows.append((str(point.batch_size), "did not run", "", "", ""))
    errors = [f"- {point.batch_size}: {point.error}" for point in points if point.error]
    device = next((point.device for point in points if point.device), "no device")
    return "\n".join([f"Measured on {device}", "", *aligned(rows, left=()), "", *errors]).rstrip()


def _peak(point: TunePoint) -> tuple[str, str]:
    peak, total = point.peak_reserved_bytes, point.total_bytes
    if peak is None or not total:
        return "not measured", ""
    return size(peak), percent(peak / total)
