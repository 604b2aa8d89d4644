"""The fault suite: is the first finding right, and does its fix save what was predicted?

    python benchmarks/faults/run.py [--only slow_getitem ...] [--quick] [--folder DIR]
    python benchmarks/faults/run.py --reports     # is the first finding right? measures no saving
    python benchmarks/faults/run.py --reread      # judges the kept recordings and pairs anew

Every cause is calibrated on this machine to cost about 5, 20 and 60 % of a step, trained once
under GpuProfCallback, and asked about with `lightning-gpuprof report --json`. Then the faulty and
the fixed run take turns without any profiler, and what the fix saved is compared with what the
report had predicted. Clean controls must give no warning. The suite takes `--minutes` on two quiet
cores, with knobs to be found some more; nothing else should run meanwhile. Recordings and pairs
stay in the folder: `--reread` asks today's rules about them and trains nothing.
"""

import json
import math
import os
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # for what the benchmarks share

import case
from _harness import (
    RESULTS,
    Children,
    findings_of,
    keep_memory,
    one_thread,
    report,
    say,
    write_results,
)
from calibrate import calibrate
from cause import Cause
from causes import CAUSES
from controls import CONTROLS
from score import (
    NEAR_FRAC,
    Pair,
    Said,
    Verdict,
    brief,
    error_ns,
    false_alarms,
    judge,
    right_first,
    saving_ns,
    summary,
)
from table import markdown
from turns import Turns
from workload import Fitted, Setup

SHARES = (0.05, 0.20, 0.60)
PAIRS, MOST_PAIRS = 3, 12
"""Pairs of processes for each case, and at most."""
LARGE, LARGE_PAIRS = 0.5, 1
"""From this share on the saving is far above what runs differ by."""
MINUTES = 46.0
"""For all: what is left once each case has its pairs goes to savings that are not known well."""


