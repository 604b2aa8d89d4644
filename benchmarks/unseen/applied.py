"""Does the change that a report proposes save what it promises? Of programs that nobody planted.

    python benchmarks/unseen/applied.py [clean_gan ...] [--pairs 2]

A program called clean may earn a warning that is true, and an author's fix need not be the change
that the report proposes. Here the proposed change itself is made, from outside and in every place
(`fused=True` of each optimizer, `self.log` in one batch of 50), and both forms take turns of ten
steps without a profiler, so that both meet the same machine (benchmarks/faults/turns.py).
"""

import argparse
import importlib
import json
import logging
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(folder) for folder in (HERE, HERE.parent, HERE.parent / "faults")]

from run import SETS  # noqa: E402

sys.path += [str(folder) for folder, _ in SETS.values()]

import lightning as L  # noqa: E402
import torch  # noqa: E402
from _harness import RESULTS, Children, keep_memory, machine, one_thread  # noqa: E402
from turns import Turns  # noqa: E402

NAME = "unseen-applied-2026-11-22.json"
TURN_STEPS, WARM_STEPS, STEPS = 10, 40, 340


def fused() -> None:
    """Give each optimizer made from now on its fused form."""
    for name in ("Adam", "AdamW"):
        usual = getattr(torch.optim, name)

        def made(*args: Any, usual: Any = usual, **options: Any) -> Any:
            return usual(*args, **{**options, "fused": True})

        setattr(torch.optim, name, made)


def seldom_logged() -> None:
    """Let `self.log` and `self.log_dict` log in the batches that slow-logging proposes."""
    for name in ("log", "log_dict"):
        usual = getattr(L.LightningModule, name)

        def logs(self: Any, *args: Any, usual: Any = usual, **options: Any) -> None:
            if (self.trainer.fit_loop.total_batch_idx + 1) % 50 == 0:
                usual(self, *args, **options)

        setattr(L.LightningModule, name, logs)


CHANGES: dict[str, tuple[str, str, Callable[[], None]]] = {
    "clean_gan": ("first", "unfused-optimizer", fused),
    "clean_ctc": ("third", "unfused-optimizer", fused),
    "clean_vae": ("first", "slow-logging", seldom_logged),
    "bar_each_step": ("third", "slow-logging", seldom_logged),
    "csv_flushed": ("third", "slow-logging", seldom_logged),
}
"""Program: its set, the finding whose change is made, and how."""


class Turned(L.Callback):
    """Takes turns with the other run, and times each turn."""

    def __init__(self, turns: Turns) -> None:
        self.turns, self.began_ns = turns, list[int]()

    def on_train_batch_start(self, *_: Any) -> None:
        waited_ns = self.turns.waited_ns(len(self.began_ns))
        self.began_ns.append(time.perf_counter_ns() - waited_ns)

    def turns_ns(self) -> list[float]:
        edges = self.began_ns[WARM_STEPS::TURN_STEPS]
        return [(end - start) / TURN_STEPS for start, end in pairwise(edges)]


def train(name: str, changed: bool, folder: str, turns: Turns) -> list[float]:
    """Train once in a child, changed or not, and return the step time in each turn."""
    from case import Run

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    L.seed_everything(1, verbose=False)
    if changed:
        CHANGES[name][2]()
    turned = Turned(turns)
    turns.begin(WARM_STEPS)
    try:
        importlib.import_module(name).main(Run(STEPS, False, Path(folder), [turned]))
    finally:
        turns.end()
    return turned.turns_ns()


def pair(children: Children, name: str, number: int, *, null: bool) -> list[list[float]]:
    """Return the turns of a program as it is, and with the change; without it again if `null`."""
    signals = [children.semaphore(side == number % 2) for side in (0, 1)]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:

        def run(side: int) -> list[float]:
            turns = Turns(signals[side], signals[1 - side], TURN_STEPS)
            changed, place = bool(side) and not null, f"{folder}/{side}"
            found: list[float] = children.call(train, name, changed, place, turns)
            return found

        return list(pool.map(run, (0, 1)))


def measured(children: Children, name: str, pairs: int, *, null: bool) -> dict[str, Any]:
    """Return what the change saved beside what was promised."""
    group, finding, _ = CHANGES[name]
    looked = json.loads((RESULTS / SETS[group][1]).read_text(encoding="utf-8"))["cases"][name]
    said = [one for one in looked["first_look"]["findings"] if one["id"] == finding]
    now, saved = [], []
    for number in range(pairs):
        before, after = pair(children, name, number, null=null)
        now.append(statistics.median(before) / 1e6)
        saved.append(statistics.median(b - a for b, a in zip(before, after, strict=False)) / 1e6)
    return {
        "finding": finding,
        "predicted_ms": said[0]["saving_ms"] if said else None,
        "step_ms": [round(ms, 3) for ms in now],
        "saved_ms": [round(ms, 3) for ms in saved],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*CHANGES, []])
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument(
        "--null", action="store_true", help="change nothing: what two runs differ by"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    one_thread()
    keep_memory()
    with tempfile.TemporaryDirectory() as folder:
        children = Children("torch", "lightning", log=Path(folder) / "children.log")
        cases = {}
        for name in args.names or CHANGES:
            cases[name] = measured(children, name, args.pairs, null=args.null)
            print(name, json.dumps(cases[name]), flush=True)
    path = args.results / NAME
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    kind = "null" if args.null else "cases"
    known |= {"machine": machine(), kind: {**known.get(kind, {}), **cases}}
    path.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
