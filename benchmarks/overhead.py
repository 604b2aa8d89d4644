"""Measures what profilers and callbacks add to a training step.

    python benchmarks/overhead.py [--quick] [--traceml VENV] [--memory-steps 100000]

Variants take turns (A B A B ...), each fit in a process of its own, forked from one that has
trained a little already. `added` is the median over rounds of the difference to the bare Trainer
of the same round, with its range: once of a fit's mean time per step, which holds all that was
done, and once of its median over blocks of steps, which leaves out what happens once in many. A
second bare Trainer among the variants shows how much of a difference is noise.

TraceML runs in its own virtual environment (`pip install traceml-ai torch lightning`) as its
documentation says, `traceml run SCRIPT`, beside the same script without it.
"""

import json
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from _harness import RESULTS, Children, Spread, forked, keep_memory, one_thread, write_results
from overhead_dispatch import dispatch_ns
from overhead_memory import memory_growth
from overhead_variants import AGAIN, BARE, KINDS, LEFT_OUT, VARIANTS, step_time

WORKER = Path(__file__).with_name("overhead_variants.py")
STEPS = {"tiny": 800, "30 ms": 60}
QUICK_STEPS = {"tiny": 500, "30 ms": 20}
TRACEML, TRACEML_BARE = "TraceML (traceml run)", "bare Trainer (TraceML's environment)"
FIGURES = ("mean_ns", "median_ns")
Times = dict[str, dict[str, float]]


def one_round(names: list[str], kind: str, steps: int, accelerator: str) -> Times:
    """Fit each variant once, in this order, in forks of this process once it is warm."""
    if accelerator == "cpu":
        step_time(BARE, kind, steps // 4, accelerator=accelerator)
        return {name: forked(step_time, name, kind, steps) for name in names}
    # What has used a GPU cannot be forked: here each fit warms up for itself.
    return {name: forked(_on, accelerator, name, kind, steps) for name in names}


def _on(accelerator: str, name: str, kind: str, steps: int) -> dict[str, float]:
    step_time(BARE, kind, steps // 4, accelerator=accelerator)
    return step_time(name, kind, steps, accelerator=accelerator)


def step_table(children: Children, kind: str, args: Namespace) -> dict[str, Any]:
    """Return each variant's time per step and what it adds, in ns."""
    names = [
        name
        for name in VARIANTS
        if name not in LEFT_OUT and (not args.only or name in (*args.only, BARE, AGAIN))
    ]
    rounds: list[Times] = []
    for number in range(args.rounds):
        turn = names if number % 2 == 0 else names[::-1]
        steps = args.steps[kind]
        rounds.append(children.call(one_round, turn, kind, steps, args.accelerator))
        if args.traceml is not None and number < args.traceml_rounds:
            for name in (TRACEML_BARE, TRACEML):
                rounds[-1][name] = _elsewhere(args.traceml, name, kind, steps)
        _say(f"{kind}: round {number + 1} of {args.rounds}")
    if args.traceml is not None:
        names += [TRACEML_BARE, TRACEML]
    return {name: _row(name, rounds) for name in names}


def _row(name: str, rounds: list[Times]) -> dict[str, Any]:
    base = TRACEML_BARE if name == TRACEML else BARE
    having = [one for one in rounds if name in one]
    row: dict[str, Any] = {}
    for figure in FIGURES:
        row[f"step_{figure}"] = Spread.of(one[name][figure] for one in having).as_dict()
        row[f"added_{figure}"] = Spread.of(
            one[name][figure] - one[base][figure] for one in having
        ).as_dict()
    return row


def markdown(tables: dict[str, dict[str, Any]], rounds: int) -> str:
    """Return one table: microseconds added per step, of means and of medians."""
    lines = [
        f"| us per step, median of {rounds} rounds (range) "
        + "".join(f"| {kind} step, means | {kind} step, medians " for kind in tables)
        + "|"
    ]
    lines.append("|---" * (1 + 2 * len(tables)) + "|")
    for name in next(iter(tables.values())):
        cells = [
            _cell(table[name], name, figure) for table in tables.values() for figure in FIGURES
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _cell(row: dict[str, Any], name: str, figure: str) -> str:
    step_ns = row[f"step_{figure}"]["median"]
    if name in (BARE, TRACEML_BARE):
        return f"(takes {step_ns / 1e3:.0f})"
    median, low, high = (row[f"added_{figure}"][key] for key in ("median", "low", "high"))
    share = median / (step_ns - median)
    return f"{median / 1e3:+.1f} ({low / 1e3:+.0f} to {high / 1e3:+.0f}), {share:+.2%}"


def _elsewhere(venv: Path, name: str, kind: str, steps: int) -> dict[str, float]:
    """Fit in another environment, under TraceML's launcher or without it."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "figures.json"
        script = [str(WORKER), BARE, kind, str(steps), "--out", str(out)]
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


def main() -> None:
    """Run everything and write the results."""
    args = _arguments()
    one_thread()
    keep_memory()
    begin = time.monotonic()
    with tempfile.NamedTemporaryFile(suffix=".log", delete=False) as log:
        children = Children("torch", "lightning.pytorch", log=Path(log.name))
    tables = {kind: step_table(children, kind, args) for kind in args.step}
    payload: dict[str, Any] = {
        "quick": args.quick,
        "rounds": args.rounds,
        "accelerator": args.accelerator,
        "left_out": LEFT_OUT,
        "steps": tables,
    }
    if not args.only:
        payload["dispatch_ns_per_step"] = children.call(dispatch_ns)
    if args.memory_steps:
        _say(f"memory over {args.memory_steps} steps")
        payload["memory"] = children.call(memory_growth, args.memory_steps, timeout_s=1_800.0)
    text = markdown(tables, args.rounds)
    text += "".join(f"\n{name}: {why}.\n" for name, why in LEFT_OUT.items())
    print(text)
    for key in ("dispatch_ns_per_step", "memory"):
        print(key, json.dumps(payload.get(key), indent=1))
    one = args.step[0].replace(" ", "-") if len(args.step) == 1 else None
    path = write_results(f"overhead-{one}" if one else "overhead", payload, folder=args.results)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    _say(f"{path} after {time.monotonic() - begin:.0f} s")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _arguments() -> Namespace:
    parser = ArgumentParser(description="Measure the overhead per step of profilers.")
    parser.add_argument("--quick", action="store_true", help="about three minutes, coarse figures")
    parser.add_argument("--step", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--tiny-steps", type=int, help="steps per fit of the short step")
    parser.add_argument("--memory-steps", type=int, help="0 leaves the memory out")
    parser.add_argument("--traceml", type=Path, help="a virtual environment with traceml-ai")
    parser.add_argument("--traceml-rounds", type=int)
    parser.add_argument("--only", nargs="+", default=[], choices=list(VARIANTS))
    parser.add_argument("--accelerator", default="cpu")
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    args.steps = dict(QUICK_STEPS if args.quick else STEPS)
    if args.tiny_steps is not None:
        args.steps["tiny"] = args.tiny_steps
    if args.rounds is None:
        args.rounds = 3 if args.quick else 15
    if args.traceml_rounds is None:  # a launch of it takes ten seconds, whatever it measures
        args.traceml_rounds = 1 if args.quick else 4
    if args.memory_steps is None:
        args.memory_steps = 3_000 if args.quick else 100_000
    return args


if __name__ == "__main__":
    main()
