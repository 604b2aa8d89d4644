"""Measures what the callback adds to a training step, in two ways, in about five minutes.

    python benchmarks/cost/overhead.py [--step tiny] [--only NAME ...] [--fits 4] [--rounds 7]

*Within a fit* (`overhead_toggle.py`): blocks of steps with and without a variant take turns, and
each is compared with its neighbour, from the step on at which the cost is steady. *Whole fits*:
each variant in a fork of one warm process, in turns (A B A B ...); the mean of all steps from the
very first on, less that of the bare Trainer of the same round. Whole fits hold all there is, also
threads and first steps, and more noise: a bare Trainer once more among the variants shows how much.

Goals for the short step and all of GpuProfCallback: 5 us within a fit, 15 us over whole fits. The
same with a TensorBoardLogger, which then gets the loss of every step, is beside it.
"""

import statistics
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # for what the benchmarks share

from _figures import figure
from _harness import (
    RESULTS,
    Children,
    Spread,
    forked,
    keep_memory,
    one_thread,
    say,
    table,
    write_results,
)
from overhead_toggle import toggled
from overhead_variants import AGAIN, BARE, DEFAULT, KINDS, LINES, VARIANTS, fit, whole_fit

NOT_TOGGLED = (BARE, LINES)
"""A thread of its own goes on where the variant is taken out."""
GOALS_US = {"within": 5.0, "whole": 15.0}
Pairs = list[dict[str, float]]


def warm_up(kind: str) -> None:
    fit(BARE, kind, 3 * KINDS[kind].block, at_block=lambda model: None)


def toggle_fits(kind: str, names: Sequence[str], seed: int) -> dict[str, Pairs]:
    """Toggle each variant in a fit of its own, in forks of this process once it is warm."""
    warm_up(kind)
    return {name: forked(toggled, name, kind, seed) for name in names}


def one_round(names: Sequence[str], kind: str) -> dict[str, float]:
    """Fit each variant once, in this order, in forks of this process once it is warm."""
    warm_up(kind)
    return {name: forked(whole_fit, name, kind, KINDS[kind].steps) for name in names}


def toggle_row(pairs: Pairs, settled: int) -> dict[str, Any]:
    """Return what a variant adds to a step, in ns: in its first steps and later."""
    parts = {
        "first": [one for one in pairs if one["step"] < settled],
        "later": [one for one in pairs if one["step"] >= settled],
    }
    row: dict[str, Any] = {"bare_ns": statistics.median(one["bare_ns"] for one in pairs)}
    for part, some in parts.items():
        for name in ("added_ns", "outside_ns"):
            row[f"{part}_{name}"] = estimate([one[name] for one in some])
    return row


def estimate(values: Sequence[float]) -> dict[str, float] | None:
    """Return mean and median with their standard errors; None of fewer than two values.

    The median's is that of values of a normal distribution whose width is taken from their median
    distance to it: both pass over what happens to few blocks.
    """
    if len(values) < 2:
        return None
    median, root = statistics.median(values), len(values) ** 0.5
    return {
        "mean": statistics.fmean(values),
        "mean_error": statistics.stdev(values) / root,
        "median": median,
        "median_error": 1.2533 * 1.4826 * statistics.median(abs(v - median) for v in values) / root,
        "count": len(values),
    }


def fit_rows(rounds: list[dict[str, float]]) -> dict[str, Any]:
    """Return each variant's time per step, and what it adds within the rounds, in ns."""
    rows: dict[str, Any] = {}
    for name in rounds[0] if rounds else ():
        rows[name] = {"step_ns": Spread.of(one[name] for one in rounds).as_dict()}
        if name != BARE:
            added = [one[name] - one[BARE] for one in rounds]
            rows[name] |= {"added_ns": Spread.of(added).as_dict()}
    return rows


