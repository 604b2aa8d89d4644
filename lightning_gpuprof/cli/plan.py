"""`lightning-gpuprof plan`: predicts the batch size that fits a card, without a GPU."""

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import TYPE_CHECKING

from lightning_gpuprof.cli.arguments import memory_size, program_of, whole_numbers
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.report.document import (
    SCHEMA_VERSION,
    Column,
    Document,
    Figure,
    Figures,
    Section,
    Subject,
    Table,
    Text,
    Value,
)

if TYPE_CHECKING:
    from lightning_gpuprof.trials.plan import CardPlan, Plan

BATCH_SIZES = (8, 16, 32)
DEFAULT_CARDS = tuple(gib * 2**30 for gib in (8, 16, 24, 48, 80))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--vram",
        action="append",
        type=memory_size,
        metavar="SIZE",
        help="memory of a card, such as 24GiB; repeat for more "
        f"(default: {', '.join(f'{card >> 30}GiB' for card in DEFAULT_CARDS)})",
    )
    parser.add_argument(
        "--model",
        metavar="MODULE:FUNCTION",
        help="instead of a script, pkg.module:make or file.py:make; make() returns (model, "
        "batch_fn), where batch_fn(batch_size) returns a batch; without configure_optimizers AdamW "
        "is assumed",
    )
    parser.add_argument(
        "--precision",
        choices=("32-true", "bf16-mixed", "16-mixed"),
        help="as for Lightning's Trainer (default: that of the script's Trainer; with --model "
        "32-true)",
    )
    parser.add_argument(
        "--batch-sizes",
        type=whole_numbers,
        metavar="N,N",
        help="sizes to try (default: the script's own, half and twice as much; with "
        "--model 8,16,32)",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument(
        "script",
        nargs="?",
        metavar="SCRIPT",
        help="training script, as in `plan train.py --lr 1` or `plan -- python train.py fit`; it "
        "runs up to its first batch, on the CPU, and writes only to a temporary folder",
    )
    rest = argparse.REMAINDER
    parser.add_argument("arguments", nargs=rest, metavar="...", help="arguments of the script")


def run(args: argparse.Namespace) -> int:
    """Print the plan."""
    if (args.script is None) == (args.model is None):
        given = "neither was" if args.script is None else "both were"
        raise ConfigError(
            f"A plan is for a script or for --model, and {given} given. Pass the script that "
            "calls Trainer.fit, as in `lightning-gpuprof plan train.py`, or --model file.py:make."
        )
    program = program_of(args) if args.script is not None else []
    planned = _planned(args, program)
    document = {"schema_version": 1, "measured": False, **asdict(planned)}
    if args.json:
        print(json.dumps(document, indent=2))
        return 0
    from lightning_gpuprof.report.console import render_for

    shown = plan_document(planned, args.model or " ".join(program))
    sys.stdout.write(render_for(shown, sys.stdout))
    return 0


def _planned(args: argparse.Namespace, program: Sequence[str]) -> "Plan":
    vram_bytes = args.vram or DEFAULT_CARDS
    # Imported below: these load torch.
    if program:
        from lightning_gpuprof.trials.plan_program import plan_program

        return plan_program(
            program,
            vram_bytes=vram_bytes,
            batch_sizes=args.batch_sizes,
            precision=args.precision,
        )
    from lightning_gpuprof.trials.model import load_function
    from lightning_gpuprof.trials.plan import plan

    with redirect_stdout(sys.stderr):  # what the model prints must not mix with the plan
        return plan(
            load_function(args.model),
            vram_bytes=vram_bytes,
            batch_sizes=args.batch_sizes or BATCH_SIZES,
            precision=args.precision or "32-true",
        )


def plan_document(plan: "Plan", name: str) -> Document:
    """Return a plan as a document; `name` is the program or the function of the model."""
    first, line = plan.points[0], plan.allocated
    exact = first.exact_bytes
    parts = (
        Figure("parameters_bytes", "parameters", exact["parameters"], "bytes"),
        Figure("gradients_bytes", "gradients", exact["gradients"], "bytes"),
        Figure("optimizer_state_bytes", "optimizer state", exact["optimizer_state"], "bytes"),
    )
    allocated = (
        Figure("constant_bytes", "allocated for any batch", line.constant_bytes, "bytes"),
        Figure("per_sample_bytes", "and per sample", line.per_sample_bytes, "bytes"),
    )
    program = (
        Figure("own_batch_size", "batch size of the script", plan.own_batch_size, "count"),
        Figure("samples_count", "samples of its dataset", plan.samples, "count"),
    )
    from_program = tuple(figure for figure in program if figure.value is not None)
    return Document(
        SCHEMA_VERSION,
        Subject(
            kind="plan",
            name=name,
            line=f"Predicted, not measured: {plan.precision}, {first.optimizer}, one device",
        ),
        (
            Section("model", "The model", "first", (Figures((*parts, *from_program)),)),
            Section("batch_sizes", "By batch size", "first", (_points(plan), Figures(allocated))),
            Section("cards", "Which batch fits", "first", (_cards(plan),)),
            Section("assumptions", "Assumptions", "first", (Text(plan.assumptions),)),
        ),
    )


def _points(plan: "Plan") -> Table:
    rows: list[dict[str, Value]] = [
        {
            "batch_size": point.batch_size,
            "activations_bytes": point.exact_bytes["activations"],
            "peak_allocated_bytes": point.peak_allocated_bytes,
            "peak_reserved_bytes": point.peak_reserved_bytes,
            "peak_phase": point.peak_phase,
        }
        for point in plan.points
    ]
    columns = (
        Column("batch_size", "Batch size", "count"),
        Column("activations_bytes", "Activations", "bytes"),
        Column("peak_allocated_bytes", "Allocated", "bytes"),
        Column("peak_reserved_bytes", "Reserved", "bytes"),
        Column("peak_phase", "Peak during", "text"),
    )
    return Table("points", columns, tuple(rows))


def _cards(plan: "Plan") -> Table:
    rows: list[dict[str, Value]] = [
        {
            "vram_bytes": card.vram_bytes,
            "batch_size": card.batch_size,
            "peak_reserved_bytes": card.peak_reserved_bytes,
            "vram_frac": card.vram_frac,
            "largest_batch_size": card.largest_batch_size,
            "remark": _remark(card),
        }
        for card in plan.cards
    ]
    columns = (
        Column("vram_bytes", "Card", "bytes"),
        Column("batch_size", f"Batch for {plan.target_frac:.0%}", "count"),
        Column("peak_reserved_bytes", "Reserved", "bytes"),
        Column("vram_frac", "Share", "frac"),
        Column("largest_batch_size", "Largest batch", "count"),
        Column("remark", "", "text"),
    )
    return Table("cards", columns, tuple(rows))


def _remark(card: "CardPlan") -> str | None:
    """Say which sizes are lower bounds, and why."""
    if card.batch_size is None:
        return "none of the sizes tried fits" if card.batch_size_cap else "none fits"
    reasons = {
        "samples": "no more samples",
        "search": "the search ends there",
        "tries": "the search has stopped",
        None: None,
    }
    reason, reason_largest = reasons[card.batch_size_cap], reasons[card.largest_batch_size_cap]
    if reason is not None:
        return f"at least {card.batch_size:,}: {reason}"
    if reason_largest is not None:
        return f"largest is a cap: {reason_largest}"
    return None
