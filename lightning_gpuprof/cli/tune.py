"""`lightning-gpuprof tune`: a few batch sizes run for real, each in a process of its own."""

import argparse
import json
from dataclasses import asdict
from typing import Any

import msgspec

from lightning_gpuprof.cli.arguments import add_training_arguments
from lightning_gpuprof.trials.messages import TunePoint
from lightning_gpuprof.trials.tune import Tune, samples_per_s, tune
from lightning_gpuprof.units import duration, percent, size
from lightning_gpuprof.views.text.blocks import aligned


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_training_arguments(parser, sizes="8,16,32,64")
    parser.add_argument(
        "--steps", type=int, default=20, metavar="N", help="steps measured per size (default: 20)"
    )
    parser.add_argument(
        "--warmup", type=int, default=5, metavar="N", help="steps before them (default: 5)"
    )
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="auto takes a GPU where there is one; on a CPU memory is not measured",
    )


def run(args: argparse.Namespace) -> int:
    """Measure, and print the curve."""
    tuned = tune(
        args.model,
        args.batch_sizes,
        steps=args.steps,
        warmup=args.warmup,
        optimizer=args.optimizer,
        precision=args.precision,
        device=args.device,
        target_frac=args.target,
    )
    print(json.dumps(payload(tuned), indent=2) if args.json else text(tuned))
    return 0 if tuned.suggested is not None else 1


def payload(tuned: Tune) -> dict[str, Any]:
    """Return the measurements as JSON values; null is not measured."""
    memory, knee = tuned.memory, tuned.knee
    return {
        "schema_version": 1,
        "measured": True,
        "points": [_point(point) for point in tuned.points],
        "knee": knee and asdict(knee),
        "memory": None
        if memory is None
        else {
            "suggested_batch_size": memory.suggested,
            "low": memory.low,
            "high": memory.high,
            "constant_bytes": memory.constant_bytes,
            "per_sample_bytes": memory.per_sample_bytes,
            "reason": memory.reason or "; ".join(memory.notes),
        },
        "suggested_batch_size": tuned.suggested,
        "reason": tuned.reason,
    }


def text(tuned: Tune) -> str:
    """Return the curve as a page of text."""
    rows: list[tuple[str, ...]] = [("batch size", "step", "samples/s", "gain", "peak", "of device")]
    before: float | None = None
    for point in tuned.points:
        if not point.step_ns:
            outcome = "out of memory" if point.out_of_memory else "failed"
            rows.append((str(point.batch_size), outcome, "", "", "", ""))
            continue
        rate = samples_per_s(point)
        gain = "" if before is None else f"{rate / before - 1:+.0%}"
        step = duration(point.step_ns)
        rows.append((str(point.batch_size), step, f"{rate:,.0f}", gain, *_peak(point)))
        before = rate
    first = next((point for point in tuned.points if point.device), None)
    lines = [
        f"Measured on {first.device}" if first else "Nothing ran",
        "",
        *aligned(rows, left=()),
        "",
    ]
    lines += [f"- {p.batch_size}: {p.error}" for p in tuned.points if p.error]
    if tuned.suggested is None:
        return "\n".join([*lines, f"No suggestion: {tuned.reason}"])
    return "\n".join([*lines, f"Suggested batch size: {tuned.suggested} ({tuned.reason})"])


def _peak(point: TunePoint) -> tuple[str, str]:
    peak, total = point.peak_reserved_bytes, point.total_bytes
    if peak is None or not total:
        return "not measured", ""
    return size(peak), percent(peak / total)


def _point(point: TunePoint) -> dict[str, Any]:
    builtins: dict[str, Any] = msgspec.to_builtins(point)
    rate = samples_per_s(point) if point.step_ns else None
    return {**builtins, "samples_per_s": rate}
