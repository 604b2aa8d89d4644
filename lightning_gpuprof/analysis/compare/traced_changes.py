"""Compares the operators and kernels of two runs in their profiled steps."""

from collections.abc import Mapping
from dataclasses import dataclass

from lightning_gpuprof.analysis.chance import MIN_BLOCKS
from lightning_gpuprof.analysis.compare.bootstrap import Certainty
from lightning_gpuprof.analysis.compare.change import Change, Side
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts


@dataclass(frozen=True)
class TracedChange(Change):
    """The time of an operator or kernel in both runs; None for a run that did not call it."""

    certainty: Certainty | None
    """None if one run alone called it, or if enough steps were profiled."""


@dataclass(frozen=True)
class _Traced:
    """An operator's or kernel's calls in a trace; times and calls are per step or per sample."""

    time_ns: float
    calls: float
    regular: bool
    """Whether the steps seem to call it equally often."""
    shortest_ns: int | None = None
    """Of all calls, if there are enough; likewise `longest_ns`."""
    longest_ns: int | None = None


def operator_changes(
    sides: tuple[Side, Side], traces: tuple[TraceFacts, TraceFacts]
) -> tuple[TracedChange, ...]:
    """Compare the self time of operators on the host, the largest change first."""
    base, new = (_operators(*pair) for pair in zip(sides, traces, strict=True))
    return _changes(base, new, traces)


def kernel_changes(
    sides: tuple[Side, Side], traces: tuple[TraceFacts, TraceFacts]
) -> tuple[TracedChange, ...]:
    """Compare the time of kernels on the device, the largest change first."""
    base, new = (_kernels(*pair) for pair in zip(sides, traces, strict=True))
    return _changes(base, new, traces)


def _operators(side: Side, facts: TraceFacts) -> dict[str, _Traced]:
    return {
        operator.name: _Traced(
            operator.self_ns / side.divisor, operator.calls / side.divisor, _whole(operator.calls)
        )
        for operator in facts.operators.values()
    }


def _kernels(side: Side, facts: TraceFacts) -> dict[str, _Traced]:
    divisor = facts.steps * side.divisor
    return {
        row.name: _Traced(
            row.total_ns / divisor,
            row.count / divisor,
            _whole(row.count / facts.steps),
            *((row.min_ns, row.max_ns) if row.count >= MIN_BLOCKS else ()),
        )
        for row in facts.analysis.kernels
    }


def _whole(calls: float) -> bool:
    return abs(calls - round(calls)) < 1e-6


def _changes(
    base: Mapping[str, _Traced], new: Mapping[str, _Traced], traces: tuple[TraceFacts, TraceFacts]
) -> tuple[TracedChange, ...]:
    are_few = min(facts.steps for facts in traces) < MIN_BLOCKS
    changes = []
    for name in {**base, **new}:
        old, now = base.get(name), new.get(name)
        certainty = _certainty(old, now) if are_few and old and now else None
        base_ns, new_ns = (None if traced is None else traced.time_ns for traced in (old, now))
        changes.append(TracedChange(name, base_ns, new_ns, certainty))
    return tuple(sorted(changes, key=lambda change: -abs(change.shift)))


def _certainty(base: _Traced, new: _Traced) -> Certainty:
    """Say whether few steps show a difference.

    They do if it follows from how often each step calls an operator or kernel, or if each of many
    calls takes longer in one run than every call in the other.
    """
    diff_ns = new.time_ns - base.time_ns
    of_calls_ns = (new.calls / base.calls - 1) * base.time_ns
    follows = base.regular and new.regular and of_calls_ns * diff_ns > 0
    if follows and abs(of_calls_ns) >= abs(diff_ns) / 2:
        return Certainty.SURE
    shorter, longer = (base, new) if diff_ns > 0 else (new, base)
    if shorter.longest_ns is not None and longer.shortest_ns is not None:
        if shorter.longest_ns < longer.shortest_ns:
            return Certainty.SURE
    return Certainty.TOO_FEW
