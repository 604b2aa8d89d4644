"""Tries changes by themselves, then the winners together."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from math import nan

from msgspec.structs import replace

from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.records.trials import (
    BIT_EQUAL,
    CHANGED,
    CLOSE,
    FAILED,
    FASTER,
    NO_TIME,
    NOT_COMPARED,
    NOT_RUN,
    UNDECIDED,
    Side,
    Trial,
    Trials,
)
from lightning_gpuprof.trials.change import snippet
from lightning_gpuprof.trials.pairs import MAX_PAIRS, MIN_FRAC, MIN_PAIRS, Pairs, TrainedBlock
from lightning_gpuprof.trials.processes import ChildFailed, Variant
from lightning_gpuprof.trials.proposals import Candidate, WatchedRun
from lightning_gpuprof.units import percent

TOLERANCE = 1e-3
"""Losses agree if they differ by at most this, times one more than the loss."""
SINGLE_FRAC = 0.75
"""After this share of the time no more changes are tried by themselves: the winners need the
rest."""
UNEVEN_RATIO = 1.25
"""The slowest fifth of equal blocks over the fastest, above which a note says that the machine was
busy."""
MEASURED_LOGGERS = ("TensorBoardLogger", "CSVLogger")
"""Loggers that work as usual in a trial. All others are switched off."""
ONLY_ALONE = "it was faster by itself; its check in new processes ran out of time"
_LONG_FIRST_STEP = 10
"""The result names the step that makes up for a longer first step, if the first step takes longer
by more than this many steps."""


@dataclass
class TrialSeries:
    """Tries the candidates of a program until the time is over.

    Args:
        watched: The run by which the candidates were chosen.
        candidates: What to try, best first.
        make_variant: Returns the program with some changes.
        until: When to end, by `clock`.
        on_progress: Receives a line of text about what is being tried.
        clock: Returns seconds; tests pass a fake.
    """

    watched: WatchedRun
    candidates: Sequence[Candidate]
    make_variant: Callable[[Sequence[Candidate]], Variant]
    until: float
    on_progress: Callable[[str], object] = lambda text: None
    clock: Callable[[], float] = time.monotonic
    _trials: list[Trial] = field(default_factory=list)
    _winners: dict[str, tuple[float, Candidate]] = field(default_factory=dict)
    """For each change the best gain so far, and the candidate that gave it."""
    _unchanged_step_ns: list[float] = field(default_factory=list)
    """The mean step of every block of the unchanged program."""
    _single_until: float = 0.0

    def run(self, program: str, without_trial: Sequence[Trial] = ()) -> Trials:
        """Try everything. The result also lists the changes that need no trial."""
        began, count = self.clock(), len(self.candidates)
        self._single_until = began + SINGLE_FRAC * (self.until - began)
        try:
            for index, candidate in enumerate(self.candidates):
                # The time is divided among the candidates that are left and the combination.
                self._try(candidate, f"[{index + 1}/{count}]", parts=count - index + 2)
            winners, combination = self._combine()
        finally:
            self._unchanged.close()
        settings = self.watched.settings(winners)
        return Trials(
            program=program,
            seconds=round(self.clock() - began, 1),
            notes=tuple(self._notes()),
            trials=(*self._trials, *without_trial),
            combination=combination,
            paste=snippet(settings),
            settings=settings,
        )

    @cached_property
    def _unchanged(self) -> Variant:
        """The program as it is."""
        return self.make_variant(())

    @cached_property
    def _is_reproducible(self) -> bool:
        """Whether the program as it is gives the same losses when it is run again."""
        with closing(self.make_variant(())) as again, suppress(ChildFailed):
            again.train_block()
            return _compare_losses(self._unchanged.first, again.first) != CHANGED
        return False

    def _try(self, candidate: Candidate, label: str, parts: int) -> None:
        if self.clock() >= self._single_until:
            self._trials.append(replace(self.watched.trial(candidate), verdict=NO_TIME))
            return
        reason = self._reason_to_skip(candidate)
        if reason is not None:
            self._trials.append(
                replace(self.watched.trial(candidate), verdict=NOT_RUN, note=reason)
            )
            return
        trial = self._measure([candidate], self._unchanged, label, parts)
        self._trials.append(trial)
        gain = trial.gain_frac or 0.0
        best_gain, _ = self._winners.get(trial.change, (0.0, candidate))
        if _wins(trial) and gain > best_gain:
            self._winners[trial.change] = gain, candidate

    def _reason_to_skip(self, candidate: Candidate) -> str | None:
        """Return why a candidate need not be tried after what was measured so far, or None."""
        loader = self.watched.results.start.loader
        answers_wait = "data-wait" in candidate.change.findings
        without_wait = (trial for trial in self._trials if trial.change == "cached_batches")
        ceiling = next((trial.high_frac for trial in without_wait), None)
        if (
            answers_wait
            and loader
            and not loader.num_workers
            and ceiling is not None
            and ceiling < MIN_FRAC
        ):
            saved = max(0.0, ceiling)
            return f"without any wait for data a step would save {percent(saved)} at most"
        earlier = [
            trial
            for trial in self._trials
            if trial.change == candidate.change.name and trial.verdict not in (NOT_RUN, NO_TIME)
        ]
        if earlier and earlier[-1].verdict == FAILED:
            return f"{earlier[-1].name} failed"
        best = max((trial.gain_frac or 0.0 for trial in earlier), default=0.0)
        if len(earlier) > 1 and (earlier[-1].high_frac or 0.0) < best:
            return f"{earlier[-1].name} was behind another value already"
        return None

    def _measure(
        self, candidates: Sequence[Candidate], base: Variant, label: str, parts: int
    ) -> Trial:
        """Measure candidates together against `base`, in a share of the time that is left.

        The share is one of `parts` equal parts. It counts from the first pair on, so that programs
        that take long to start are measured for as long as others.
        """
        until = self.until
        single_trials = [self.watched.trial(candidate) for candidate in candidates]
        label = f"{label} {' + '.join(trial.name for trial in single_trials)}"

        def on_pair(pairs: Pairs) -> None:
            nonlocal until
            if len(pairs.after) == 1:
                until = self.clock() + (self.until - self.clock()) / parts
            if base is self._unchanged:
                self._unchanged_step_ns.append(pairs.before[-1].step_ns)
            gain = f", {pairs.gain.middle:+.1%}" if pairs.gain else ""
            left_s = max(0.0, self.until - self.clock())
            self.on_progress(f"{label}: pair {len(pairs.after)}{gain}; {left_s:.0f} s left")

        def may_go_on(count: int) -> bool:
            return self.clock() < (until if count >= MIN_PAIRS else self.until)

        self.on_progress(f"{label}: starting")
        if len(candidates) == 1:
            trial = single_trials[0]
        else:
            trial = Trial(change="combination", verdict=NOT_RUN)
        with closing(self.make_variant(candidates)) as variant:
            base.alone = variant.alone
            try:
                pairs = take_turns(base, variant, may_go_on=may_go_on, on_pair=on_pair)
                trial = self._measured_trial(trial, pairs, base.first, variant.first)
            except ChildFailed as error:
                trial = replace(trial, verdict=FAILED, note=str(error))
        expected = any(
            candidate.change.redraws or candidate.change.alters for candidate in candidates
        )
        if trial.losses == CHANGED and not expected:
            trial = replace(trial, alters="the losses of the first steps differ")
        return trial

    def _measured_trial(
        self, trial: Trial, pairs: Pairs, base: TrainedBlock | None, variant: TrainedBlock | None
    ) -> Trial:
        """Return a trial with its figures."""
        gain = pairs.gain
        assert gain is not None  # there are two pairs at least
        losses = _compare_losses(base, variant)
        if losses == CHANGED and not self._is_reproducible:
            losses = NOT_COMPARED
        before = _side(pairs.before, base)
        after = _side(pairs.after, variant, step_ns=round(before.step_ns * (1 - gain.middle)))
        break_even_step = None
        longer_first_ns = (after.first_step_ns or 0) - (before.first_step_ns or 0)
        if gain.verdict == FASTER and longer_first_ns > _LONG_FIRST_STEP * before.step_ns:
            saved_ns = before.step_ns - after.step_ns
            break_even_step = -(-longer_first_ns // saved_ns)
        return replace(
            trial,
            verdict=gain.verdict,
            losses=losses,
            pairs=len(pairs.after),
            before=before,
            after=after,
            low_frac=gain.low,
            gain_frac=gain.middle,
            high_frac=gain.high,
            break_even_step=break_even_step,
        )

    def _combine(self) -> tuple[list[Candidate], Trial | None]:
        """Add one winner after another while that gains time, then measure them together again.

        The last measurement uses new processes, since the place of memory in the old ones may
        have favoured one of the variants. A single winner stays if that measurement had too little
        time to decide.
        """
        by_gain = sorted(self._winners.values(), key=lambda winner: -winner[0])
        ranked = [candidate for _, candidate in by_gain]
        chosen = ranked[:1]
        for index, candidate in enumerate(ranked[1:], 1):
            parts = len(ranked) - index + 1
            with closing(self.make_variant(chosen)) as base:
                if _wins(self._measure([*chosen, candidate], base, "together:", parts)):
                    chosen.append(candidate)
        if not chosen:
            return [], None
        self._unchanged.close()
        combination = self._measure(chosen, self._unchanged, "all together:", 1)
        if len(chosen) == 1 and combination.verdict == UNDECIDED:
            return chosen, replace(combination, note=ONLY_ALONE)
        return (chosen if _wins(combination) else []), combination

    def _notes(self) -> list[str]:
        """Return what a reader of the figures must know."""
        notes = ["All steps ran on one device; validation is not part of them."]
        used = settings_of(self.watched.results.start).loggers
        if off := [name for name in used if name not in MEASURED_LOGGERS]:
            verb = "was" if len(off) == 1 else "were"
            notes.append(f"{', '.join(off)} {verb} off, so its time is not in these steps.")
        times = sorted(self._unchanged_step_ns)
        fifth = max(1, len(times) // 5)
        ratio = sum(times[-fifth:]) / sum(times[:fifth]) if times else 1.0
        if ratio > UNEVEN_RATIO:
            notes.append(
                f"The machine was busy or throttled: the same steps took up to {ratio:.1f} times "
                "as long as at other times. The intervals include that."
            )
        return notes


def take_turns(
    before: Variant,
    after: Variant,
    *,
    may_go_on: Callable[[int], bool],
    on_pair: Callable[[Pairs], None],
) -> Pairs:
    """Let two variants train blocks in turns (A B, B A, ...) until the pairs decide.

    Args:
        before: The first variant.
        after: The second variant.
        may_go_on: Receives the number of pairs, from 2 on, and returns whether to train another.
        on_pair: Receives the pairs after each new pair.
    """
    pairs, count = Pairs(), 0
    while count < 2 or (count < MAX_PAIRS and not pairs.decided and may_go_on(count)):
        turns = [(before, pairs.before), (after, pairs.after)]
        if count % 2:
            turns.reverse()
        for variant, blocks in turns:
            blocks.append(variant.train_block())
        count += 1
        on_pair(pairs)
    return pairs


def _wins(trial: Trial) -> bool:
    return trial.verdict == FASTER and not trial.alters and not trial.ceiling


def _compare_losses(base: TrainedBlock | None, variant: TrainedBlock | None) -> str:
    if base is None or variant is None or not base.losses or not variant.losses:
        return NOT_COMPARED
    both = ([nan if loss is None else loss for loss in block.losses] for block in (base, variant))
    losses = list(zip(*both, strict=False))
    if all(_same_number(before, after) for before, after in losses):
        return BIT_EQUAL
    close = all(abs(before - after) <= TOLERANCE * (1 + abs(before)) for before, after in losses)
    return CLOSE if close else CHANGED


def _same_number(before: float, after: float) -> bool:
    both_nan = before != before and after != after
    return before == after or both_nan


def _side(
    blocks: Sequence[TrainedBlock], first: TrainedBlock | None, step_ns: int | None = None
) -> Side:
    """Return the figures of a variant; `step_ns` takes the place of the mean step."""
    ns = sum(block.ns for block in blocks)
    samples = sum(block.samples for block in blocks)
    return Side(
        step_ns=step_ns or round(ns / sum(block.steps for block in blocks)),
        samples_per_s=samples * 1e9 / ns if samples and ns else None,
        memory_bytes=max(block.memory_bytes for block in blocks),
        first_step_ns=first.first_step_ns if first else None,
    )
