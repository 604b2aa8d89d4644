"""Measures what profilers and callbacks add to a training step.

    python benchmarks/overhead.py [--quick] [--traceml VENV] [--memory-steps 100000]

Variants take turns (A B A B ...), each fit in a fresh process; a figure is the median over fits of
the median time per step of blocks of 50 steps. `added` is the median of the differences to the
bare Trainer of the same round, with their range. TraceML runs in its own virtual environment, a
process per fit, beside a bare Trainer of that environment.
"""

import json
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path
from typing import Any

from _harness import RESULTS, Children, Spread, interleaved, one_thread, write_results
from overhead_variants import LEFT_OUT, MATRIX, VARIANTS, dispatch_ns, memory_growth, step_ns

WORKER = Path(__file__).with_name("overhead_variants.py")


def step_table(children: Children, step: str, args: Namespace) -> dict[str, Any]:
    """Return each variant's time per step and what it adds, in ns."""
    steps = args.steps if step == "tiny" else max(200, args.steps // 4)
    fits = {
        name: partial(children.call, step_ns, name, step, steps)
        for name in VARIANTS
        if name not in LEFT_OUT and (not args.only or name in (*args.only, "bare Trainer"))
    }
    if args.traceml is not None:
        for name in ("bare Trainer", "TraceML"):
            fits[f"{name} (its venv)"] = partial(_elsewhere, args.traceml, name, step, steps)
    measured = interleaved(fits, rounds=args.rounds)
    rows = {}
    for name, values in measured.items():
        base = "bare Trainer (its venv)" if name.endswith("(its venv)") else "bare Trainer"
        added = [one - other for one, other in zip(values, measured[base], strict=True)]
        rows[name] = {
            "step_ns": Spread.of(values).as_dict(),
            "added_ns": Spread.of(added).as_dict(),
        }
    return rows


def markdown(tables: dict[str, dict[str, Any]]) -> str:
    """Return one table: added microseconds per step, and the share of the step."""
    lines = [f"| variant | {' | '.join(f'added to a {step} step' for step in tables)} |"]
    lines.append("|---" * (len(tables) + 1) + "|")
    names = next(iter(tables.values()))
    for name in names:
        cells = [_cell(table, name) for table in tables.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _cell(table: dict[str, Any], name: str) -> str:
    row = table[name]
    if name.startswith("bare Trainer"):
        return f"(takes {row['step_ns']['median'] / 1e3:.0f} us)"
    added = row["added_ns"]
    frac = added["median"] / (row["step_ns"]["median"] - added["median"])
    median, low, high = (added[key] / 1e3 for key in ("median", "low", "high"))
    return f"{median:+.1f} us ({low:+.1f} to {high:+.1f}), {frac:+.2%}"


def _elsewhere(venv: Path, name: str, step: str, steps: int) -> float:
    command = [str(venv / "bin" / "python"), str(WORKER), name, step, str(steps)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Run everything and write the results."""
    args = _arguments()
    if args.quick:
        args.rounds, args.steps, args.memory_steps = 2, 600, 3_000
    one_thread()
    with tempfile.NamedTemporaryFile(suffix=".log", delete=False) as log:
        children = Children("torch", "lightning.pytorch", log=Path(log.name))
    tables = {label: step_table(children, label, args) for label in args.step}
    payload = {
        "quick": args.quick,
        "rounds": args.rounds,
        "left_out": LEFT_OUT,
        "steps": tables,
        "dispatch_ns_per_step": children.call(dispatch_ns),
        "memory": children.call(memory_growth, args.memory_steps, timeout_s=1_800.0),
    }
    text = markdown(tables)
    text += "".join(f"\n{name}: {why}.\n" for name, why in LEFT_OUT.items())
    print(text)
    print(json.dumps({key: payload[key] for key in ("dispatch_ns_per_step", "memory")}))
    path = write_results("overhead", payload, folder=args.results)
    path.with_suffix(".md").write_text(text, encoding="utf-8")


def _arguments() -> Namespace:
    parser = ArgumentParser(description="Measure the overhead per step of profilers.")
    parser.add_argument("--quick", action="store_true", help="a few minutes, coarse figures")
    parser.add_argument("--step", nargs="+", default=list(MATRIX), choices=list(MATRIX))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--memory-steps", type=int, default=100_000)
    parser.add_argument("--traceml", type=Path, help="a virtual environment with traceml and torch")
    parser.add_argument("--only", nargs="+", default=[], choices=list(VARIANTS))
    parser.add_argument("--results", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
