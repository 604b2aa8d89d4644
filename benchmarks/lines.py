"""Compares each line's share by samples of the stack with its share by the clock.

    python benchmarks/lines.py [--only NAME ...] [--seconds 10] [--repeats 1] [--results FOLDER]

A program is one function, called in each step of a training or in the loader's workers. The truth
comes from its twin, which reads the clock around each statement; that runs for some seconds before
and after the training. A line is right within 3 points of it, or where it lies in the interval.
"""

import ast
import gc
import inspect
import json
import logging
import math
import re
import statistics
import sys
import tempfile
import time
import warnings
from argparse import ArgumentParser
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from _harness import QUIET, RESULTS, Children, one_thread, write_results

POINTS, LEAST = 0.03, 0.01
TRUTH_S = 2.0
WORDS = "the quick brown fox, 12 of them, jumps over the lazy dog; and 345 others do not. " * 200
ROWS = json.dumps([{"id": n, "name": f"row {n}", "values": [n, n + 1.5]} for n in range(2000)])
NUMBERS = [(n * 7919) % 100_003 for n in range(20_000)]
FILE = Path(tempfile.gettempdir(), "lines-benchmark")


def python_loops() -> object:
    total, kept = 0.0, []
    for n in range(9000):
        a = n * 3.7 + total
        b = math.sqrt(a + 1.0)
        total = (total + b * b) % 1009
    for n in range(3000):
        kept.append(n % 7)
        if n % 3 == 0:
            total += sum(kept[-8:])
    return total


def lets_go_of_the_lock() -> object:
    x = torch.ones(512, 512)
    y = x @ x
    z = torch.relu(y) + y
    s = torch.ones(300_000).exp()
    y = y @ z
    r = z.sum() + y.sum() + s[0]
    return r


def keeps_the_lock() -> object:
    words = re.findall(r"[a-z]+|\d+", WORDS)
    rows = json.loads(ROWS)
    ordered = sorted(NUMBERS)
    x = torch.tensor(NUMBERS[:4000], dtype=torch.float32)
    y = torch.ones(400, 400) @ torch.ones(400, 400)
    return len(words), len(rows), ordered[0], x[0], y[0]


def sleeps() -> object:
    time.sleep(0.002)
    FILE.write_bytes(b"x" * 4_000_000)
    kept = [n * n for n in range(60_000)]
    time.sleep(0.006)
    data = FILE.read_bytes()
    time.sleep(0.0004)
    return kept[-1], len(data)


def small_operators() -> object:
    x = torch.ones(16, 64)
    for _ in range(60):
        y = x @ x.T
        y = torch.softmax(y, 1)
        x = (y @ x) * 0.5 + x
        x = torch.nn.functional.layer_norm(x, (64,))
    lines = [json.dumps({"n": n}) for n in range(700)]
    r = x.sum() + len(lines)
    return r


