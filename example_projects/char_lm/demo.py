"""The demo: trains before.py, prints its report, trains after.py and measures the gain."""

import os
import shlex
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

from lightning_gpuprof import report
from lightning_gpuprof.report.run_report import RunReport

HERE = Path(__file__).parent


def newest_run(runs: str, name: str) -> Path:
    versions = (Path(runs) / name).glob("version_*")
    return max(versions, key=lambda path: int(path.name.split("_")[1]))


def train(script: str, runs: str, more: list[str]) -> Path:
    arguments = [os.path.relpath(HERE / f"{script}.py"), "--runs", runs, *more]
    print(f"\n$ python {shlex.join(arguments)}", flush=True)
    command = [sys.executable, *arguments]
    subprocess.run(command, check=True)
    return newest_run(runs, f"char_lm-{script}")


def step_ms(run: RunReport) -> float:
    mean_ns: float = run.document.figure("mean_ns")
    return mean_ns / 1e6


def wait_ms(run: RunReport) -> float:
    return run.phases["data_wait"].value / 1e6


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--runs", default="runs", help="folder for log dirs")
    parser.add_argument("--steps", help="batches to train, where not as many as the scripts do")
    args = parser.parse_args()
    runs, more = args.runs, ["--steps", args.steps] if args.steps else []

    before = train("before", runs, more)
    slow = report(before)
    place = next((i for i, one in enumerate(slow.findings) if one.id == "data-wait"), None)
    if place is None:
        raise SystemExit(
            "The report has no data-wait here: this machine loads faster than it trains."
        )
    top = slow.findings[place]
    print(f"\nThe report's finding {place + 1} is {top.id}: {top.title}.")
    print("The change that removes it here: clean and encode every file once, before training")
    print("(text.py, EncodedOnce), instead of in every __getitem__. after.py makes that change.")

    after = train("after", runs, more)
    fast = report(after)
    saved_ms = step_ms(slow) - step_ms(fast)
    low, high = top.saving.low_ns / 1e6, top.saving.high_ns / 1e6
    waited_ms = wait_ms(slow) - wait_ms(fast)
    print(f"\nMeasured: {step_ms(slow):.1f} ms per step before, {step_ms(fast):.1f} ms after:")
    print(f"{saved_ms:.1f} ms saved per step ({step_ms(slow) / step_ms(fast):.2f} x as fast),")
    print(f"the wait for data is {wait_ms(fast):.1f} ms instead of {wait_ms(slow):.1f}.")
    print(f"For the change that it proposes the report had expected {low:.1f} to {high:.1f} ms.")
    if top.change:
        print("That change is workers. This one makes the batches cheaper instead, which, as the")
        print(f"report says, saves up to the whole wait: {wait_ms(slow):.1f} ms.")
    if saved_ms > waited_ms:
        print("The rest: validation reads the same data, the model keeps the caches to itself.")
    commands = Path(sys.executable).parent
    print(f"\nNow look at it:   {commands}/tensorboard --logdir {runs}   (then the PROFILE tab)")
    print(f"The report again: {commands}/lightning-gpuprof report {before}")


if __name__ == "__main__":
    main()
