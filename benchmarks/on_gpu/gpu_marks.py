"""Measures what this package adds to steps on a GPU, and what stays behind a recording.

    python benchmarks/on_gpu/gpu_marks.py [--json FILE] [--seconds S]

A tiny and a long step are measured within a fit, with and without each variant block by block
(`overhead_toggle.py`): whole fits of the tiny one differ by several hundred microseconds for no
reason of ours. Of the tiny step the time outside forward, backward and optimizer counts; of both
the median of the differences of neighbours. The file is written anew whenever a figure is there.
Where the time is up, only what is done so far counts.
"""

import json
import statistics
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # for what the benchmarks share
sys.path.append(str(Path(__file__).parents[1] / "cost"))

import torch
from _figures import figure
from _part import attempted, keep, options
from overhead import toggle_row
from overhead_toggle import Blocks
from overhead_variants import BARE, DEFAULT, EVERY_STEP, ITEM, KINDS, NO_MARKS, SELF_LOG, fit
from torch import nn

from lightning_gpuprof.adapters.cupti import TEARDOWN
from lightning_gpuprof.adapters.profiler import TorchTrace

TINY, LONG = "tiny, on a GPU", "long, on a GPU"
TURNS = {
    TINY: (
        DEFAULT,
        "DeferredLoss",
        "empty callback",
        "PhaseTimer",
        f"PhaseTimer, {EVERY_STEP}",
        f"PhaseTimer, {EVERY_STEP}, {NO_MARKS}",
        DEFAULT,
        f"{DEFAULT}, {EVERY_STEP}",
        ITEM,
        SELF_LOG,
        DEFAULT,
        "DeferredLoss",
    ),
    LONG: (DEFAULT, f"{DEFAULT}, {EVERY_STEP}", DEFAULT),
}
"""Those that are judged come first, and again, so that they are the sharpest."""


def toggle(kind: str, until: float) -> Any:
    """Toggle variants within fits of a kind of step, as many as there is time for.

    Returns:
        By variant, in us: a step without it, and what it adds, outside forward, backward and
        optimizer and in all, as mean and median with their standard errors.
    """
    shape = KINDS[kind]
    fit(BARE, kind, 2 * shape.block, accelerator="gpu", at_block=lambda model: None)
    pairs: dict[str, list[dict[str, float]]] = {}
    rows: dict[str, Any] = {}
    longest = 0.0
    for seed, name in enumerate(TURNS[kind]):
        begun = time.monotonic()
        if begun + longest > until:
            break
        count = shape.blocks + shape.settled // shape.block
        wait = torch.cuda.synchronize
        blocks = Blocks(0, 0, count, size=shape.block, seed=seed, settle=wait)
        steps = 2 * (count + 2) * shape.block
        # Marks on the device are held against the host's boundaries, which stay as they are.
        fit(name, kind, steps, accelerator="gpu", at_block=blocks.begin, clock=blocks.clock)
        pairs[name] = pairs.get(name, []) + [asdict(pair) for pair in blocks.pairs()]
        row = toggle_row(pairs[name], shape.settled)
        rows[name] = {
            "bare_us": round(row["bare_ns"] / 1e3),
            "outside_us": in_us(row["later_outside_ns"]),
            "added_us": in_us(row["later_added_ns"]),
        }
        longest = max(longest, time.monotonic() - begun)
    return rows


def in_us(found: dict[str, float] | None) -> dict[str, float] | None:
    """Return an estimate in us."""
    if found is None:
        return None
    return {name: n if name == "count" else round(n / 1e3, 1) for name, n in found.items()}