def markdown(kind: str, toggles: dict[str, Any], fits: dict[str, Any]) -> str:
    """Return one kind of step's table, in microseconds."""
    bare_ns = statistics.median(row["bare_ns"] for row in toggles.values())
    rounds = fits[BARE]["step_ns"]["count"]
    lines = [
        f"## {kind} step\n",
        f"A step without takes {bare_ns / 1e3:,.0f} us. Within a fit: differences of neighbouring "
        f"blocks from step {KINDS[kind].settled} on, with their standard error; medians pass over "
        "what happens in few blocks (a write, a neighbour's burst). Whole fits: mean of the first "
        f"{KINDS[kind].steps:,} steps, difference to the bare Trainer of the same round, median of "
        f"{rounds} rounds (range). us per step.\n",
    ]
    head = ("", "within a fit: medians", "means", "outside computing: medians", "whole fits")
    rows = [
        (
            name,
            _within(toggles.get(name, {}).get("later_added_ns"), "median"),
            _within(toggles.get(name, {}).get("later_added_ns"), "mean"),
            _within(toggles.get(name, {}).get("later_outside_ns"), "median"),
            _whole(fits.get(name, {}).get("added_ns")),
        )
        for name in dict.fromkeys([*toggles, *fits])
        if name != BARE
    ]
    return "\n".join([*lines, *table(head, rows), ""])


def _whole(added: dict[str, float] | None) -> str:
    if added is None:
        return "-"
    median, low, high = (added[name] / 1e3 for name in ("median", "low", "high"))
    return f"{median:+.1f} ({low:+.0f} to {high:+.0f})"


def _within(found: dict[str, float] | None, name: str) -> str:
    return f"{found[name] / 1e3:+.1f} ± {found[f'{name}_error'] / 1e3:.1f}" if found else "-"


def judge(toggles: dict[str, Any], fits: dict[str, Any]) -> None:
    """Print the two figures that have a goal."""
    if DEFAULT in toggles:
        within = toggles[DEFAULT]["later_added_ns"]["median"] / 1e3
        figure("overhead: us within a fit, short step", within, most=GOALS_US["within"])
    if DEFAULT in fits:
        whole = fits[DEFAULT]["added_ns"]["median"] / 1e3
        figure("overhead: us over whole fits, short step", whole, most=GOALS_US["whole"])


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--step", nargs="*", choices=["tiny", "30 ms"], default=["tiny"])
    parser.add_argument("--only", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--fits", type=int, help="fits per variant that is toggled")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of whole fits")
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    one_thread()
    keep_memory()
    with tempfile.NamedTemporaryFile(suffix=".log", delete=False) as log:
        children = Children("torch", "lightning.pytorch", log=Path(log.name))
    names = [name for name in args.only if name not in NOT_TOGGLED]
    turn = list(dict.fromkeys([BARE, AGAIN, *args.only]))
    steps, texts = {}, []
    for kind in args.step:
        pairs: dict[str, Pairs] = {name: [] for name in names}
        for seed in range(args.fits or KINDS[kind].fits):
            found = children.call(toggle_fits, kind, names, seed, timeout_s=3_600.0)
            pairs = {name: pairs[name] + found[name] for name in names}
            say(f"{kind}: toggled, fit {seed + 1}")
        rounds = []
        for number in range(args.rounds):
            order = turn if number % 2 == 0 else turn[::-1]
            rounds.append(children.call(one_round, order, kind, timeout_s=3_600.0))
            say(f"{kind}: round {number + 1}")
        toggles = {name: toggle_row(some, KINDS[kind].settled) for name, some in pairs.items()}
        fits = fit_rows(rounds)
        steps[kind] = {"toggled": toggles, "whole_fits": fits}
        texts.append(markdown(kind, toggles, fits))
        if kind == "tiny":
            judge(toggles, fits)
    page = "\n".join(texts)
    print(page)
    say(str(write_results("overhead", {"steps": steps}, page=page, folder=args.results)))


if __name__ == "__main__":
    main()
