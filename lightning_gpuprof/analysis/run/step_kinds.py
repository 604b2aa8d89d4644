"""Steps by kind: those that come by a plan, such as those with a validation, and plain ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from lightning_gpuprof.analysis.chance import block_count, block_means
from lightning_gpuprof.analysis.run.steady import step_flags
from lightning_gpuprof.arrays import Floats, Int64, Mask
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import OutsideSpan, StepFlag

PLAIN = "plain"
RARE = (StepFlag.EPOCH_START, StepFlag.VALIDATION, StepFlag.CHECKPOINT)
"""Steps with these flags come by a plan, not by chance."""


@dataclass(frozen=True)
class StepKind:
    """The steady steps of a kind."""

    name: str
    """`PLAIN`, or a flag's name in lower case."""
    chosen: Mask
    """Which of the steady steps they are."""
    per_step: float
    """Their share of all steps, timed by phase or not."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """A time in the steps of a kind, as means of blocks of neighbouring steps.

    Blocks rather than steps, because steps that follow one another resemble each other. Steps that
    come by a plan lie far apart: each is a block.
    """

    kind: str
    per_step: float
    """The kind's share of all steps."""
    count: int
    """How many steps of the kind were timed."""
    means_ns: Floats

    @override
    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Blocks)
            and (self.kind, self.per_step, self.count) == (other.kind, other.per_step, other.count)
            and np.array_equal(self.means_ns, other.means_ns)
        )


def step_kinds(
    session: Session, steady: Mask, untimed: Sequence[OutsideSpan]
) -> tuple[StepKind, ...]:
    """Divide the steady steps into kinds; kinds without a step are left out.

    Args:
        session: The session.
        steady: Which of its steps are steady.
        untimed: The records of untimed steps, which may have flags too.
    """
    flags = step_flags(session)[steady]
    kind_of = np.zeros(len(flags), dtype=np.int8)
    for number, flag in enumerate(RARE, start=1):
        kind_of[(flags & int(flag)) != 0] = number
    steps = len(flags) + sum(span.steps for span in untimed)
    kinds = []
    for number, flag in enumerate(RARE, start=1):
        name, chosen = str(flag.name).lower(), kind_of == number
        if count := int(chosen.sum()):
            count += sum(span.flagged.get(name, 0) for span in untimed)
            kinds.append(StepKind(name, chosen, count / steps))
    plain = kind_of == 0
    if plain.any():
        kinds.insert(0, StepKind(PLAIN, plain, max(0.0, 1 - sum(k.per_step for k in kinds))))
    return tuple(kinds)


def blocks_of(values_ns: Int64, kinds: Sequence[StepKind]) -> tuple[Blocks, ...]:
    """Return the blocks of a time.

    Args:
        values_ns: The time in every steady step.
        kinds: The kinds of these steps.
    """
    blocks = []
    for kind in kinds:
        own = values_ns if kind.chosen.all() else values_ns[kind.chosen]
        count = block_count(len(own), neighbours=kind.name == PLAIN)
        means = block_means(own[None, :], count)[0]
        blocks.append(Blocks(kind.name, kind.per_step, len(own), means))
    return tuple(blocks)
