"""`lightning-gpuprof plan`: predicts the batch size that fits a card, without a GPU."""

import argparse
import json
import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import TYPE_CHECKING

from lightning_gpuprof.cli.arguments import memory_size, whole_numbers
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
    from lightning_gpuprof.trials.plan import Plan

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
        required=True,
        metavar="MODULE:FUNCTION",
        help="pkg.module:make or file.py:make; make() returns (model, batch_fn), where "
        "batch_fn(batch_size) returns a batch; without configure_optimizers AdamW is assumed",
    )
    parser.add_argument(
        "--precision",
        choices=("32-true", "bf16-mixed", "16-mixed"),
        default="32-true",
        help="as for Lightning's Trainer (default: 32-true)",
    )
    parser.add_argument(
        "--batch-sizes",
        type=whole_numbers,
        default="8,16,32",
        metavar="N,N",
        help="sizes to try (default: 8,16,32)",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the plan."""
    # Imported here: these load torch.
    from lightning_gpuprof.trials.model import load_function
    from lightning_gpuprof.trials.plan import plan

    with redirect_stdout(sys.stderr):  # what the model prints must not mix with the plan
        planned = plan(
            load_function(args.model),
            vram_bytes=args.vram or DEFAULT_CARDS,
            batch_sizes=args.batch_sizes,
            precision=args.precision,
        )
    document = {"schema_version": 1, "measured": False, **asdict(planned)}
    if args.json:
        print(json.dumps(document, indent=2))
        return 0
    from lightning_gpuprof.report.console import render_for

    sys.stdout.write(render_for(plan_document(planned, args.model), sys.stdout))
    return 0


def plan_document(plan: "Plan", model: str) -> Document:
    """Return a plan as a document; `model` is how the command was given the model."""
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
    return Document(
        SCHEMA_VERSION,
        Subject(
            kind="plan",
            name=model,
            line=f"Predicted, not measured: {plan.precision}, {first.optimizer}, one device",
        ),
        (
            Section("model", "The model", "first", (Figures(parts),)),
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
            "remark": "none fits" if card.batch_size is None else None,
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
