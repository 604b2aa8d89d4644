"""The fault suite: is the first finding right, and does its fix save what was predicted?

    python benchmarks/faults/run.py [--only slow_getitem ...] [--quick] [--folder DIR]

Every cause is calibrated on this machine to cost about 5, 20 and 60 % of a step, trained once
under GpuProfCallback, and asked about with `lightning-gpuprof report --json`. Then the faulty and
the fixed run take turns without any profiler, and what the fix saved is compared with what the
report had predicted. Clean controls must give no warning. The suite takes about 40 minutes on two
quiet cores; nothing else should run meanwhile.
"""

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import _path  # noqa: F401  (puts this folder and its parent on the import path)
import case
from _harness import RESULTS, ChildFailed, Children, keep_memory, one_thread, write_results
from calibrate import calibrate
from cause import Cause
from causes import CAUSES
from controls import CONTROLS
from score import Said, Verdict, brief, error_ns, judge, summary
from table import markdown
from turns import Turns
from workload import Fitted, Setup

SHARES = (0.05, 0.20, 0.60)
PAIRS = (2, 3)
"""Pairs of processes, at least and at most."""
SMALL, SMALL_PAIRS = 0.1, (3, 5)
"""Below this share the saving is about what two equal runs differ by: it takes more pairs."""
PRECISE_FRAC = 0.15
"""A saving known to this share of it needs no more pairs."""
LARGE = 0.5
"""From this share on the saving is far above what runs differ by: one pair is enough."""


class Suite:
    """Runs cases in fresh processes and remembers the knobs that calibration found.

    Args:
        folder: Takes log dirs, what the children print, and `knobs.json`.
        quick: One pair of processes takes turns for each case, however little it costs.
    """

    def __init__(self, folder: Path, *, quick: bool) -> None:
        self.folder, self.quick = folder, quick
        self.children = Children("case", log=folder / "children.log")
        self.knobs_path = folder / "knobs.json"
        self.knobs: dict[str, float] = {}
        if self.knobs_path.exists():
            self.knobs = json.loads(self.knobs_path.read_text(encoding="utf-8"))

    def verdict(self, cause: Cause, share: float) -> Verdict:
        knob = self.knob(cause, share)
        said = self.said(cause.name, knob)
        named = next((one for one in said if cause.accepts(one["id"])), None)
        fixed = cause.remedy(named, knob)
        length = {"timed_steps": fixed.timed_steps, "block_steps": fixed.block_steps}
        faulty_ns, fixed_ns, pairs = self.blocks_ns(
            replace(cause.faulty(knob), **length), fixed, pairs=self._pairs(share)
        )
        return judge(
            cause,
            wanted_frac=share,
            knob=knob,
            said=said,
            faulty_ns=faulty_ns,
            fixed_ns=fixed_ns,
            pairs=pairs,
        )

    def _pairs(self, share: float) -> tuple[int, int]:
        if share >= LARGE or self.quick:
            return (1, 1)
        return SMALL_PAIRS if share < SMALL else PAIRS

    def knob(self, cause: Cause, share: float) -> float:
        """Return the knob for a share of the step, calibrated once per folder."""
        name = f"{cause.name} {share}"
        if name not in self.knobs:
            found = calibrate(cause, share, self.steps_ns, self._guess(cause, share))
            self.knobs[name] = found.knob
            self.knobs_path.write_text(json.dumps(self.knobs, indent=1), encoding="utf-8")
            _say(f"  calibrated: {found.knob:g} {cause.knob}, {found.frac:.0%} of the step")
        return self.knobs[name]

    def said(self, name: str, knob: float = 1.0) -> list[dict[str, Any]]:
        """Train a faulty run or a control under our callback and return the report's findings."""
        folder = tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder)
        fitted = self.children.call(case.profiled, name, knob, False, folder)
        findings: list[dict[str, Any]] = report(fitted.log_dir)["findings"]
        shutil.rmtree(folder)
        return findings

    def blocks_ns(
        self, faulty: Setup, fixed: Setup, *, pairs: tuple[int, int]
    ) -> tuple[list[float], list[float], int]:
        """Return the step time of each block of two runs that take turns, and of how many pairs.

        Every second pair begins with the fixed run, and all are new processes: where memory
        comes to lie makes a difference as well. There are as many pairs as it takes to know the
        saving to `PRECISE_FRAC`, between the two numbers given.
        """
        least, most = pairs
        slow: list[float] = []
        fast: list[float] = []
        done = 0
        while done < least or (done < most and not _precise(slow, fast, done)):
            before, after = self._pair(faulty, fixed, done % 2)
            slow.extend(before.block_ns)
            fast.extend(after.block_ns)
            done += 1
        return slow, fast, done

    def steps_ns(self, faulty: Setup, fixed: Setup) -> tuple[float, float]:
        """Return the step times of two runs that take turns once."""
        slow, fast = self._pair(faulty, fixed, first=0)
        return slow.step_ns, fast.step_ns

    def _pair(self, faulty: Setup, fixed: Setup, first: int) -> list[Fitted]:
        turns = [self.children.semaphore(number == first) for number in (0, 1)]
        steps = max(faulty.turn_steps, fixed.turn_steps)
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:

            def run(number: int, setup: Setup) -> Fitted:
                mine = Turns(turns[number], turns[1 - number], steps)
                place = f"{folder}/{number}"
                fitted: Fitted = self.children.call(case.in_turns, setup, place, mine)
                return fitted

            with ThreadPoolExecutor(2) as pool:
                return list(pool.map(run, (0, 1), (faulty, fixed)))

    def _guess(self, cause: Cause, share: float) -> float:
        """Begin from the nearest share already calibrated, in proportion to the odds."""
        names = {other: f"{cause.name} {other}" for other in SHARES}
        known = {other: self.knobs[name] for other, name in names.items() if name in self.knobs}
        if not known:
            return cause.guess
        nearest = min(known, key=lambda other: abs(other - share))
        return known[nearest] * (share / (1 - share)) / (nearest / (1 - nearest))


