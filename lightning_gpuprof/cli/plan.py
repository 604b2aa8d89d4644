"""`lightning-gpuprof plan`: the batch size that fits a card, without running and without a GPU."""

import argparse
import json
from dataclasses import asdict
from typing import Any

import msgspec

from lightning_gpuprof.cli.arguments import add_training_arguments, memory_size
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.hardware.lookup import all_peaks
from lightning_gpuprof.trials.cards import LARGEST_BATCH, CardPlan, Plan
from lightning_gpuprof.trials.child import ask
from lightning_gpuprof.trials.messages import Card, PlanPoint, PlanRequest, cublas_workspace_bytes
from lightning_gpuprof.units import percent, size
from lightning_gpuprof.views.text.blocks import aligned

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
        "--card",
        action="append",
        metavar="NAME",
        help="a card by its name or a part of it, such as h100, with the memory on its datasheet",
    )
    add_training_arguments(parser, sizes="8,16,32")
    parser.add_argument(
        "--outside",
        type=memory_size,
        default="0",
        metavar="SIZE",
        help="memory kept free for the CUDA context and other processes; on your card that is "
        "nvidia-smi's figure less torch's reserved bytes (default: 0, the band leaves room)",
    )


def run(args: argparse.Namespace) -> int:
    """Print the plan."""
    cards = _cards(args.vram or [], args.card or [])
    request = PlanRequest(
        model=args.model,
        batch_sizes=tuple(args.batch_sizes),
        cards=tuple(cards),
        optimizer=args.optimizer,
        precision=args.precision,
        target_frac=args.target,
        outside_bytes=args.outside,
        workspace_bytes=max(cublas_workspace_bytes(card.compute_capability) for card in cards),
    )
    plan = ask(request, Plan)
    print(json.dumps(payload(plan), indent=2) if args.json else text(plan))
    return 0


def _cards(sizes: list[int], names: list[str]) -> list[Card]:
    cards = [Card(num_bytes) for num_bytes in sizes]
    for name in names:
        known = [
            Card(row.memory_gb * 10**9, row.name, row.compute_capability)
            for row in all_peaks()
            if row.memory_gb and name.lower() in row.name.lower()
        ]
        if not known:
            raise ConfigError(
                f"--card {name!r}: no datasheet row of that name gives a memory size. Pass the "
                "size: --vram 24GiB."
            )
        cards += known
    return cards or [Card(num_bytes) for num_bytes in DEFAULT_CARDS]


def payload(plan: Plan) -> dict[str, Any]:
    """Return the plan as JSON values: bytes and fractions, nothing formatted."""
    return {
        "schema_version": 1,
        "measured": False,
        "precision": plan.precision,
        "optimizer": plan.points[0].optimizer,
        "target_frac": list(plan.target_frac),
        "outside_bytes": plan.outside_bytes,
        "points": [_point(point) for point in plan.points],
        "allocated_fit": {**asdict(plan.allocated), "linear": plan.allocated.linear},
        "cards": [_card(card) for card in plan.cards],
        "assumptions": list(plan.assumptions),
    }


def text(plan: Plan) -> str:
    """Return the plan as a page of text."""
    first = plan.points[0]
    exact = first.exact_bytes
    lines = [
        f"Predicted, not measured: {plan.precision}, {first.optimizer}, one device",
        f"parameters {size(exact['parameters'])}, gradients {size(exact['gradients'])}, "
        f"optimizer state {size(exact['optimizer_state'])}",
        "",
        *aligned(_point_rows(plan), left=()),
    ]
    fit = plan.allocated
    bent = "" if fit.linear else f" (not linear: off by up to {percent(fit.residual_frac)})"
    constant, each = size(fit.constant_bytes), size(fit.per_sample_bytes)
    lines += ["", f"allocated = {constant} + {each} per sample{bent}"]
    lines += ["", *aligned(_card_rows(plan), left=()), ""]
    lines += [f"- {sentence}" for sentence in plan.assumptions]
    return "\n".join(lines)


def _point_rows(plan: Plan) -> list[tuple[str, ...]]:
    header = ("batch size", "activations", "allocated", "reserved", "peak in")
    rows: list[tuple[str, ...]] = [header]
    for point in plan.points:
        activations = size(point.exact_bytes["activations"])
        peaks = (size(point.peak_allocated_bytes), size(point.peak_reserved_bytes))
        rows.append((str(point.batch_size), activations, *peaks, point.peak_phase))
    return rows


def _card_rows(plan: Plan) -> list[tuple[str, ...]]:
    low, high = plan.target_frac
    band = f"for {low:.0%}-{high:.0%}"
    rows: list[tuple[str, ...]] = [("card", band, "reserves", "of it", "at most")]
    for card in plan.cards:
        name = card.card.name or size(card.card.vram_bytes)
        largest = "none" if card.largest is None else _batch_size(card.largest)
        if card.point is None or card.frac is None:
            rows.append((name, "none fits", "", "", largest))
        else:
            reserved = size(card.point.peak_reserved_bytes)
            fitting = _batch_size(card.batch_size)
            rows.append((name, fitting, reserved, percent(card.frac), largest))
    return rows


def _batch_size(size: int | None) -> str:
    """Return a size; the end of the search is shown as such."""
    return f"{size} or more" if size == LARGEST_BATCH else str(size)


def _point(point: PlanPoint) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(point)
    del row["assumptions"]  # the plan's own
    return row


def _card(card: CardPlan) -> dict[str, Any]:
    return {
        "card": card.card.name,
        "vram_bytes": card.card.vram_bytes,
        "batch_size": card.batch_size,
        "peak_reserved_bytes": card.point.peak_reserved_bytes if card.point else None,
        "vram_frac": card.frac,
        "largest_batch_size": card.largest,
    }
