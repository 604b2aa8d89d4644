"""What callbacks and hooks take between epochs, by name."""

from collections import Counter, defaultdict
from dataclasses import dataclass

from lightning_gpuprof.analysis.run.every_step import between_epochs
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session

_WORK = {phase.value: phase for phase in (Phase.CALLBACKS, Phase.OTHER)}


@dataclass(frozen=True)
class BetweenEpochs:
    """One callback, or one hook of the module, between epochs and after the last one."""

    phase: Phase
    name: str
    epochs: int
    """How many it was called between."""
    total_ns: int
    longest_ns: int
    """The longest call of its hooks at one end or start."""


def work_between_epochs(session: Session) -> tuple[BetweenEpochs, ...]:
    """Sum up what each callback and hook took between epochs, the longest first."""
    taken: defaultdict[tuple[Phase, str], list[int]] = defaultdict(list)
    ends: Counter[tuple[Phase, str, str]] = Counter()
    for span in between_epochs(session):
        for key, ns in span.part_ns.items():
            phase, _, name = key.partition("/")
            if phase in _WORK:
                taken[_WORK[phase], name].append(ns)
                ends[_WORK[phase], name, span.where] += 1
    found = [
        # At an epoch's end and at the next one's start is once.
        BetweenEpochs(
            phase,
            name,
            epochs=max(ends[phase, name, where] for where in ("epoch_end", "epoch_start")),
            total_ns=sum(times),
            longest_ns=max(times),
        )
        for (phase, name), times in taken.items()
    ]
    return tuple(sorted(found, key=lambda one: -one.total_ns))