def _precise(slow_ns: list[float], fast_ns: list[float], pairs: int) -> bool:
    savings = [slow - fast for slow, fast in zip(slow_ns, fast_ns, strict=True)]
    error = error_ns(savings, pairs)
    return error is not None and error <= PRECISE_FRAC * abs(statistics.median(savings))


def report(log_dir: str) -> dict[str, Any]:
    """Return `lightning-gpuprof report --json` of a run."""
    command = [sys.executable, "-m", "lightning_gpuprof.cli", "report", log_dir, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ChildFailed(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    payload: dict[str, Any] = json.loads(done.stdout)
    return payload


def run_cases(suite: Suite, args: Namespace) -> Iterator[Verdict]:
    for name, cause in CAUSES.items():
        # The largest first: it is calibrated best, and the others begin from its knob.
        for share in sorted(args.shares, reverse=True):
            if args.only and name not in args.only:
                continue
            _say(f"{name} at {share:.0%}")
            verdict = suite.verdict(cause, share)
            first = verdict.said[0]["id"] if verdict.said else "nothing"
            _say(
                f"  said {first}; {verdict.faulty_ns.median / 1e6:.1f} ms per step, the fix saved "
                f"{verdict.saved_ns / 1e6:.2f} ms (+- {(verdict.saved_error_ns or 0) / 1e6:.2f}), "
                f"predicted {verdict.predicted_ns}"
            )
            yield verdict


def run_controls(suite: Suite, args: Namespace) -> dict[str, Said]:
    said: dict[str, Said] = {}
    for name in CONTROLS:
        if not args.only or name in args.only:
            _say(f"control {name}")
            said[name] = [brief(one) for one in suite.said(name)]
            _say(f"  said {', '.join(one['id'] for one in said[name]) or 'nothing'}")
    return said


def main() -> None:
    args = _arguments()
    one_thread()
    keep_memory()
    args.folder.mkdir(parents=True, exist_ok=True)
    suite = Suite(args.folder, quick=args.quick)
    controls = run_controls(suite, args)
    verdicts: list[Verdict] = []
    complete = True
    try:
        for verdict in run_cases(suite, args):
            verdicts.append(verdict)
    except KeyboardInterrupt:
        complete = False
        _say("stopped: the results hold the cases that were measured, and say so")
    totals = summary(verdicts, controls)
    text = markdown(verdicts, controls, totals)
    print(text)
    if args.only or args.quick:
        _say("nothing written: only whole runs become results")
        return
    payload = {
        "summary": totals,
        "complete": complete,
        "cases": [v.as_dict() for v in verdicts],
        "controls": controls,
    }
    path = write_results("faults", payload, folder=args.results)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    _say(f"written: {path} and {path.with_suffix('.md').name}")


def _arguments() -> Namespace:
    parser = ArgumentParser(description="Measure the findings against injected faults.")
    parser.add_argument("--only", nargs="+", choices=[*CAUSES, *CONTROLS], help="some cases")
    parser.add_argument("--shares", nargs="+", type=float, default=list(SHARES))
    parser.add_argument("--quick", action="store_true", help="one pair each, write nothing")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(tempfile.gettempdir()) / "lightning-gpuprof-faults",
        help="log dirs and calibrated knobs; an existing one is used again",
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    return parser.parse_args()


def _say(text: str) -> None:
    print(f"{datetime.now(timezone.utc):%H:%M:%S} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
