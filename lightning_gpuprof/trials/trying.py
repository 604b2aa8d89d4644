"""Tries changes one at a time, then the winners together."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lightning_gpuprof.records import trials as record
from lightning_gpuprof.records.trials import CHANGED, FAILED, FASTER, NOT_RUN, Side, Trial, Trials
from lightning_gpuprof.trials.change import snippet
from lightning_gpuprof.trials.pairs import MAX_PAIRS, MIN_FRAC, MIN_PAIRS, Block, Pairs
from lightning_gpuprof.trials.processes import ChildFailed, Program
from lightning_gpuprof.trials.proposals import Context, Pick

TOLERANCE = 1e-3
"""Losses agree where they differ by at most this, times one more than the loss."""
SINGLE_FRAC = 0.75
"""After this share of the time no change is tried by itself any more: the winners need the rest."""
UNEVEN = 1.25
"""The slowest fifth of equal blocks over the fastest, from which on the machine is told."""
SEEN_LOGGERS = ("TensorBoardLogger", "CSVLogger")


@dataclass
class Trying:
    """The trials of one program until the time is over; `forms` makes it with some changes."""

    context: Context
    picks: Sequence[Pick]
    forms: Callable[[Sequence[Pick]], Program]
    until: float
    say: Callable[[str], object] = lambda text: None
    clock: Callable[[], float] = time.monotonic
    trials: list[Trial] = field(default_factory=list)
    _best: dict[str, tuple[float, Pick]] = field(default_factory=dict)
    _base_ns: list[float] = field(default_factory=list)
    _single_until: float = 0.0

    def run(self, program: str, others: Sequence[Trial] = ()) -> Trials:
        """Try everything; `others` needed no trial."""
        began, count = self.clock(), len(self.picks)
        self._single_until = began + SINGLE_FRAC * (self.until - began)
        try:
            for number, pick in enumerate(self.picks):
                self._try(pick, f"[{number + 1}/{count}]", parts=count - number + 2)
            winners, combination = self._combine()
        finally:
            self._base.close()
        settings = self.context.settings(winners)
        return Trials(
            program=program,
            seconds=round(self.clock() - began, 1),
            notes=tuple(self._notes()),
            trials=(*self.trials, *others),
            combination=combination,
            paste=snippet(settings),
            settings=settings,
        )

    @cached_property
    def _base(self) -> Program:
        return self.forms(())

    @cached_property
    def _repeats(self) -> bool:
        """Whether the program as it is gives the same losses twice."""
        with closing(self.forms(())) as again, suppress(ChildFailed):
            again.block()
            return _compared(self._base.first, again.first) != CHANGED
        return False

    def _try(self, pick: Pick, label: str, parts: int) -> None:
        if (why := self._needless(pick)) is not None:
            self.trials.append(self.context.record(pick, verdict=NOT_RUN, note=why))
            return
        trial = self._measured([pick], self._base, label, parts)
        self.trials.append(trial)
        gain = trial.gain_frac or 0.0
        if _wins(trial) and gain > self._best.get(trial.change, (0.0, pick))[0]:
            self._best[trial.change] = gain, pick

    def _needless(self, pick: Pick) -> str | None:
        """Return why a change need not be tried after what was measured so far."""
        if self.clock() >= self._single_until:
            return "no time was left"
        loader = self.context.run.start.loader
        waits = "data-wait" in pick.change.findings and loader and not loader.num_workers
        ceiling = next((t.high_frac for t in self.trials if t.ceiling), None)
        if waits and ceiling is not None and ceiling < MIN_FRAC:
            return f"no wait for data at all would save {max(0.0, ceiling):.1%} of a step at most"
        own = [t for t in self.trials if t.change == pick.change.name and t.verdict != NOT_RUN]
        if own and own[-1].verdict == FAILED:
            return f"{own[-1].name} failed"
        best = max((trial.gain_frac or 0.0 for trial in own), default=0.0)
        if len(own) > 1 and (own[-1].high_frac or 0.0) < best:
            return f"{own[-1].name} was behind another value already"
        return None

    def _measured(self, picks: Sequence[Pick], base: Program, label: str, parts: int) -> Trial:
        """Measure some changes together against a form, in a part of the time that is left."""
        until = self.clock() + (self.until - self.clock()) / parts
        names = [self.context.record(pick, verdict="").name for pick in picks]
        label = f"{label} {' + '.join(names)}"

        def tell(pairs: Pairs) -> None:
            if base is self._base:
                self._base_ns.append(pairs.before[-1].step_ns)
            gain = f", {pairs.gain.middle:+.1%}" if pairs.gain else ""
            left_s = max(0.0, self.until - self.clock())
            self.say(f"{label}: pair {len(pairs.after)}{gain}; {left_s:.0f} s left")

        def go_on(count: int) -> bool:
            return self.clock() < (until if count >= MIN_PAIRS else self.until)

        self.say(f"{label}: starting")
        with closing(self.forms(picks)) as form:
            base.alone = form.alone
            try:
                pairs = take_turns(base, form, go_on=go_on, tell=tell)
                measured = self._figures(pairs, base.first, form.first)
            except ChildFailed as error:
                measured = {"verdict": FAILED, "note": str(error)}
        explained = any(pick.change.redraws or pick.change.alters for pick in picks)
        if measured.get("losses") == CHANGED and not explained:
            measured["alters"] = "the losses of the first steps are others"
        if len(picks) == 1:
            return self.context.record(picks[0], **measured)
        return Trial(change="combination", **measured)

    def _figures(self, pairs: Pairs, base: Block | None, form: Block | None) -> dict[str, Any]:
        losses, gain = _compared(base, form), pairs.gain
        assert gain is not None  # of two pairs at least
        if losses == CHANGED and not self._repeats:
            losses = record.NOT_COMPARED
        before = _side(pairs.before, base)
        after = _side(pairs.after, form, step_ns=round(before.step_ns * (1 - gain.middle)))
        dearer = (after.first_step_ns or 0) - (before.first_step_ns or 0)
        saved = before.step_ns - after.step_ns
        dear = gain.verdict == FASTER and dearer > 10 * before.step_ns
        return {
            "verdict": gain.verdict,
            "losses": losses,
            "pairs": len(pairs.after),
            "before": before,
            "after": after,
            "low_frac": gain.low,
            "gain_frac": gain.middle,
            "high_frac": gain.high,
            "break_even_step": -(-dearer // saved) if dear else None,
        }

    def _combine(self) -> tuple[list[Pick], Trial | None]:
        """Add winner after winner while that gains, then measure all of them anew.

        In new processes: how memory came to lie in the first ones may have favoured one of them.
        """
        ranked = [pick for _, pick in sorted(self._best.values(), key=lambda one: -one[0])]
        chosen = ranked[:1]
        for number, pick in enumerate(ranked[1:], 1):
            parts = len(ranked) - number + 1
            with closing(self.forms(chosen)) as base:
                if _wins(self._measured([*chosen, pick], base, "together:", parts)):
                    chosen.append(pick)
        if not chosen:
            return [], None
        self._base.close()
        whole = self._measured(chosen, self._base, "all together:", 1)
        return (chosen if _wins(whole) else []), whole

    def _notes(self) -> list[str]:
        notes = ["Steps are on one device; validation is no part of them."]
        used = self.context.run.start.trainer.get("loggers") or ()
        if off := [name for name in used if name not in SEEN_LOGGERS]:
            notes.append(f"{', '.join(off)} was off: its time is not in these steps.")
        times, fifth = sorted(self._base_ns), max(1, len(self._base_ns) // 5)
        apart = sum(times[-fifth:]) / sum(times[:fifth]) if times else 1.0
        if apart > UNEVEN:
            notes.append(
                f"The machine was busy or throttled: the same steps took up to {apart:.1f} times "
                "as long as at other times. The intervals hold that."
            )
        return notes


def take_turns(
    before: Program, after: Program, *, go_on: Callable[[int], bool], tell: Callable[[Pairs], None]
) -> Pairs:
    """Have two forms train in turns (A B, B A, ...) until that decides, or `go_on(pairs)` says no.

    `tell` is given the pairs after each of them; two are always trained.
    """
    pairs, count = Pairs(), 0
    while count < 2 or (count < MAX_PAIRS and not pairs.decided and go_on(count)):
        turns = [(before, pairs.before), (after, pairs.after)]
        for form, blocks in turns if count % 2 == 0 else turns[::-1]:
            blocks.append(form.block())
        count += 1
        tell(pairs)
    return pairs


def _wins(trial: Trial) -> bool:
    return trial.verdict == FASTER and not trial.alters and not trial.ceiling


def _compared(base: Block | None, form: Block | None) -> str:
    if base is None or form is None or not base.losses or not form.losses:
        return record.NOT_COMPARED
    pairs = list(zip(base.losses, form.losses, strict=False))
    if all(old == new or (old != old and new != new) for old, new in pairs):
        return record.BIT_EQUAL
    near = all(abs(old - new) <= TOLERANCE * (1 + abs(old)) for old, new in pairs)
    return record.CLOSE if near else CHANGED


def _side(blocks: Sequence[Block], first: Block | None, step_ns: int | None = None) -> Side:
    ns, samples = sum(block.ns for block in blocks), sum(block.samples for block in blocks)
    return Side(
        step_ns=step_ns or round(ns / sum(block.steps for block in blocks)),
        samples_per_s=samples * 1e9 / ns if samples and ns else None,
        memory_bytes=max(block.memory_bytes for block in blocks),
        first_step_ns=first.first_step_ns if first else None,
    )
