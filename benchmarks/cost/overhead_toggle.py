"""A variant taken out of a fit and put back, block by block: see overhead.py.

Two fits of the same program differ by some percent, by where their memory happens to lie, and a
machine changes from second to second. Within one fit neither matters: blocks of steps with and
without a variant take turns, in random order, and each is compared with the one beside it.

It is put in and out while a batch is fetched, where a step begins, and while it is out our own
clock stands still: to it there are only the steps with it. So a window of records or of losses is
full after so many of those, and its writing falls into a block with it. Boundaries of regions are
timed by the builtin clock that users have, as there are forty in a step; the time in which the
variant was out is subtracted later. Toggling does not see work in other threads (the line sampler)
nor at the end of a fit; whole fits do.

On an accelerator each block begins with an idle device, so that no block waits for the queue of the
one before. Marks in flight have passed by then, and are read when the variant is back.
"""

import gc
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from overhead_variants import KINDS, fit

WARM_UP = 2
"""Blocks before the first that is timed."""


@dataclass(frozen=True)
class Pair:
    """The added time of a block of steps with a variant over one without it, in ns per step.

    Attributes:
        step: Steps with the variant before this block.
        bare_ns: What a step without it takes.
        added_ns: What is added to a step.
        outside_ns: What is added outside forward, backward and optimizer: the Trainer's own time
            and the variant's, without the noise of long computations.
    """

    step: int
    bare_ns: float
    added_ns: float
    outside_ns: float


class Switch:
    """Takes a variant out of a Trainer, and puts it back.

    Args:
        model: In training.
    """

    def __init__(self, model: Any) -> None:
        from lightning.pytorch.profilers import PassThroughProfiler

        trainer = model.trainer
        fetcher = trainer.fit_loop._data_fetcher
        (iterator,) = fetcher.iterator._iterator.iterators
        sampler = getattr(iterator._sampler_iter, "inner", iterator._sampler_iter)
        self._bare: list[tuple[Any, str, Any]] = [
            (trainer, "callbacks", []),
            (trainer, "profiler", PassThroughProfiler()),
            (trainer, "loggers", []),
            (iterator, "_sampler_iter", sampler),
            (gc, "callbacks", []),
            (model, "logs", None),
        ]
        self._taken: list[Any] = []

    def turn(self, *, on: bool) -> None:
        """Put the variant in, or take it out as it is now."""
        if on and self._taken:
            for (owner, name, _), value in zip(self._bare, self._taken, strict=True):
                _set(owner, name, value)
            self._taken = []
        elif not on and not self._taken:
            for owner, name, value in self._bare:
                self._taken.append(_get(owner, name))
                _set(owner, name, value)


def _get(owner: Any, name: str) -> Any:
    value = getattr(owner, name)
    return list(value) if owner is gc else value


def _set(owner: Any, name: str, value: Any) -> None:
    if owner is gc:  # the interpreter looks at the list itself
        gc.callbacks[:] = value
    else:
        setattr(owner, name, value)


class Blocks:
    """Follows a fit through its blocks, toggling.

    Args:
        first: Blocks with the variant at a run's beginning, each beside one without it.
        rest: Blocks after these, all with it.
        later: Blocks with it after that, each beside one without it.
        size: Steps per block.
        seed: Of the order.
        settle: Called before a block begins: waits for the device, where there is one.
    """

    def __init__(
        self,
        first: int,
        rest: int,
        later: int,
        *,
        size: int,
        seed: int,
        settle: Callable[[], object] = lambda: None,
    ) -> None:
        self._settle = settle
        chance = random.Random(seed)
        pairs = [chance.sample((True, False), 2) for _ in range(first + later)]
        begin, end = (
            [on for pair in some for on in pair] for some in (pairs[:first], pairs[first:])
        )
        self._order = [*begin, *[True] * rest, *end]
        self._pairs = [*range(0, len(begin), 2), *range(len(begin) + rest, len(self._order), 2)]
        self._size = size
        self._seen = -WARM_UP
        self._switch: Switch | None = None
        self._out_ns = 0
        self._out_since: int | None = None
        self._begun: list[tuple[int, int]] = []
        self._ended: list[tuple[int, int]] = []
        self._log: Any = None
        self._put_right = 0

    def attach(self, context: Any) -> None:
        """Become the clock of a run that was just set up, and correct its log of boundaries."""
        context.now = self.clock
        self._log = log = getattr(context._steps, "clock", None)
        if log is None:
            return
        settle = log._settle

        def settle_what_is_right() -> Any:
            self._put_log_right()
            self._put_right = 0
            return settle()

        log._settle = settle_what_is_right

    def _put_log_right(self) -> None:
        """Subtract the time in which the variant was out from each boundary since the last call."""
        if self._log is not None:
            times, first, out_ns = self._log.times, self._put_right, self._out_ns
            times[first:] = [at - out_ns for at in times[first:]]
            self._put_right = len(times)

    def clock(self) -> int:
        """Return the time that the variant was in."""
        return time.perf_counter_ns() - self._out_ns

    def begin(self, model: Any) -> None:
        """A block begins."""
        at, self._seen = self._seen, self._seen + 1
        if at < 0:
            return
        if self._switch is None:
            self._switch = Switch(model)
        if self._out_since is None:  # to wait for the device is none of the variant's doing
            self._out_since = time.perf_counter_ns()
        self._settle()
        self._ended.append((time.perf_counter_ns(), model.computing_ns))
        done = at >= len(self._order)
        self._turn(on=done or self._order[at])
        model.trainer.should_stop = done
        self._begun.append((time.perf_counter_ns(), model.computing_ns))

    def _turn(self, *, on: bool) -> None:
        assert self._switch is not None
        if on and self._out_since is not None:
            self._put_log_right()
            self._out_ns += time.perf_counter_ns() - self._out_since
            self._out_since = None
        self._switch.turn(on=on)

    def pairs(self) -> list[Pair]:
        """Return what was measured."""
        found = []
        for at in self._pairs:
            blocks = {}
            for place in (at, at + 1):
                (begin, computed), (end, computed_then) = self._begun[place], self._ended[place + 1]
                wall = (end - begin) / self._size
                blocks[self._order[place]] = wall, wall - (computed_then - computed) / self._size
            (wall, outside), (bare, bare_outside) = blocks[True], blocks[False]
            step = (sum(self._order[:at]) + WARM_UP) * self._size
            found.append(Pair(step, bare, wall - bare, outside - bare_outside))
        return found


def toggled(variant: str, kind: str, seed: int) -> list[dict[str, float]]:
    """Fit once on the CPU, toggling the variant; returns `Pair`s."""
    shape = KINDS[kind]
    first = (shape.settled if shape.first is None else shape.first) // shape.block
    rest = shape.settled // shape.block - first
    blocks = Blocks(first, rest, shape.blocks, size=shape.block, seed=seed)
    steps = (2 * (first + shape.blocks) + rest + WARM_UP + 2) * shape.block
    fit(variant, kind, steps, at_block=blocks.begin, at_setup=blocks.attach)
    return [asdict(pair) for pair in blocks.pairs()]
