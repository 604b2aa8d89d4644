"""What rules return: a finding with its evidence, its saving and its places."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from lightning_gpuprof.analysis.run.line_samples import LineTime
from lightning_gpuprof.analysis.savings.conformal import Coverage
from lightning_gpuprof.records.lines import CodePlace, LineCount
from lightning_gpuprof.records.schema import SyncSite


class Severity(str, Enum):
    """How much a finding holds the run back."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"
    BY_SAVING = "by_saving"
    """To be graded by the saving. No finding has this severity once `Rule.evaluate` returns it."""


class When(str, Enum):
    """When the time that a finding saves is spent. All savings are given per step."""

    IN_STEPS = "in_steps"
    ALSO_BETWEEN = "also_between"
    """In some steps and between epochs, as validations, checkpoints and what grows with time."""
    BETWEEN = "between"
    """As epochs begin, or in steps that compile; never in a steady step."""


class Horizon(str, Enum):
    """When in a plan of work a change is made."""

    QUICK = "quick"
    """A setting or a few lines."""
    MEDIUM = "medium"
    """Code of the model or the machine's setup, to be tried out."""
    LONG = "long"
    """Work of unknown length."""


@dataclass(frozen=True)
class Effort:
    """What it takes to make a finding's change.

    Args:
        horizon: When to make it.
        difficulty: What has to be changed, such as "one argument of the Trainer".
        risk: What may get worse with it, such as "a crash loses more steps", or "none".
    """

    horizon: Horizon
    difficulty: str
    risk: str


@dataclass(frozen=True)
class Range:
    """An interval, in the unit of the field that holds it."""

    low: int
    high: int

    @property
    def middle(self) -> float:
        """The value halfway between the bounds, by which findings are graded."""
        return (self.low + self.high) / 2

    @property
    def counted_on(self) -> float:
        """The value that is reached in three of four cases if all values are equally likely.

        >>> Range(low=0, high=40).counted_on, Range(low=15, high=19).counted_on
        (10.0, 16.0)
        """
        return self.low + (self.high - self.low) / 4


@dataclass(frozen=True)
class Place:
    """A place that a finding is about: a line of code, or a phase, rank or kernel.

    Fields that do not apply are None.
    """

    file: str | None = None
    line: int | None = None
    source: str | None = None
    """The line's text."""
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
    ) -> "Place":
        """Return the place of a line of code."""
        return cls(file=line.file, line=line.line, source=line.source, phase=phase, name=name)


@dataclass(frozen=True)
class TrialCommand:
    """The trial that measures a finding's change.

    Args:
        change: What `lightning-gpuprof try --change` takes, such as "num_workers=4"; None if no
            trial measures it.
        note: What the trial measures, or why there is none.
    """

    change: str | None
    note: str


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A cause that holds the run back, with its evidence and the change that removes it.

    Args:
        id: The rule's id, which `Rule.evaluate` fills in.
        title: What was measured, in at most 12 words.
        advice: What to do, in whole sentences.
        evidence: Figures by name; the name ends in the unit (`_ns`, `_bytes`, `_frac`, `_per_s`,
            `_count`).
        saving_ns: The expected saving per step; 0 to 0 if no time is claimed. The engine limits it
            to the upper end of `cause_ns`.
        cause_ns: What the cause takes of a step, as far as the rule knows; the engine adds the
            error of the mean of its phase or part. None: at most the step.
        beyond_ns: How much more than its cause the change saves at most, because it takes work from
            cores that other processes wait for.
        of_step_ns: The step that the saving is a share of, if that is not the run's mean step; 0 if
            it is. Since a slow-down, steps take longer than the mean.
        likely_ns: The middle of the saving that the rule expects of the cause itself; the engine
            fills it in.
        indirect_ns: How much more than its cause a change may save; the engine fills it in.
        confidence: How sure the rule is that this is the cause, 0 to 1: 0.9 where the records
            show it, about 0.5 where the time may have another cause. Findings are ranked by it too.
        places: What the finding is about, most important first.
        change: The change as code to paste; None if it cannot be written in general.
        when: When the time that it saves is spent.
        matters: Whether the severity stands however little time is saved, as memory fills up.
        explains: Ids of findings that know less about the same time (`overlap.py`).
        effort: What the change takes; None if it takes what the rule's other changes take.
        measured: The trial that the saving was measured in; None if a model expects it.
        setting: What `lightning-gpuprof try --change` takes, such as "num_workers=4", if that is
            the change or the most that it may gain; None if no setting is.
        trial: The trial that measures the change; the engine fills it in. None for a trace alone.
        coverage: How often savings that were estimated like this one held; None if no such change
            was measured.
    """

    id: str = ""
    severity: Severity = Severity.BY_SAVING
    title: str
    advice: str
    evidence: Mapping[str, int | float]
    saving_ns: Range = Range(0, 0)
    cause_ns: Range | None = None
    beyond_ns: int = 0
    of_step_ns: int = 0
    likely_ns: int = 0
    indirect_ns: int = 0
    confidence: float
    places: tuple[Place, ...] = ()
    change: str | None = None
    when: When = When.IN_STEPS
    matters: bool = False
    explains: tuple[str, ...] = ()
    effort: Effort | None = None
    measured: str | None = None
    setting: str | None = None
    trial: TrialCommand | None = None
    coverage: Coverage | None = None

    @property
    def worth_a_change(self) -> bool:
        """Whether the change is proposed; what `info` findings report may stay as it is."""
        return self.severity is not Severity.INFO

    @property
    def is_change(self) -> bool:
        """Whether something is to be changed, however little it gains; some only report a fact."""
        return bool(self.worth_a_change or self.saving_ns.high or self.change)


@dataclass(frozen=True)
class Abstained:
    """A rule without a finding: its input is missing, or another finding covers the same time."""

    id: str
    reason: str
    covered_by: str | None = None
    """Id of the finding that covers the same time."""
