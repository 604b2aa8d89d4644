"""Does `try` choose the best settings, is its ceiling true, and does it leave clean programs alone?

    python benchmarks/try.py settings    # 8 programs and 4 examples: chosen against a whole grid
    python benchmarks/try.py loaders     # 8 loaders: cached batches against data in memory
    python benchmarks/try.py controls    # 10 clean programs: is anything recommended that slows?
    python benchmarks/try.py table       # the results so far as a page

Each call goes on where the last one stopped, also within a grid, and stops after `--budget`
seconds. Nothing else should run meanwhile. A grid has at most 16 points, each measured in
turns with the program as it is; then what `try` chose and the best point take turns themselves.
`settings` takes up to 20 minutes a program, `loaders` one a loader, `controls` six each.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import msgspec  # noqa: E402
from _harness import RESULTS, keep_memory, machine, one_thread, say, table  # noqa: E402

from lightning_gpuprof.records.trials import ChangedSettings  # noqa: E402
from lightning_gpuprof.report.load import load_report  # noqa: E402
from lightning_gpuprof.trials.change import changes, merged  # noqa: E402
from lightning_gpuprof.trials.pairs import MIN_FRAC  # noqa: E402
from lightning_gpuprof.trials.processes import ChildFailed, Children, Variant  # noqa: E402
from lightning_gpuprof.trials.proposals import WatchedRun  # noqa: E402
from lightning_gpuprof.trials.trial_series import take_turns  # noqa: E402
from lightning_gpuprof.trials.try_changes import lengths, try_program  # noqa: E402

UNSEEN = (
    "csv_rows", "needless_workers", "tensors_through_worker", "file_per_molecule",
    "oversized_jpegs", "many_logs", "group_per_parameter", "clean_cnn",
)  # fmt: skip
EXAMPLES = ("char_lm", "dreamer_rssm", "kg_rollout", "latent_yaml")
CONTROLS = (
    "perceptron", "convolutions", "attention", "compiled", "two_players", "accumulation",
    "clipping_and_epochs", "one_worker", "logging_and_rates", "validation_and_checkpoint",
)  # fmt: skip
GRID = ("num_workers", "torch_threads", "optimizer", "log_every_n_steps")
MOST_POINTS = 16
POINT_PAIRS, FINAL_PAIRS = 6, 12
LOADER_PAIRS, LOADER_STEPS = 24, 192
NEAR = 0.07
LOADERS = (
    "python_rows", "csv_text", "slow_collate", "ragged", "iterable", "whole_batches",
    "one_worker", "two_workers",
)  # fmt: skip

State = dict[str, Any]
Save = Callable[[], None]


def program(name: str) -> list[str]:
    """Return the command of a program."""
    if name in UNSEEN:
        return [str(HERE / "unseen" / "train.py"), name, "--root", "runs/try"]
    if name in CONTROLS:
        return [str(HERE / "faults" / "case.py"), name, "--folder", "runs/try"]
    return [str(HERE.parent / "example_projects" / name / "before.py")]


def turns(before: Variant, after: Variant, pairs: int) -> tuple[float, float, float]:
    """Let two programs take turns; return what the second takes less, with its interval."""
    left = iter(range(pairs - 2))
    try:
        done = take_turns(
            before,
            after,
            may_go_on=lambda count: next(left, None) is not None,
            on_pair=lambda pairs: None,
        )
    finally:
        after.close()
    assert done.gain is not None
    return done.gain


def compared(
    command: list[str], before: ChangedSettings, after: ChangedSettings, run: WatchedRun
) -> tuple[float, float, float]:
    """Compare a program with some settings and with others, in new processes."""
    warm, steps = lengths(run.results, run.results.step_ns or 1)
    with Children(command, time.monotonic() + 600) as children:
        variants = [
            Variant(children, settings, warm=warm, steps=steps) for settings in (before, after)
        ]
        return turns(*variants, FINAL_PAIRS)


def watched(command: list[str]) -> WatchedRun:
    with Children(command, time.monotonic() + 120) as children:
        report = load_report(children.watch(), analyse=True, measured=False)
        return WatchedRun(report.results, report.findings)


def grid(run: WatchedRun) -> list[ChangedSettings]:
    """Return every combination of the values that suit the program, itself first."""
    ladders: list[list[ChangedSettings]] = []
    for name in GRID:
        change = changes()[name]
        values = change.values(run.results)
        matters = isinstance(values, list) and change.share(run.results) >= MIN_FRAC
        tried = values if matters else []
        settings = [change.settings(value, run.results) for value in tried]
        ladders.append([ChangedSettings(), *settings])
    while prod(map(len, ladders)) > MOST_POINTS:  # the last ones are least expected to gain
        next(ladder for ladder in reversed(ladders) if len(ladder) > 1).pop()
    return [merged(point) for point in product(*ladders)]


def settings(name: str, entry: State, save: Save, seconds: float) -> Iterator[None]:
    """Let `try` choose, measure each point of the grid, then the choice against the best point."""
    command = program(name)
    if "chosen" not in entry:
        found = try_program(command, seconds=seconds, on_progress=say)
        entry["chosen"], entry["seconds"] = msgspec.to_builtins(found.settings), found.seconds
        entry["gain_frac"] = found.combination.gain_frac if found.combination else 0.0
        entry["trials"] = [
            {
                "name": trial.name,
                "verdict": trial.verdict,
                "gain_frac": trial.gain_frac,
                "interval": [trial.low_frac, trial.high_frac],
                "saving_ns": trial.gain_ns,
                "predicted_ns": trial.predicted_ns,
            }
            for trial in found.trials
        ]
        save()
        yield
    run = watched(command)
    points = entry.setdefault("points", [])
    todo = grid(run)[len(points) + 1 :]
    warm, steps = lengths(run.results, run.results.step_ns or 1)
    with Children(command, time.monotonic() + 7200) as children:
        base = Variant(children, ChangedSettings(), warm=warm, steps=steps)
        for point in todo:
            written = msgspec.to_builtins(point)
            say(f"{name}: {written}")
            try:
                variant = Variant(children, point, warm=warm, steps=steps)
                points.append({"settings": written, "gain": turns(base, variant, POINT_PAIRS)})
            except ChildFailed as error:
                points.append({"settings": written, "failed": str(error)})
            save()
            yield
    timed = [one for one in points if "gain" in one and one["gain"][1] > 0]
    best = max(timed, key=lambda one: one["gain"][1], default={"gain": (0, 0, 0), "settings": {}})
    entry["best"] = best
    if best["settings"] != entry["chosen"]:
        chosen, best_settings = (
            msgspec.convert(settings, ChangedSettings)
            for settings in (entry["chosen"], best["settings"])
        )
        entry["behind"] = compared(command, chosen, best_settings, run)
    else:
        entry["behind"] = (0.0, 0.0, 0.0)
    entry["done"] = True


def loaders(name: str, entry: State, save: Save, seconds: float) -> Iterator[None]:
    """Compare a loader whose batches are cached with a loader that has them all in memory."""
    here = str(HERE / "unseen" / "loaders.py")
    functions = ["--functions", f"{here}:make_trainer", f"{here}:make_model"]
    runs = [
        Children([*functions, f"{here}:{name}{memory}"], time.monotonic() + 300)
        for memory in ("", "_in_memory")
    ]
    with runs[0] as first, runs[1] as second:
        in_memory = Variant(second, ChangedSettings(), warm=20, steps=LOADER_STEPS)
        for key, settings in (
            ("cached", ChangedSettings(cached_batches=16)),
            ("plain", ChangedSettings()),
        ):
            variant = Variant(first, settings, warm=20, steps=LOADER_STEPS)
            gain = turns(in_memory, variant, LOADER_PAIRS)
            entry[key] = [-end for end in gain][::-1]  # by how much longer than in memory
        in_memory.close()
    entry["done"] = True
    yield


def controls(name: str, entry: State, save: Save, seconds: float) -> Iterator[None]:
    """Let `try` choose for a clean program; measure anew what it recommends."""
    command = program(name)
    found = try_program(command, seconds=seconds / 3, on_progress=say)
    entry["chosen"], entry["seconds"] = msgspec.to_builtins(found.settings), found.seconds
    entry["verdicts"] = {trial.name: trial.verdict for trial in found.trials}
    if found.settings:
        entry["gain"] = compared(command, ChangedSettings(), found.settings, watched(command))
    entry["done"] = True
    yield


PARTS = {
    "settings": (settings, (*UNSEEN, *EXAMPLES)),
    "loaders": (loaders, LOADERS),
    "controls": (controls, CONTROLS),
}


def page(state: State) -> str:
    """Return what was measured as tables."""
    done = {part: {n: e for n, e in state[part].items() if e.get("done")} for part in PARTS}
    rows = done["settings"].items()
    near = sum(entry["behind"][1] <= NEAR for _, entry in rows)
    true = sum(abs(entry["cached"][1]) <= NEAR for entry in done["loaders"].values())
    slow = sum(entry.get("gain", [0, 0, 0])[1] < 0 for entry in done["controls"].values())
    trials = [
        t for _, entry in rows for t in entry["trials"] if t["predicted_ns"] and t["saving_ns"]
    ]
    inside = sum(
        t["predicted_ns"][0] <= t["saving_ns"][1] and t["saving_ns"][0] <= t["predicted_ns"][1]
        for t in trials
    )
    lines = [
        "# Trials", "",
        f"- chosen settings within {NEAR:.0%} of the best of the grid: {near} of {len(rows)}",
        f"- cached batches within {NEAR:.0%} of data in memory: {true} of {len(done['loaders'])}",
        f"- controls with a recommendation that slows: {slow} of {len(done['controls'])}",
        f"- predictions whose interval meets the measured one: {inside} of {len(trials)}", "",
    ]  # fmt: skip
    head = ("program", "chosen", "gain %", "of the best point", "behind it", "points", "s")
    cells = []
    for name, one in rows:
        gains = (
            f"{one['gain_frac'] * 100:.1f}",
            *map(_percent, (one["best"]["gain"], one["behind"])),
        )
        took = len(one["points"]) + 1, f"{one['seconds']:.0f}"
        cells.append((name, _brief(one["chosen"]), *gains, *took))
    lines += [*table(head, cells), "", "Loaders, both over the step with data in memory:", ""]
    over = done["loaders"].items()
    cells = [(name, _percent(one["plain"]), _percent(one["cached"])) for name, one in over]
    lines += [*table(("loader", "its step %", "cached %"), cells), ""]
    cells = [
        (name, _brief(one["chosen"]), _percent(one.get("gain")), f"{one['seconds']:.0f}")
        for name, one in done["controls"].items()
    ]
    return "\n".join([*lines, *table(("control", "recommended", "its gain %", "s"), cells), ""])


def _percent(gain: Sequence[float] | None) -> str:
    return f"{gain[1] * 100:.1f}" if gain else ""


def _brief(chosen: State) -> str:
    words = [
        f"{key}={value}"
        for options in chosen.values() if isinstance(options, dict)
        for key, value in options.items()
    ]  # fmt: skip
    return ", ".join([*words, *chosen.get("lines", [])]) or "nothing"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", choices=[*PARTS, "table"])
    parser.add_argument("--only", nargs="+", help="some programs, loaders or controls")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which it stops")
    parser.add_argument("--for", dest="seconds", type=float, default=600.0, help="of each `try`")
    today = f"try-{datetime.now(timezone.utc):%Y-%m-%d}.json"
    parser.add_argument("--results", type=Path, default=RESULTS / today)
    args = parser.parse_args()
    one_thread()
    keep_memory()
    until = time.monotonic() + args.budget
    empty: State = {part: {} for part in PARTS}
    path: Path = args.results
    state: State = json.loads(path.read_text(encoding="utf-8")) if path.exists() else empty

    def save() -> None:
        state["machine"] = machine()
        path.write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")

    measure, names = PARTS.get(args.part, (None, ()))
    for name in names:
        entry = state[args.part].setdefault(name, {})
        if measure is None or entry.get("done") or (args.only and name not in args.only):
            continue
        for _ in measure(name, entry, save, args.seconds):
            if time.monotonic() > until:
                break
        save()
        if time.monotonic() > until:
            break
    path.with_suffix(".md").write_text(page(state), encoding="utf-8")
    print(page(state))


if __name__ == "__main__":
    main()