def after_recording(steps: int = 60, rounds: int = 5) -> dict[str, Any]:
    """Time a host-bound loop before a recording and after two, in ms per step, the least of rounds.

    Whoever leaves CUPTI attached makes each launch slower for the rest of the process. Behind a
    third recording it is detached (`teardown="on"`), and a fourth shows that it can record again.
    """
    net = nn.Sequential(*[nn.Linear(64, 64) for _ in range(40)]).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
    batch = torch.randn(64, 64, device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        net(batch).sum().backward()
        optimizer.step()

    def least_ms() -> float:
        medians = []
        for _ in range(rounds):
            torch.cuda.synchronize()
            times = []
            for _ in range(steps):
                begin = time.perf_counter_ns()
                step()
                torch.cuda.synchronize()
                times.append(time.perf_counter_ns() - begin)
            medians.append(statistics.median(times))
        return round(min(medians) / 1e6, 3)

    def recorded(*, detach: bool = False) -> int:
        off = dict.fromkeys(("record_shapes", "profile_memory", "with_stack"), False)
        trace = TorchTrace(device_type="cuda", on_intruder=trace_ended, **off)
        trace.prepare()
        step()
        trace.start()
        for _ in range(3):
            step()
        torch.cuda.synchronize()
        if detach:
            obstacles.append(TEARDOWN.before_stop(last=True))
        trace.stop()
        with tempfile.TemporaryDirectory() as folder:
            trace.export(f"{folder}/trace.json")
            events = json.loads(Path(folder, "trace.json").read_text())["traceEvents"]
        return sum(event.get("cat") == "kernel" for event in events)

    obstacles: list[str | None] = []
    for _ in range(20):
        step()
    times, kernels = [least_ms()], []
    for _ in range(2):
        kernels.append(recorded())
        times.append(least_ms())
    recorded(detach=True)
    detached = {"obstacle": obstacles[0], "step_ms": least_ms(), "kernels": recorded()}
    return {"step_ms": times, "kernels": kernels, "detached": detached}


def trace_ended() -> None:
    """Nobody else records here."""
    raise RuntimeError("another profiler has begun")


def judge(figures: dict[str, Any]) -> int:
    """Hold the costs against what is promised; returns how many are beyond it."""

    def median(step: str, variant: str, what: str) -> float | None:
        found = figures[step].get(variant, {}).get(what)  # not there where measuring failed
        return None if found is None else float(found["median"])

    added, deferred = (median(TINY, name, "outside_us") for name in (DEFAULT, "DeferredLoss"))
    long, more = figures[LONG].get(DEFAULT, {}).get("bare_us"), median(LONG, DEFAULT, "added_us")
    share = None if long is None or more is None else more / long
    after = figures["after_recording"]
    before_ms, *later_ms = after.get("step_ms", [None])
    kernels = after.get("kernels", [])
    slower = max(later_ms) / before_ms - 1 if later_ms else None
    again = kernels[1] / kernels[0] if kernels and kernels[0] else None
    detached = after.get("detached", {})
    proven = detached.get("obstacle", "not measured") is None and kernels and kernels[0]
    left = detached["step_ms"] / before_ms - 1 if proven else None
    recorded = detached["kernels"] / kernels[0] if proven else None
    kept = [
        figure("trace: share that a step is slower after recordings", slower, most=0.12),
        figure("trace: kernels of a second recording, of the first one's", again, least=1.0),
        figure("teardown: share that a step is slower once CUPTI is detached", left, most=0.03),
        figure("teardown: kernels of a later recording, of the first one's", recorded, least=1.0),
        figure("timing: µs that GpuProfCallback adds to a tiny step", added, most=40),
        figure("syncs: µs that DeferredLoss adds to a tiny step", deferred, most=10),
        figure("timing: share that GpuProfCallback adds to a long step", share, most=0.005),
        figure("timing: µs of the long step", long, least=5e3, most=2e4),
    ]
    return kept.count(False) + sum("failure" in row for row in figures.values())


def main() -> int:
    chosen = options(__doc__, seconds=120.0).parse_args()
    begun = time.monotonic()
    figures: dict[str, Any] = {}
    most, whole = begun + 0.8 * chosen.seconds, begun + chosen.seconds
    for name, measure in (
        ("after_recording", after_recording),
        (TINY, lambda: toggle(TINY, most)),
        (LONG, lambda: toggle(LONG, whole)),
    ):
        figures[name] = attempted(measure)
        print(f"{name}: {json.dumps(figures[name], indent=1)}", flush=True)
        keep(figures, chosen.json)
    return judge(figures)


if __name__ == "__main__":
    raise SystemExit(main())
