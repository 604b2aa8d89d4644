"""Measures what profilers and callbacks add to a training step.

    python benchmarks/cost/overhead.py [--quick] [--step tiny] [--only NAME ...] [--traceml VENV]

Two ways. *Within a fit* (`overhead_toggle.py`): blocks of steps with and without a variant take
turns, and each is compared with its neighbour; medians and means of the differences, the latter
with records and losses being written, and with all that disturbs the machine. *Whole fits*: each
variant in a process of its own, in turns (A B A B ...), forked from one that has trained a little
already; the difference to the bare Trainer of the same round, median and range, of means, of
medians over blocks, and of processor time. It holds all there is, threads too, and far more noise:
a bare Trainer once more among the variants shows how much.

With `--raw FILE` the figures of single blocks and fits are kept there, and those of an earlier run
with the same file are added to. TraceML runs in its own virtual environment (`pip install
traceml-ai torch lightning`) as its documentation says, `traceml run SCRIPT`, beside the same script
without it.
"""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # for what the benchmarks share

from _harness import RESULTS, Children, Spread, forked, keep_memory, one_thread, write_results
from overhead_dispatch import COLD, cold_dispatch_ns, dispatch_ns
from overhead_toggle import toggled
from overhead_variants import (
    ADVANCED,
    AGAIN,
    BARE,
    INSIDE,
    KINDS,
    LEFT_OUT,
    LINES,
    OUTSIDE,
    VARIANTS,
    fit,
    step_time,
)

WORKER = Path(__file__).with_name("overhead_variants.py")
TRACEML, TRACEML_BARE = "TraceML (traceml run)", "bare Trainer (TraceML's environment)"
FIGURES = ("mean_ns", "median_ns", "cpu_ns")
NOT_TOGGLED = (BARE, ADVANCED, INSIDE, OUTSIDE)
"""AdvancedProfiler goes on where it is taken out amid an action; a torch.profiler at work is the
whole process's, and one that waits must come to its window."""
Times = dict[str, dict[str, float]]
Pairs = list[dict[str, float]]


def toggle_fits(
    kind: str, names: Sequence[str], seed: int, accelerator: str = "cpu"
) -> dict[str, Pairs]:
    """Toggle each variant in a fit of its own, in forks of this process once it is warm.

    What has used a GPU cannot be forked: there all are in one process.
    """
    step_time(BARE, kind, 3 * KINDS[kind].block, accelerator=accelerator)
    if accelerator != "cpu":
        return {name: toggled(name, kind, seed, accelerator) for name in names}
    return {name: forked(toggled, name, kind, seed) for name in names}


def toggle_row(pairs: Pairs, settled: int) -> dict[str, Any]:
    """Return what a variant adds to a step, in ns: in its first steps and later."""
    parts = {
        "first": [one for one in pairs if one["step"] < settled],
        "later": [one for one in pairs if one["step"] >= settled],
    }
    row: dict[str, Any] = {"bare_ns": statistics.median(one["bare_ns"] for one in pairs)}
    for part, some in parts.items():
        for figure in ("added_ns", "outside_ns"):
            row[f"{part}_{figure}"] = estimate([one[figure] for one in some])
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


