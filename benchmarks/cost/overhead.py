"""Measures what profilers and callbacks add to a training step.

    python benchmarks/cost/overhead.py [--quick] [--step tiny] [--only NAME ...]

Blocks of steps with and without a variant take turns within a fit (`overhead_toggle.py`), and each
is compared with its neighbour; medians and means of the differences, the latter with records and
losses being written, and with all that disturbs the machine. A bare Trainer once more among the
variants shows how much that is. With `--raw FILE` the figures of single blocks are kept there, and
those of an earlier run with the same file are added to.
"""

import json
import resource
import statistics
import sys
import tempfile
import time
import tracemalloc
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # for what the benchmarks share

from _harness import RESULTS, Children, forked, keep_memory, one_thread, write_results
from overhead_dispatch import COLD, cold_dispatch_ns, dispatch_ns
from overhead_toggle import toggled
from overhead_variants import BARE, KINDS, LEFT_OUT, VARIANTS, fit

Pairs = list[dict[str, float]]


def toggle_fits(kind: str, names: Sequence[str], seed: int) -> dict[str, Pairs]:
    """Toggle each variant in a fit of its own, in forks of this process once it is warm."""
    fit(BARE, kind, 3 * KINDS[kind].block, at_block=lambda model: None)
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


def markdown(kind: str, toggles: dict[str, Any]) -> str:
    """Return the table of one kind of step, in microseconds."""
    bare = statistics.median(row["bare_ns"] for row in toggles.values())
    text = [
        f"## {kind} step\n",
        f"Within a fit; a step without takes {bare / 1e3:,.0f} us. Difference of neighbouring "
        f"blocks with its standard error, us per step, from step {KINDS[kind].settled} on. "
        "Medians pass over what happens in few blocks: a write, a neighbour's burst.\n",
        "| | medians | means | outside forward, backward and optimizer: medians | means "
        f"| means before step {KINDS[kind].settled} |",
        "|---|---|---|---|---|---|",
        *(_toggle_line(name, row) for name, row in toggles.items()),
    ]
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
    kind: str,
    children: Children,
    args: Namespace,
    known: dict[str, Pairs],
    save: Callable[[], None],
) -> None:
    """Add to what is known of a kind of step."""
    names = [name for name in args.only or VARIANTS if name not in LEFT_OUT]
    for name in names:
        known.setdefault(name, [])
    fits = KINDS[kind].fits if args.fits is None else args.fits
    for seed in range(args.seed, args.seed + fits):
        found = children.call(toggle_fits, kind, names, seed, timeout_s=3_600.0)
        for name, some in found.items():
            known[name] += some
        save()
        _say(f"{kind}: {seed - args.seed + 1} of {fits}")


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
        kind: {name: toggle_row(some, KINDS[kind].settled) for name, some in known.items() if some}
        for kind, known in measured.items()
        if kind in KINDS
    }
    payload: dict[str, Any] = {"left_out": LEFT_OUT, "steps": tables}
    cold = measured.pop("cold_dispatch_pairs", {})
    payload |= {name: found for name, found in measured.items() if name not in KINDS}
    payload["cold_dispatch_added_ns"] = {name: estimate(pairs) for name, pairs in cold.items()}
    text = "\n".join(markdown(kind, table) for kind, table in tables.items() if table)
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
    parser.add_argument("--step", nargs="*", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--only", nargs="+", default=[], choices=list(VARIANTS))
    parser.add_argument("--fits", type=int, help="fits per variant")
    parser.add_argument("--seed", type=int, default=0, help="of the order of blocks")
    parser.add_argument("--memory-steps", type=int, help="0 leaves the memory out")
    parser.add_argument("--no-dispatch", dest="dispatch", action="store_false")
    parser.add_argument("--raw", type=Path, help="add to what this file holds")
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    if args.quick and args.fits is None:
        args.fits = 1
    if args.memory_steps is None:
        args.memory_steps = 3_000 if args.quick else 100_000
    return args


if __name__ == "__main__":
    main()