class Suite:
    """Runs cases in fresh processes and remembers the knobs that calibration found.

    Args:
        folder: Takes log dirs, what the children print, `knobs.json`, and in `kept.json` which
            recording and pairs each case has.
        quick: One pair of processes takes turns for each case, however little it costs.
        reread: Take recordings and pairs from the folder.
    """

    def __init__(self, folder: Path, *, quick: bool, reread: bool = False) -> None:
        self.folder, self.quick, self.reread = folder, quick, reread
        self.kept_path = folder / "kept.json"
        self.kept: dict[str, dict[str, Any]] = {}
        if reread:
            self.kept = json.loads(self.kept_path.read_text(encoding="utf-8"))
        self.children = Children("case", log=folder / "children.log")
        self.knobs_path = folder / "knobs.json"
        self.knobs: dict[str, float] = {}
        if self.knobs_path.exists():
            self.knobs = json.loads(self.knobs_path.read_text(encoding="utf-8"))

    def trial(self, cause: Cause, share: float) -> "Trial":
        """Ask for the report of one case, and measure what its fix saves by the first pairs."""
        if self.reread:
            return self.kept_trial(cause, share)
        knob = self.knob(cause, share)
        key = f"{cause.name} {share}"
        profiled_ns, said = self.said(cause.name, knob, key=key)
        named = next((one for one in said if cause.accepts(one["id"])), None)
        self.kept[key] |= {"knob": knob, "asked": cause.asked(named)}
        fixed = cause.remedy(named, knob)
        length = {"timed_steps": fixed.timed_steps, "block_steps": fixed.block_steps}
        faulty = replace(cause.faulty(knob), **length)
        trial = Trial(cause, share, knob, said, profiled_ns, faulty, fixed)
        several = fixed.timed_steps > fixed.block_steps  # one period tells no error
        few = self.quick or (share >= LARGE and several)
        for _ in range(LARGE_PAIRS if few else PAIRS):
            self.measure(trial)
        return trial

    def measure(self, trial: "Trial") -> None:
        """Let the faulty and the fixed run take turns once more, each in a new process.

        Every second pair begins with the fixed run: where memory comes to lie differs as well.
        """
        slow, fast = self._pair(trial.faulty, trial.fixed, number=len(trial.pairs))
        trial.pairs.append(Pair(slow.block_ns, fast.block_ns, slow.median_ns))
        self.kept[f"{trial.cause.name} {trial.share}"]["pairs"] = [asdict(p) for p in trial.pairs]
        self.keep()

    def kept_trial(self, cause: Cause, share: float) -> "Trial":
        """Return a case with the recording and the pairs of an earlier run."""
        kept = self.kept[f"{cause.name} {share}"]
        said: list[dict[str, Any]] = findings_of(report(kept["log_dir"]))
        named = next((one for one in said if cause.accepts(one["id"])), None)
        asked = cause.asked(named)
        return Trial(
            cause,
            share,
            kept["knob"],
            said,
            kept["median_ns"],
            cause.faulty(kept["knob"]),
            cause.fixed(kept["knob"]),
            [Pair(**pair) for pair in kept["pairs"]],
            other_fix=(None if asked is None else [*asked]) != kept["asked"],
        )

    def keep(self) -> None:
        self.kept_path.write_text(json.dumps(self.kept, indent=1), encoding="utf-8")

    def knob(self, cause: Cause, share: float) -> float:
        """Return the knob for a share of the step, calibrated once per folder."""
        name = f"{cause.name} {share}"
        if name not in self.knobs:
            found = calibrate(cause, share, self.steps_ns, self._guess(cause, share))
            self.knobs[name] = found.knob
            self.knobs_path.write_text(json.dumps(self.knobs, indent=1), encoding="utf-8")
            say(f"  calibrated: {found.knob:g} {cause.knob}, {found.frac:.0%} of the step")
        return self.knobs[name]

    def said(self, name: str, knob: float = 1.0, *, key: str) -> tuple[float, list[dict[str, Any]]]:
        """Train a faulty run or a control under our callback; return its median step and report."""
        if not self.reread:
            folder = tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder)
            fitted = self.children.call(case.profiled, name, knob, False, folder)
            self.kept[key] = {"log_dir": str(fitted.log_dir), "median_ns": fitted.median_ns}
            self.keep()
        kept = self.kept[key]
        findings: list[dict[str, Any]] = findings_of(report(kept["log_dir"]))
        return kept["median_ns"], findings

    def steps_ns(self, faulty: Setup, fixed: Setup) -> tuple[float, float]:
        """Return the step times of two runs that take turns once."""
        slow, fast = self._pair(faulty, fixed)
        return slow.step_ns, fast.step_ns

    def _pair(self, faulty: Setup, fixed: Setup, number: int = 0) -> list[Fitted]:
        turns = [self.children.semaphore(side == number % 2) for side in (0, 1)]
        steps = max(faulty.turn_steps, fixed.turn_steps)
        core = None if faulty.workers or fixed.workers else _core(number // 2)
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:

            def run(side: int, setup: Setup) -> Fitted:
                mine = Turns(turns[side], turns[1 - side], steps, core)
                place = f"{folder}/{side}"
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


def _core(number: int) -> int | None:
    """Return one core after the other; None where a thread cannot be kept on one."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    cores = sorted(os.sched_getaffinity(0))
    return cores[number % len(cores)]


@dataclass
class Trial:
    """One cause at one share: what was said of it, and the pairs measured so far."""

    cause: Cause
    share: float
    knob: float
    said: list[dict[str, Any]]
    profiled_ns: float
    faulty: Setup
    fixed: Setup
    pairs: list[Pair] = field(default_factory=list)
    other_fix: bool = False

    @property
    def lacking(self) -> float:
        """About how many pairs more it takes to know the saving to a quarter; 0 for none."""
        error, saved = error_ns(self.pairs), abs(saving_ns(self.pairs))
        if error is None:
            return 1.0
        return max(0.0, len(self.pairs) * ((error / max(1.0, NEAR_FRAC * saved)) ** 2 - 1))

    def verdict(self) -> Verdict:
        return judge(
            self.cause,
            wanted_frac=self.share,
            knob=self.knob,
            said=self.said,
            pairs=self.pairs,
            profiled_ns=self.profiled_ns,
            other_fix=self.other_fix,
        )


def wanted(args: Namespace) -> Iterator[tuple[str, Cause, float]]:
    for name, cause in CAUSES.items():
        # The largest first: it is calibrated best, and the others begin from its knob.
        for share in sorted(args.shares, reverse=True):
            if not args.only or name in args.only:
                yield f"{name} {share}", cause, share


def run_cases(suite: Suite, args: Namespace) -> Iterator[Trial]:
    for key, cause, share in wanted(args):
        if not suite.reread or suite.kept.get(key, {}).get("pairs"):
            say(f"{cause.name} at {share:.0%}")
            trial = suite.trial(cause, share)
            _tell(trial)
            yield trial


def know_more(suite: Suite, trials: Sequence[Trial], until: float) -> None:
    """Measure more pairs until a time: first of those whose saving takes the fewest more.

    How many is settled by the first pairs: to stop once the pairs agree would favour those that
    agree by chance.
    """
    for trial in sorted(trials, key=lambda one: one.lacking):
        wanted = min(MOST_PAIRS, len(trial.pairs) + math.ceil(trial.lacking))
        while len(trial.pairs) < wanted and time.monotonic() < until:
            suite.measure(trial)
            say(f"{trial.cause.name} at {trial.share:.0%}: pair {len(trial.pairs)} of {wanted}")
            _tell(trial)


def run_reports(suite: Suite, args: Namespace, controls: dict[str, Said]) -> None:
    """Ask for each case's report alone, and write which of them named the cause first."""
    cases: dict[str, Any] = {}
    for key, cause, share in wanted(args):
        found = suite.said(cause.name, suite.knob(cause, share), key=key)[1]
        said = [brief(one) for one in found]
        right = right_first(cause, said)
        cases[key] = {"right_first": right, "said": said}
        first = said[0]["id"] if said else "nothing"
        say(f"{cause.name} at {share:.0%}: {'right' if right else 'WRONG'}, said {first}")
    totals = {
        "case_count": len(cases),
        "first_count": sum(one["right_first"] for one in cases.values()),
        "control_count": len(controls),
        "false_alarm_count": sum(bool(false_alarms(said)) for said in controls.values()),
    }
    print(totals)
    if not args.only:
        payload = {"summary": totals, "cases": cases, "controls": controls}
        say(f"written: {write_results('faults-first', payload, folder=args.results)}")


def _tell(trial: Trial) -> None:
    verdict = trial.verdict()
    first = verdict.said[0]["id"] if verdict.said else "nothing"
    say(
        f"  said {first}; {verdict.faulty_ns.median / 1e6:.1f} ms per step, the fix saved "
        f"{verdict.saved_ns / 1e6:.2f} ms (+- {(verdict.saved_error_ns or 0) / 1e6:.2f}), "
        f"predicted {verdict.predicted_ns}"
    )


def run_controls(suite: Suite, args: Namespace) -> dict[str, Said]:
    said: dict[str, Said] = {}
    for name in CONTROLS:
        if suite.reread and name not in suite.kept:
            continue
        if not args.only or name in args.only:
            say(f"control {name}")
            said[name] = [brief(one) for one in suite.said(name, key=name)[1]]
            say(f"  said {', '.join(one['id'] for one in said[name]) or 'nothing'}")
    return said


def main() -> None:
    parser = ArgumentParser(description="Measure the findings against injected faults.")
    parser.add_argument("--only", nargs="+", choices=[*CAUSES, *CONTROLS], help="some cases")
    parser.add_argument("--shares", nargs="+", type=float, default=list(SHARES))
    parser.add_argument("--quick", action="store_true", help="one pair each, write nothing")
    parser.add_argument("--reports", action="store_true", help="the first findings alone")
    parser.add_argument("--reread", action="store_true", help="judge what the folder keeps")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="no further pair after")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(tempfile.gettempdir()) / "lightning-gpuprof-faults",
        help="log dirs and calibrated knobs; an existing one is used again",
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    one_thread()
    keep_memory()
    args.folder.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + 60 * args.minutes
    suite = Suite(args.folder, quick=args.quick, reread=args.reread)
    controls = run_controls(suite, args)
    if args.reports:
        return run_reports(suite, args, controls)
    trials: list[Trial] = []
    complete = False
    try:
        for trial in run_cases(suite, args):
            trials.append(trial)
        complete = True
        if not args.quick and not args.reread:
            know_more(suite, trials, until)
    except KeyboardInterrupt:
        say("stopped: the results hold the cases that were measured, and say so")
    verdicts = [trial.verdict() for trial in trials]
    totals = summary(verdicts, controls)
    text = markdown(verdicts, controls, totals)
    print(text)
    if args.only or args.quick:
        say("nothing written: only whole runs become results")
        return
    payload = {
        "summary": totals,
        "complete": complete,
        "reread": args.reread,
        "cases": [v.as_dict() for v in verdicts],
        "controls": controls,
    }
    name = "faults-reread" if args.reread else "faults"
    path = write_results(name, payload, page=text, folder=args.results)
    say(f"written: {path} and {path.with_suffix('.md').name}")


if __name__ == "__main__":
    main()