def one_round(names: list[str], kind: str, accelerator: str) -> Times:
    """Fit each variant once, in this order, in forks of this process once it is warm."""
    steps = KINDS[kind].steps
    if accelerator == "cpu":
        step_time(BARE, kind, steps // 4, accelerator=accelerator)
        return {name: forked(step_time, name, kind, steps) for name in names}
    # What has used a GPU cannot be forked: here each fit warms up for itself.
    return {name: forked(_on, accelerator, name, kind, steps) for name in names}


def _on(accelerator: str, name: str, kind: str, steps: int) -> dict[str, float]:
    step_time(BARE, kind, steps // 4, accelerator=accelerator)
    return step_time(name, kind, steps, accelerator=accelerator)


def fit_rows(rounds: list[Times]) -> dict[str, Any]:
    """Return each variant's time per step and what it adds, in ns."""
    names = dict.fromkeys(name for one in rounds for name in one)
    return {name: _row(name, rounds) for name in names}


def _row(name: str, rounds: list[Times]) -> dict[str, Any]:
    base = TRACEML_BARE if name == TRACEML else BARE
    having = [one for one in rounds if name in one and (base in one or name == TRACEML_BARE)]
    row: dict[str, Any] = {}
    for figure in FIGURES:
        row[f"step_{figure}"] = Spread.of(one[name][figure] for one in having).as_dict()
        if name not in (BARE, TRACEML_BARE):
            row[f"added_{figure}"] = Spread.of(
                one[name][figure] - one[base][figure] for one in having
            ).as_dict()
    return row


def markdown(kind: str, toggles: dict[str, Any], fits: dict[str, Any]) -> str:
    """Return the tables of one kind of step, in microseconds."""
    text = [f"## {kind} step\n"]
    if toggles:
        bare = statistics.median(row["bare_ns"] for row in toggles.values())
        text += [
            f"Within a fit; a step without takes {bare / 1e3:,.0f} us. Difference of neighbouring "
            f"blocks with its standard error, us per step, from step {KINDS[kind].settled} on. "
            "Medians pass over what happens in few blocks: a write, a neighbour's burst.\n",
            "| | medians | means | outside forward, backward and optimizer: medians | means "
            f"| means before step {KINDS[kind].first or KINDS[kind].settled} |",
            "|---|---|---|---|---|---|",
        ]
        text += [_toggle_line(name, row) for name, row in toggles.items()]
    if fits:
        rounds = max(row["step_mean_ns"]["count"] for row in fits.values())
        text += [
            "\nWhole fits: difference to the bare Trainer of the same round, us per step, median "
            f"of up to {rounds} rounds (range).\n",
            "| | means | medians over blocks | processor time |",
            "|---|---|---|---|",
        ]
        text += [_fit_line(name, row) for name, row in fits.items()]
    return "\n".join([*text, ""])


def _toggle_line(name: str, row: dict[str, Any]) -> str:
    cells = [
        _told(row[f"{key}_ns"], figure)
        for key in ("later_added", "later_outside")
        for figure in ("median", "mean")
    ]
    return f"| {name} | {' | '.join([*cells, _told(row['first_outside_ns'], 'mean')])} |"


def _told(found: dict[str, float] | None, figure: str) -> str:
    return f"{found[figure] / 1e3:+.1f} ± {found[f'{figure}_error'] / 1e3:.1f}" if found else "-"


def _fit_line(name: str, row: dict[str, Any]) -> str:
    cells = []
    for figure in FIGURES:
        added = row.get(f"added_{figure}")
        if added is None:
            cells.append(f"(takes {row[f'step_{figure}']['median'] / 1e3:,.0f})")
        else:
            median, low, high = (added[key] / 1e3 for key in ("median", "low", "high"))
            cells.append(f"{median:+,.1f} ({low:+,.0f} to {high:+,.0f})")
    return f"| {name} | {' | '.join(cells)} |"


def elsewhere(venv: Path, name: str, kind: str) -> dict[str, float]:
    """Fit in another environment, under TraceML's launcher or without it."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "figures.json"
        script = [str(WORKER), BARE, kind, str(KINDS[kind].steps), "--out", str(out)]
        if name == TRACEML:
            launcher = [str(venv / "bin" / "traceml"), "run", script[0], "--mode", "summary"]
            launcher += ["--logs-dir", str(Path(folder) / "logs"), "--run-name", "run"]
            command = [*launcher, "--args", *script[1:]]
        else:
            command = [str(venv / "bin" / "python"), *script]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
        if not out.exists():
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
        if name == TRACEML and not (Path(folder) / "logs" / "run" / "final_summary.json").exists():
            raise RuntimeError(f"TraceML wrote no summary, so it measured nothing:\n{done.stdout}")
        figures: dict[str, float] = json.loads(out.read_text(encoding="utf-8"))
        return figures


def memory_growth(steps: int) -> dict[str, float]:
    """Return what Python's allocator holds for this package, early and late in a long fit.

    Only allocations of the package's own lines are traced, numpy's among them.
    """
    block = KINDS["tiny"].block
    looks = {(steps * share // 100) // block * block for share in range(5, 100, 5)}
    held: dict[int, int] = {}
    rss: dict[int, int] = {}
    ours = tracemalloc.Filter(True, "*lightning_gpuprof*")

    def look(model: Any) -> None:
        if model.count in looks:
            found = tracemalloc.take_snapshot().filter_traces([ours]).statistics("filename")
            held[model.count] = sum(one.size for one in found)
            rss[model.count] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    tracemalloc.start()
    fit("GpuProfCallback outside its window", "tiny", steps, at_block=look)
    tracemalloc.stop()
    seen = sorted(held)
    first, last = seen[0], seen[-1]
    return {
        "steps": last - first,
        "most_held_bytes": max(held.values()),
        "held_growth_bytes": held[last] - held[first],
        "peak_rss_growth_bytes": rss[last] - rss[first],
    }


def measure(
    kind: str, children: Children, args: Namespace, known: dict[str, Any], save: Callable[[], None]
) -> None:
    """Add to what is known of a kind of step."""
    names = [name for name in VARIANTS if name not in LEFT_OUT and name in (args.only or VARIANTS)]
    pairs: dict[str, Pairs] = known.setdefault("pairs", {})
    to_toggle = [name for name in names if name not in NOT_TOGGLED and LINES not in name]
    for name in to_toggle:
        pairs.setdefault(name, [])
    fits = KINDS[kind].fits if args.fits is None else args.fits
    for seed in range(args.seed, args.seed + fits):
        found = children.call(
            toggle_fits, kind, to_toggle, seed, args.accelerator, timeout_s=3_600.0
        )
        for name, some in found.items():
            pairs[name] += some
        save()
        _say(f"{kind}: toggled, {seed - args.seed + 1} of {fits}")
    rounds: list[Times] = known.setdefault("rounds", [])
    for number in range(args.rounds):
        turn = [BARE, AGAIN, *(name for name in names if name not in (BARE, AGAIN))]
        turn = turn if number % 2 == 0 else turn[::-1]
        rounds.append(children.call(one_round, turn, kind, args.accelerator, timeout_s=3_600.0))
        if args.traceml is not None:
            for name in (TRACEML_BARE, TRACEML):
                rounds[-1][name] = elsewhere(args.traceml, name, kind)
        save()
        _say(f"{kind}: round {number + 1} of {args.rounds}")


def main() -> None:
    """Run everything and write the results."""
    args = _arguments()
    one_thread()
    keep_memory()
    begin = time.monotonic()
    with tempfile.NamedTemporaryFile(suffix=".log", delete=False) as log:
        children = Children("torch", "lightning.pytorch", log=Path(log.name))
    measured: dict[str, Any] = {}
    if args.raw is not None and args.raw.exists():
        measured = json.loads(args.raw.read_text(encoding="utf-8"))

    def save() -> None:
        if args.raw is not None:
            args.raw.write_text(json.dumps(measured), encoding="utf-8")

    if args.dispatch:
        measured["dispatch_ns_per_step"] = children.call(dispatch_ns)
        known = measured.setdefault("cold_dispatch_pairs", {})
        for name in COLD:
            known[name] = known.get(name, []) + children.call(cold_dispatch_ns, name)
        save()
    for kind in args.step:
        measure(kind, children, args, measured.setdefault(kind, {}), save)
    if args.memory_steps:
        _say(f"memory over {args.memory_steps} steps")
        measured["memory"] = children.call(memory_growth, args.memory_steps, timeout_s=1_800.0)
        save()
    tables = {
        kind: {
            "toggled": {
                name: toggle_row(some, KINDS[kind].settled)
                for name, some in known["pairs"].items()
                if some
            },
            "whole_fits": fit_rows(known.get("rounds", [])),
        }
        for kind, known in measured.items()
        if kind in KINDS
    }
    payload = {"accelerator": args.accelerator, "left_out": LEFT_OUT, "steps": tables}
    cold = measured.pop("cold_dispatch_pairs", {})
    payload |= {name: found for name, found in measured.items() if name not in KINDS}
    payload["cold_dispatch_added_ns"] = {name: estimate(pairs) for name, pairs in cold.items()}
    text = "\n".join(
        markdown(kind, table["toggled"], table["whole_fits"]) for kind, table in tables.items()
    )
    text += "".join(f"\n{name}: {why}.\n" for name, why in LEFT_OUT.items())
    print(text)
    for name in ("dispatch_ns_per_step", "cold_dispatch_added_ns", "memory"):
        print(name, json.dumps(payload.get(name), indent=1))
    path = write_results("overhead", payload, folder=args.results)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    _say(f"{path} after {time.monotonic() - begin:.0f} s")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _arguments() -> Namespace:
    parser = ArgumentParser(description="Measure the overhead per step of profilers.")
    parser.add_argument("--quick", action="store_true", help="some minutes, coarse figures")
    parser.add_argument("--step", nargs="*", choices=list(KINDS), help="default: its device's")
    parser.add_argument("--only", nargs="+", default=[], choices=list(VARIANTS))
    parser.add_argument("--fits", type=int, help="fits per variant that is toggled")
    parser.add_argument("--seed", type=int, default=0, help="of the order of blocks")
    parser.add_argument("--rounds", type=int, help="rounds of whole fits")
    parser.add_argument("--memory-steps", type=int, help="0 leaves the memory out")
    parser.add_argument("--no-dispatch", dest="dispatch", action="store_false")
    parser.add_argument("--traceml", type=Path, help="a virtual environment with traceml-ai")
    parser.add_argument("--accelerator", default="cpu", help="gpu: all fits in one process")
    parser.add_argument("--raw", type=Path, help="add to what this file holds")
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    if args.step is None:
        on_gpu = args.accelerator != "cpu"
        args.step = [kind for kind in KINDS if ("GPU" in kind) == on_gpu]
    if args.quick and args.fits is None:
        args.fits = 1
    if args.rounds is None:
        args.rounds = 1 if args.quick else 7
    if args.memory_steps is None:
        args.memory_steps = 3_000 if args.quick else 100_000
    return args


if __name__ == "__main__":
    main()
