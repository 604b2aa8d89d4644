"""What a rule returns: a finding with its evidence, its saving and its place."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from lightning_gpuprof.analysis.run.host_lines import LineCount
from lightning_gpuprof.analysis.run.line_times import LineTime
from lightning_gpuprof.records.lines import CodePlace
from lightning_gpuprof.records.schema import SyncSite


class Severity(str, Enum):
    """How much a finding holds the run back."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"
    BY_SAVING = "by_saving"
    """As `grade` finds; only between a rule and `Rule.evaluate`, which grades it."""


class When(str, Enum):
    """Where the time lies that a finding saves; all savings are per step."""

    IN_STEPS = "in_steps"
    ALSO_BETWEEN = "also_between"
    """In some steps, and between epochs: validations, checkpoints, what takes longer each time."""
    BETWEEN = "between"
    """Where epochs begin, or in steps that compile: none of it is a steady step's."""


class Horizon(str, Enum):
    """When in a plan of work a change comes."""

    QUICK = "quick"
    MEDIUM = "medium"
    LONG = "long"


@dataclass(frozen=True)
class Effort:
    """What making a finding's change asks for."""

    horizon: Horizon
    difficulty: str
    risk: str


@dataclass(frozen=True)
class Range:
    """An interval in the unit of the field that holds it."""

    low: int
    high: int

    @property
    def middle(self) -> float:
        """Halfway between the bounds: what severities go by."""
        return (self.low + self.high) / 2

    @property
    def counted_on(self) -> float:
        """The value reached three times in four, if all within are equally likely.

        >>> Range(low=0, high=40).counted_on, Range(low=15, high=19).counted_on
        (10.0, 16.0)
        """
        return self.low + (self.high - self.low) / 4


@dataclass(frozen=True)
class Where:
    """A place that a finding applies to; only the fields that are known are set."""

    file: str | None = None
    line: int | None = None
    source: str | None = None
    phase: str | None = None
    rank: int | None = None
    kernel: str | None = None
    name: str | None = None
    """A callback, logger, module or operator by name."""

    @classmethod
    def at(
        cls,
        line: CodePlace | LineCount | LineTime | SyncSite,
        *,
        phase: str | None = None,
        name: str | None = None,
    ) -> "Where":
        """Return the place that a line is."""
        return cls(file=line.file, line=line.line, source=line.source, phase=phase, name=name)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that holds the run back, and the change that removes it.

    Args:
        id: The rule's, which the engine fills in.
        evidence: Numbers; every key ends in its unit (`_ns`, `_bytes`, `_frac`, `_per_s`,
            `_count`).
        saving_ns: Expected saving per step, low to high; 0 to 0 where no time is claimed. The
            engine cuts it at the upper end of `cause_ns`.
        cause_ns: What the cause takes of a step, as far as the rule knows; the engine widens it
            by how far the mean of its phase or part may be off. None: at most the step.
        likely_ns: The middle of what the rule expects within the cause; the engine fills it in.
        indirect_ns: How much more than its cause a change may save; the engine fills it in.
        confidence: 0 to 1: how sure the rule is that this is the cause.
        when: Whether the saving is time of a steady step.
        explains: Ids of findings that say less of the same time (`overlap.py`).
        measured: The trial that the saving is from; None where a model expects it.
    """

    id: str = ""
    severity: Severity = Severity.BY_SAVING
    title: str
    advice: str
    evidence: Mapping[str, int | float]
    saving_ns: Range = Range(0, 0)
    cause_ns: Range | None = None
    likely_ns: int = 0
    indirect_ns: int = 0
    confidence: float
    where: tuple[Where, ...] = ()
    change: str | None = None
    when: When = When.IN_STEPS
    explains: tuple[str, ...] = ()
    measured: str | None = None

    @property
    def worth_a_change(self) -> bool:
        """Whether to propose the change by itself; `info` may stay as it is."""
        return self.severity is not Severity.INFO


@dataclass(frozen=True)
class Abstained:
    """A rule without a finding: its input is missing, or another finding covers the same time."""

    id: str
    reason: str
    covered_by: str | None = None
    """Id of the finding that covers the same time."""