def batches() -> object:
    text = WORDS[: len(WORDS) // 8]
    tokens = re.findall(r"\w+", text)
    ids = [len(token) * 31 % 97 for token in tokens]
    return torch.tensor(ids)


def workers() -> object:
    text = WORDS.upper()
    tokens = re.findall(r"[A-Z]+", text)
    time.sleep(0.0005)
    x = torch.tensor([len(token) for token in tokens], dtype=torch.float32)
    return x.sort().values


LONG = (python_loops, lets_go_of_the_lock, keeps_the_lock, sleeps)
PROGRAMS = {one.__name__: one for one in (*LONG, small_operators, batches, workers)}
SAMPLES = {"batches": 16, "workers": 8}
"""Programs that make samples of a batch, and how many of them."""


class Timed(ast.NodeTransformer):
    """Reads the clock around each statement that holds no other."""

    def visit(self, node: ast.AST) -> Any:
        if not isinstance(node, ast.stmt) or hasattr(node, "body"):
            return self.generic_visit(node)
        timed, last = ast.unparse(node), ""
        if isinstance(node, ast.Return):
            timed, last = timed.replace("return", "_result =", 1), "return _result"
        number = node.lineno
        add = f"_spent[{number}] += _clock() - _begun; _calls[{number}] += 1"
        return ast.parse(f"_begun = _clock()\n{timed}\n{add}\n{last}").body


def truth(name: str) -> dict[int, float]:
    """Return each line's share by the twin's clock.

    Where nothing loops, all that remains of the function is its end's, where values are freed.
    """
    lines, first = inspect.getsourcelines(PROGRAMS[name])
    tree = ast.increment_lineno(ast.parse("".join(lines)), first - 1)
    tree = ast.fix_missing_locations(Timed().visit(tree))
    clock, spent, calls = (
        time.perf_counter_ns,
        defaultdict[int, int](int),
        defaultdict[int, int](int),
    )
    space = {**globals(), "_clock": clock, "_spent": spent, "_calls": calls}
    exec(compile(tree, "twin", "exec"), space)
    nothing = statistics.median([-clock() + clock() for _ in range(20_000)])
    whole, end = 0, clock() + TRUTH_S * 1e9
    while clock() < end:
        begun = clock()
        space[name]()
        whole += clock() - begun
    if max(calls.values()) == min(calls.values()):
        spent[max(spent)] += whole - sum(spent.values())
    times = {line: max(0.0, spent[line] - calls[line] * nothing) for line in spent}
    return {line: ns / sum(times.values()) for line, ns in times.items()}


def sampled(name: str, seconds: float, folder: str) -> dict[int, tuple[float, float, float]]:
    """Train with the sampler, and return each line's share of the function, and its interval."""
    from lightning.pytorch import Trainer
    from lightning.pytorch.demos.boring_classes import BoringModel
    from torch.utils.data import DataLoader, Dataset

    from lightning_gpuprof import GpuProfCallback
    from lightning_gpuprof.analysis.run.line_samples import LEAST_COUNT
    from lightning_gpuprof.records.lines import HostLines, LineCount, WorkerLines
    from lightning_gpuprof.records.phases import Phase
    from lightning_gpuprof.records.reader import read_run

    function, in_data = PROGRAMS[name], name in SAMPLES

    class Data(Dataset[Any]):
        def __len__(self) -> int:
            return 1_000_000

        def __getitem__(self, index: int) -> Any:
            if in_data:
                function()
            return torch.ones(32)

    class Model(BoringModel):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            if not in_data:
                function()
            return super().training_step(batch, batch_idx)

    off = dict.fromkeys(("console", "trace", "report"), False)
    trainer = Trainer(
        callbacks=[GpuProfCallback(log_dir=folder, **off)],
        max_time={"seconds": seconds},
        max_steps=-1,
        accelerator="cpu",
        limit_val_batches=0,
        **QUIET,
    )
    options = {"num_workers": 2} if name == "workers" else {}
    trainer.fit(Model(), DataLoader(Data(), batch_size=SAMPLES.get(name, 1), **options))
    session = read_run(folder)[0].sessions[-1]
    lines = session.last(WorkerLines).as_lines if options else session.last(HostLines)
    phase = Phase.DATA_WAIT if in_data else Phase.FORWARD
    source, first = inspect.getsourcelines(function)
    at = defaultdict(list)
    for one in lines.of(phase):
        if one.function in (name, "<listcomp>"):
            at[one.line].append(one)
        elif one.source == "function()":  # values are freed at the end, in the caller by Python
            at[first + len(source) - 1].append(one)
    file = next(one.file for one in lines.of(phase) if one.function == name)
    whole = sum(one.count for ones in at.values() for one in ones)
    part = lines.by_phase[phase.value] / whole
    found = {}
    for line in range(first + 1, first + len(source)):
        rare = LineCount(phase.value, file, line, name, "", None, None, LEAST_COUNT - 1)
        count = sum(one.count for one in at[line])
        low, high = lines.interval(at[line] if count >= LEAST_COUNT else [rare], phase)
        low = low * part if count >= LEAST_COUNT else 0.0
        found[line] = count / whole, low, min(1.0, high * part)
    return found


def compared(name: str, seconds: float) -> list[dict[str, Any]]:
    """Return truth and samples of each line to which either gives one percent."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    gc.disable()  # a collection falls on any line
    text = Path(__file__).read_text(encoding="utf-8").splitlines()
    before = truth(name)
    with tempfile.TemporaryDirectory() as folder:
        shares = sampled(name, seconds, folder)
    after = truth(name)
    rows = []
    for line in sorted({*before, *shares}):
        true = sorted((before.get(line, 0.0), after.get(line, 0.0)))
        share, low, high = shares.get(line, (0.0, 0.0, 0.0))
        off = share - sum(true) / 2
        row = {"line": text[line - 1].strip(), "truth": true, "share": share}
        row |= {"shown": (low, high), "near": abs(off) <= POINTS}
        row["right"] = row["near"] or (low <= true[1] and true[0] <= high)
        if max(true[1], share) >= LEAST:
            rows.append(row)
    return rows


def main() -> int:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=list(PROGRAMS), choices=list(PROGRAMS))
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    one_thread()
    children = Children("torch", "lightning.pytorch", log=Path(tempfile.gettempdir(), "lines.log"))
    found: dict[str, list[Any]] = {name: [] for name in args.only}
    for name in args.only * args.repeats:
        found[name].append(children.call(compared, name, args.seconds))
        print(name)
        for row in found[name][-1]:
            true, shown = ("{:.0%} to {:.0%}".format(*row[key]) for key in ("truth", "shown"))
            said = f"truth {true:12} sampled {row['share']:4.0%}, shown {shown:12}"
            print(f"  {said} {row['line'][:60]}{'' if row['right'] else '  WRONG'}", flush=True)
    rows = [row for runs in found.values() for run in runs for row in run]
    summary = {key: sum(row[key] for row in rows) for key in ("near", "right")}
    print(f"{len(rows)} lines: {summary['near']} within 3 points, {summary['right']} right")
    write_results("lines", {"lines": len(rows), **summary, "programs": found}, folder=args.results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
