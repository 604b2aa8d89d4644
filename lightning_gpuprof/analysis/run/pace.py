"""How the step time changes for good: at once, or little by little.

The first quartiles of stretches of steps are compared with shapes: constant until a step and
constant after it, constant until a step and rising from there, rising until a step and constant
from there. The shape that fits best is reported if it explains most of how stretches differ, and
more than it would if the stretches came in any other order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from lightning_gpuprof.analysis.chance import LEVEL, RESAMPLES, SEED
from lightning_gpuprof.analysis.run.steady import step_flags, without_pauses
from lightning_gpuprof.arrays import Floats, Int64, Mask
from lightning_gpuprof.records.phases import OWN_CALLBACKS, Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import StepFlag

STRETCHES = 48
USUAL = 0.25
"""The quantile that stands for a stretch. What interrupts a step only makes it longer, so that
lower quantiles vary less."""
STRETCH_STEPS = 5
"""The quartile of fewer steps depends on single steps."""
MIN_STRETCHES = 8
LEAST_FIT = 0.7
"""A shape is reported if it explains this share of the variance of the stretches."""
LEAST_CHANGE = 0.25
"""A smaller change, as a share of the step before it, is left out: machines drift by as much."""


@dataclass(frozen=True, kw_only=True)
class PaceChange:
    """A lasting change of the step time.

    Args:
        since_step: The step from which on steps are longer, or shorter, or grow.
        until_step: The last step that grows; None if the change is at once.
        before_ns: The step before the change; of steps that grow, the first of them.
        after_ns: The step after the change; of steps that grow, the last of them.
        mean_above_ns: By how much the mean step exceeds `before_ns`: what it costs per step.
        phases: What each phase takes before and after, the one that changes most first.
    """

    since_step: int
    until_step: int | None
    before_ns: int
    after_ns: int
    mean_above_ns: int
    phases: Mapping[Phase, "PhaseChange"] = field(default_factory=dict)

    @property
    def per_step_ns(self) -> float | None:
        """By how much a step is longer than the step before; None if the change is at once."""
        if self.until_step is None:
            return None
        return (self.after_ns - self.before_ns) / max(1, self.until_step - self.since_step)

    @property
    def main_phase(self) -> Phase | None:
        """The phase with at least half of the change; None if there is none."""
        phase, change = next(iter(self.phases.items()), (None, None))
        whole_ns = self.after_ns - self.before_ns
        if change is None or change.more_ns * whole_ns <= 0:
            return None
        return phase if 2 * abs(change.more_ns) >= abs(whole_ns) else None


@dataclass(frozen=True)
class PhaseChange:
    """What a phase takes before and after a lasting change, by the shape of the whole step."""

    before_ns: int
    after_ns: int

    @property
    def more_ns(self) -> int:
        """By how much the phase takes longer."""
        return self.after_ns - self.before_ns


def own_ns(session: Session) -> Int64:
    """Return what this package's own callbacks take in every step."""
    columns = (f"part/{Phase.CALLBACKS.value}/{name}" for name in OWN_CALLBACKS)
    taken = np.zeros(session.steps, dtype=np.int64)
    for name in columns:
        taken += session.columns.get(name, np.zeros(session.steps, dtype=np.int64))
    return taken


def phases_without_own(session: Session) -> dict[Phase, Int64]:
    """Return what each phase takes in every step, without this package's own callbacks."""
    phase_ns = session.phases_ns(Phase)
    if Phase.CALLBACKS in phase_ns:
        phase_ns[Phase.CALLBACKS] = phase_ns[Phase.CALLBACKS] - own_ns(session)
    return phase_ns


