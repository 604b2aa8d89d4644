"""`lightning-gpuprof plan`: predicts the batch size that fits a card, without a GPU."""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import TYPE_CHECKING

from lightning_gpuprof.cli.arguments import memory_size, whole_numbers
from lightning_gpuprof.units import percent, size
from lightning_gpuprof.views.text.blocks import aligned

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
    print(json.dumps(document, indent=2) if args.json else text(planned))
    return 0


def text(plan: "Plan") -> str:
    """Return the plan as a page of text."""
    first, line = plan.points[0], plan.allocated
    exact = first.exact_bytes
    return "\n".join(
        [
            f"Predicted, not measured: {plan.precision}, {first.optimizer}, one device",
            f"parameters {size(exact['parameters'])}, gradients {size(exact['gradients'])}, "
            f"optimizer state {size(exact['optimizer_state'])}",
            "",
            *aligned(list(_point_rows(plan)), left=()),
            "",
            f"allocated = {size(line.constant_bytes)} + {size(line.per_sample_bytes)} per sample",
            "",
            *aligned(list(_card_rows(plan)), left=()),
            "",
            *(f"- {sentence}" for sentence in plan.assumptions),
        ]
    )


def _point_rows(plan: "Plan") -> Iterator[tuple[str, ...]]:
    yield "batch size", "activations", "allocated", "reserved", "peak during"
    for point in plan.points:
        activations = size(point.exact_bytes["activations"])
        peaks = (size(point.peak_allocated_bytes), size(point.peak_reserved_bytes))
        yield str(point.batch_size), activations, *peaks, point.peak_phase


def _card_rows(plan: "Plan") -> Iterator[tuple[str, ...]]:
    yield "card", f"batch for {plan.target_frac:.0%}", "reserved", "share", "largest batch"
    for card in plan.cards:
        reserved, frac = card.peak_reserved_bytes, card.vram_frac
        fitting = (str(card.batch_size), size(reserved or 0), percent(frac or 0.0))
        chosen = ("none fits", "", "") if card.batch_size is None else fitting
        yield size(card.vram_bytes), *chosen, str(card.largest_batch_size or "none")
