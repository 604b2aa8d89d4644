"""`lightning-gpuprof plan`: the batch size that fits a card, without running and without a GPU."""

import argparse
import json
import re
from dataclasses import asdict
from typing import Any

import msgspec

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.hardware.lookup import all_peaks
from lightning_gpuprof.trials.cards import (
    LARGEST_BATCH,
    TARGET_FRAC,
    Card,
    CardPlan,
    Plan,
    make_plan,
)
from lightning_gpuprof.trials.child import PlanChild
from lightning_gpuprof.trials.messages import (
    OPTIMIZERS,
    PRECISIONS,
    cublas_workspace_bytes,
)
from lightning_gpuprof.units import percent, size

DEFAULT_CARDS = ("8GiB", "16GiB", "24GiB", "48GiB", "80GiB")
_UNITS = {"": 1, "B": 1, "MB": 10**6, "GB": 10**9, "MIB": 2**20, "GIB": 2**30}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--model",
        required=True,
        metavar="MODULE:FUNCTION",
        help="pkg.module:make or file.py:make; make() returns (model, batch_fn), where "
        "batch_fn(batch_size) returns a batch, or a LightningModule with example_input_array",
    )
    parser.add_argument(
        "--vram",
        action="append",
        metavar="SIZE",
        help="memory of a card, such as 24GiB; repeat for more "
        f"(default: {', '.join(DEFAULT_CARDS)})",
    )
    parser.add_argument(
        "--card",
        action="append",
        metavar="NAME",
        help="a card by its name or a part of it, such as h100, with the memory on its datasheet",
    )
    add_training_arguments(parser)
    parser.add_argument(
        "--batch-sizes",
        default="8,16,32",
        metavar="N,N",
        help="sizes to predict first (default: 8,16,32)",
    )
    parser.add_argument(
        "--target",
        default=f"{TARGET_FRAC[0]}-{TARGET_FRAC[1]}",
        metavar="LOW-HIGH",
        help="band of the card's memory to fill (default: 0.6-0.8)",
    )
    parser.add_argument(
        "--outside",
        default="0",
        metavar="SIZE",
        help="memory kept free for the CUDA context and other processes; on your card that is "
        "nvidia-smi's figure less torch's reserved bytes (default: 0, the band leaves room)",
    )
    parser.add_argument("--json", action="store_true", help="print the prediction as JSON")


def add_training_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how the model is trained, for `plan` and `tune`."""
    parser.add_argument(
        "--optimizer",
        choices=OPTIMIZERS,
        default="model",
        help="by default what configure_optimizers returns; AdamW for a model without",
    )
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="32-true",
        help="as for Lightning's Trainer (default: 32-true)",
    )


def run(args: argparse.Namespace) -> int:
    """Print the plan."""
    sizes = whole_numbers(args.batch_sizes)
    cards = _cards(args.vram or [], args.card or [])
    band = parse_band(args.target)
    outside = parse_size(args.outside)
    with PlanChild(
        args.model,
        optimizer=args.optimizer,
        precision=args.precision,
        workspace_bytes=max(cublas_workspace_bytes(card.compute_capability) for card in cards),
    ) as child:
        plan = make_plan(
            child.predict,
            batch_sizes=sizes,
            cards=cards,
            precision=args.precision,
            target_frac=band,
            outside_bytes=outside,
        )
    print(json.dumps(payload(plan), indent=2) if args.json else text(plan))
    return 0


def parse_size(written: str) -> int:
    """Read a size such as 24GiB, 80GB or a number of bytes.

    >>> parse_size("24GiB") == 24 * 2**30
    True
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", written)
    unit = _UNITS.get(match[2].upper()) if match else None
    # A bare 80 means GiB to its author, and bytes to us.
    bare = match is not None and not match[2] and 0 < float(match[1]) < 2**20
    if match is None or unit is None or bare:
        raise ConfigError(f"{written!r} is not a size. Write it as 24GiB, 512MiB or 80GB.")
    return int(float(match[1]) * unit)


def _cards(sizes: list[str], names: list[str]) -> list[Card]:
    cards = [Card(parse_size(written)) for written in sizes]
    for name in names:
        rows = [row for row in all_peaks() if name.lower() in row.name.lower()]
        known = [
            Card(row.memory_gb * 10**9, row.name, row.compute_capability)
            for row in rows
            if row.memory_gb
        ]
        if not known:
            raise ConfigError(
                f"--card {name!r}: no datasheet row of that name gives a memory size. Pass the "
                "size: --vram 24GiB."
            )
        cards += known
    return cards or [Card(parse_size(written)) for written in DEFAULT_CARDS]


def payload(plan: Plan) -> dict[str, Any]:
    """Return the plan as JSON values: bytes and fractions, nothing formatted."""
    return {
        "schema_version": 1,
        "measured": False,
        "precision": plan.precision,
        "optimizer": plan.points[0].optimizer,
        "target_frac": list(plan.target_frac),
        "outside_bytes": plan.outside_bytes,
        "points": [
            {
                key: value
                for key, value in msgspec.to_builtins(point).items()
                if key != "assumptions"
            }
            for point in plan.points
        ],
        "allocated_fit": plan.allocated
        and {**asdict(plan.allocated), "linear": plan.allocated.linear},
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
        *table(_point_rows(plan)),
    ]
    if (fit := plan.allocated) is not None:
        bent = "" if fit.linear else f" (not linear: off by up to {percent(fit.residual_frac)})"
        constant, each = size(fit.constant_bytes), size(fit.per_sample_bytes)
        lines += ["", f"allocated = {constant} + {each} per sample{bent}"]
    lines += ["", *table(_card_rows(plan)), ""]
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


def table(rows: list[tuple[str, ...]]) -> list[str]:
    """Return the rows with their columns aligned to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _card(card: CardPlan) -> dict[str, Any]:
    return {
        "card": card.card.name,
        "vram_bytes": card.card.vram_bytes,
        "batch_size": card.batch_size,
        "peak_reserved_bytes": card.point.peak_reserved_bytes if card.point else None,
        "vram_frac": card.frac,
        "largest_batch_size": card.largest,
    }


def whole_numbers(written: str) -> list[int]:
    """Read batch sizes such as 8,16,32."""
    parts = [part.strip() for part in written.split(",")]
    for part in parts:
        if not part.isdecimal():
            raise ConfigError(f"--batch-sizes: {part!r} is not a whole number. Write 8,16,32.")
    return [int(part) for part in parts]


def parse_band(written: str) -> tuple[float, float]:
    """Read a band of memory such as 0.6-0.8."""
    match = re.fullmatch(r"(0?\.\d+|1|1\.0)-(0?\.\d+|1|1\.0)", written.strip())
    if match is None:
        raise ConfigError(f"--target {written!r} is not a band. Write it as 0.6-0.8.")
    low, high = float(match[1]), float(match[2])
    if not 0 < low <= high:
        raise ConfigError(
            f"--target {written!r} holds nothing: the low end comes first, above 0. Write it as "
            "0.6-0.8."
        )
    return low, high