def pace_change(session: Session, steady: Mask) -> PaceChange | None:
    """Return how the step time changes for good; None if it does not, or not surely."""
    plain = steady & ((step_flags(session) & int(StepFlag.EPOCH_START)) == 0)
    count = min(STRETCHES, int(plain.sum()) // STRETCH_STEPS)
    if count < MIN_STRETCHES:
        return None
    numbers = session.step_numbers[plain]
    dur_ns = (without_pauses(session) - own_ns(session))[plain]
    change = _best_shape(_usual(dur_ns, count))
    if change is None:
        return None
    shape, kind, place = change
    first, last = _ends(shape, _usual(dur_ns, count))
    if abs(last - first) < LEAST_CHANGE * first:
        return None
    stretches = np.array_split(np.arange(len(numbers)), count)
    middles = [int(stretch[len(stretch) // 2]) for stretch in stretches]
    bends, ends = middles[place], middles[-1]
    begins = bends
    if kind == _AT_ONCE:
        begins = _at_step(dur_ns, bends, reach=len(stretches[0]), middle=(first + last) / 2)
        first, last = float(np.median(dur_ns[:begins])), float(np.median(dur_ns[begins:]))
    elif kind == _LEVELS_OFF:
        begins, ends = middles[0], bends
    return PaceChange(
        since_step=int(numbers[begins]),
        until_step=None if kind == _AT_ONCE else int(numbers[ends]),
        before_ns=round(first),
        after_ns=round(last),
        mean_above_ns=round(float(dur_ns.mean()) - first),
        phases=_changes(session, plain, shape),
    )


def _at_step(dur_ns: Int64, place: int, *, reach: int, middle: float) -> int:
    """Return the first step after a change, which lies within `reach` steps of a place."""
    begin, end = max(1, place - reach), min(len(dur_ns) - 1, place + reach)
    sides = np.where(dur_ns > middle, 1, -1)
    rises = 1 if dur_ns[end:].mean() > dur_ns[:begin].mean() else -1
    # Steps before it should lie on one side of the middle, and steps after it on the other.
    agreeing = -rises * np.cumsum(sides)[begin - 1 : end]
    return begin + int(agreeing.argmax())


_AT_ONCE, _RISES, _LEVELS_OFF = "at once", "rises", "levels off"
_Shape = tuple[Floats, str, int]
"""Values between 0 and 1 by stretch, the kind of the shape, and the stretch at which it bends."""


def _shapes(count: int) -> list[_Shape]:
    place = np.arange(count, dtype=np.float64)
    shapes: list[_Shape] = []
    for at in range(2, count - 1):
        shapes.append(((place >= at).astype(np.float64), _AT_ONCE, at))
    for at in range(count // 2):
        rise = (place - at).clip(min=0) / (count - 1 - at)
        shapes.append((rise, _RISES, at))
        if at:
            shapes.append((1 - rise[::-1], _LEVELS_OFF, count - 1 - at))
    return shapes


def _best_shape(values: Floats) -> _Shape | None:
    """Return the shape that fits the values of stretches; None if none does better than chance.

    >>> _best_shape(np.repeat([5.0, 9.0], [10, 30]))[1:]
    ('at once', 10)
    >>> _best_shape(np.arange(40.0).clip(min=10))[1:]
    ('rises', 10)
    >>> _best_shape(np.tile([5.0, 9.0], 20)) is None
    True
    """
    shapes = _shapes(len(values))
    centred = np.array([shape - shape.mean() for shape, _, _ in shapes])
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    deviations = values - values.mean()
    whole = float(deviations @ deviations)
    if not whole:
        return None
    along = centred @ deviations
    fits = along**2 / whole
    best = int(fits.argmax())
    random = np.random.default_rng(SEED)
    shuffled = random.permuted(np.tile(deviations, (RESAMPLES, 1)), axis=1)
    by_chance = ((shuffled @ centred.T) ** 2).max(axis=1) / whole
    if fits[best] < LEAST_FIT or fits[best] <= np.quantile(by_chance, LEVEL):
        return None
    shape = shapes[best]
    shrinks = along[best] < 0
    return None if shrinks and shape[1] != _AT_ONCE else shape


def _ends(shape: Floats, values: Floats) -> tuple[float, float]:
    """Return the values at 0 and at 1 of a shape that is fitted to the values of stretches."""
    centred = shape - shape.mean()
    slope = float(centred @ values / (centred @ centred))
    first = float(values.mean()) - slope * float(shape.mean())
    return first, first + slope


def _changes(session: Session, plain: Mask, shape: Floats) -> dict[Phase, PhaseChange]:
    changes = {}
    for phase, column in phases_without_own(session).items():
        first, last = _ends(shape, _usual(column[plain], len(shape)))
        changes[phase] = PhaseChange(max(0, round(first)), max(0, round(last)))
    return dict(sorted(changes.items(), key=lambda item: -abs(item[1].more_ns)))


def _usual(values: Int64, count: int) -> Floats:
    return np.array([np.quantile(stretch, USUAL) for stretch in np.array_split(values, count)])
