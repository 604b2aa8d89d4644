"""The typed document that every surface shows: console, Markdown, HTML, JSON and the PROFILE tab.

Builders (`build_run.py`, `build_trace.py`, ...) decide the content: verdict, titles, labels, units
and order. Renderers decide how each type of part looks, and add no content of their own.
`--json` prints the document encoded; docs/reference/json.md is generated from these classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from lightning_gpuprof.paths import short_path
from lightning_gpuprof.report.clean import clean_fields

SCHEMA_VERSION = 2
"""Raised when a type, a key or its meaning changes; keys may be added under the same version."""

Unit = Literal[
    "ns", "bytes", "bytes_per_s", "per_s", "frac", "change_frac", "count", "number", "unix_ns",
    "text", "code", "place", "state", "flag",
]  # fmt: skip
"""How a value is formatted: `frac` is a share of 1, `change_frac` a signed relative change (-0.18
is 18 % less), `code` text from a program, `state` a word of `State`, `flag` yes or no."""

Detail = Literal["first", "page", "verbose"]
"""Where a section or column is shown: on the first screen, on the page, or only in a verbose report
(`--verbose`; the tab folds such a section)."""

State = Literal["good", "bad", "look", "neutral", "not_measured"]
"""How a row is to be judged; renderers choose its colour by it."""


class Place(Struct, frozen=True, tag="place", omit_defaults=True):
    """Where something is: a line of code, or a kernel, rank, phase or component by name."""

    file: str | None = None
    """As it was recorded: relative to the working folder of the program, or absolute."""
    line: int | None = None
    function: str | None = None
    source: str | None = None
    """The line's text."""
    phase: str | None = None
    rank: int | None = None
    kernel: str | None = None
    name: str | None = None
    """A callback, logger, module or operator by name."""
    view: str | None = None
    """The tab's view that shows it."""
    short_file: str | None = None
    """An absolute `file` as surfaces show it, such as "torch/nn/module.py" or "~/data.py"."""

    def __post_init__(self) -> None:
        if self.file is not None and self.short_file is None:
            if (short := short_path(self.file)) != self.file:
                force_setattr(self, "short_file", short)


class Interval(Struct, frozen=True, tag="interval"):
    """A value known to lie between two bounds, in the unit of its column or figure."""

    low: float
    high: float


class Quantity(Struct, frozen=True, tag="quantity"):
    """A number with a unit of its own, in a column whose rows have different units."""

    value: float | Interval | None
    unit: Unit


Value = int | float | str | bool | Place | Interval | Quantity | None
"""The value of a cell or figure; None if it was not measured."""


class Figure(Struct, frozen=True, omit_defaults=True):
    """One number or text by name, such as the mean step."""

    key: str
    """Unique within the section; the key of a number ends in its unit, as in `step_ns`."""
    label: str
    value: Value
    unit: Unit
    note: str | None = None
    """What the figure refers to, in a few words."""


class Figures(Struct, frozen=True, tag="figures", omit_defaults=True):
    """Figures side by side, or in text below each other."""

    figures: tuple[Figure, ...]
    title: str | None = None
    large: bool = False
    """Whether these are the headline figures, which surfaces with several type sizes enlarge."""


class Text(Struct, frozen=True, tag="text", omit_defaults=True):
    """Sentences, every one of them a paragraph or a line of its own."""

    lines: tuple[str, ...]
    style: Literal["plain", "strong", "note", "warning", "command", "code"] = "plain"
    """`command` lines are for a shell, `code` lines for the program."""


class Column(Struct, frozen=True, omit_defaults=True):
    """A column of a table."""

    key: str
    label: str
    unit: Unit
    note: str | None = None
    """What the column means, in a sentence."""
    bar: bool = False
    """Whether numbers are also drawn as bars, relative to the largest one in the column."""
    difference: bool = False
    """Whether numbers are differences of two sides: their bars show whether it is more or less, and
    are grey where the row's `state` is `neutral`."""
    detail: Detail = "page"
    keep_end: bool = False
    """Whether a text that is too long loses its beginning: a path ends in the file and the line."""


class Table(Struct, frozen=True, tag="table", omit_defaults=True):
    """Rows by column key. A key that a row lacks was not measured.

    Rows may have keys beside the columns': `level` (1: part of the row above it), `state` (a
    `State`), `note` (a sentence about the row), `id`, `view` (the tab's view that shows it),
    `trace` (the trace file that this view shows) and `finding` (the finding that answers it).
    """

    id: str
    """Unique within its section."""
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Value], ...]
    title: str | None = None
    note: str | None = None
    first_rows: int | None = None
    """How many rows are shown at first; None for all."""
    sort: str | None = None
    """The column by which rows are sorted, largest first; None if their order has a meaning."""
    searchable: bool = False
    opens: str | None = None
    """The tab's view that a row opens."""
    color: str | None = None
    """The column that decides a row's colour, such as its phase or kind of event."""


class Bar(Struct, frozen=True, omit_defaults=True):
    """A share of a whole, such as a phase of the step or one of its named parts."""

    key: str
    """Decides the colour, such as a phase's name."""
    label: str
    value: float | None
    frac: float | None
    device_value: float | None = None
    """The same time on the device's clock, if it was measured."""
    level: int = 0
    """1: a named part of the bar above it."""
    note: str | None = None


class Bars(Struct, frozen=True, tag="bars", omit_defaults=True):
    """Shares that add up to a whole, in reading order; named parts follow the bar of the whole."""

    id: str
    unit: Unit
    bars: tuple[Bar, ...]
    title: str | None = None
    note: str | None = None
    value_label: str = "Mean"
    device_label: str | None = None
    """The heading of the device's values; None if no bar has such a value."""


class Multiple(Struct, frozen=True, omit_defaults=True):
    """A time of two sides, each with its interval, and the difference."""

    key: str
    """Decides the colour, such as a phase's name."""
    label: str
    base: float | None
    new: float | None
    diff: float | None
    diff_frac: float | None = None
    base_interval: Interval | None = None
    """None if too few values were measured; the other intervals likewise."""
    new_interval: Interval | None = None
    diff_interval: Interval | None = None
    noise: str | None = None
    """Why the difference shows nothing, such as "within noise"; None if it is more than chance."""


class Multiples(Struct, frozen=True, tag="multiples", omit_defaults=True):
    """Small multiples: a picture per time of two sides, each drawn on a scale of its own.

    Surfaces of text leave them out, because a table beside them has the same figures.
    """

    id: str
    unit: Unit
    multiples: tuple[Multiple, ...]
    base_label: str = "Base"
    new_label: str = "New"
    note: str | None = None


class Saving(Struct, frozen=True, omit_defaults=True):
    """What a change saves per step, as an interval and in words."""

    low_ns: int
    high_ns: int
    likely_ns: int
    """The most likely saving."""
    frac: Interval | None
    """The share of the step, or of the run if the time lies between epochs."""
    step_after_ns: Interval | None
    """The step's time with the change; None if the saved time is not in steady steps."""
    when: Literal["in_steps", "also_between", "between"]
    confidence: float
    measured: str | None
    """The trial that measured the saving; None if it is an estimate."""
    sentence: str
    """Such as "saves 2.0 to 3.5 ms per step (17 to 30%), 90% sure of the cause, 9 in 10 such
    estimates held"."""
    short: str
    """The same in a few characters, such as "17 to 30%"."""
    outcome: str
    """Such as "a step of 12.2 ms (11.6 to 12.8 ms) instead of 13.6 ms"."""
    coverage_frac: float | None = None
    """How often such estimates held where the change was made and measured; None if none was."""
    basis: str | None = None
    """By which measured changes the interval was tested; None if a trial measured the saving."""
    indirect_ns: int = 0
    cause_low_ns: int | None = None
    cause_high_ns: int | None = None


class TrialCommand(Struct, frozen=True, omit_defaults=True):
    """How to measure what a change gains."""

    note: str
    """What the command measures, or why no command does."""
    command: str | None = None
    """A command to paste; None if no trial can measure the change."""


class FindingCard(Struct, frozen=True, tag="finding", omit_defaults=True):
    """One cause with its evidence, saving and change."""

    id: str
    severity: Literal["critical", "warning", "info"]
    title: str
    advice: str
    change: str | None
    """The change as code to paste."""
    short_change: str
    """The change in one line: its first line of code, or how the advice begins."""
    short_change_is_code: bool
    saving: Saving | None
    """None if no time is saved; `no_saving` says why."""
    evidence: tuple[Figure, ...]
    places: tuple[Place, ...]
    confidence: float
    view: str | None = None
    """The tab's view that shows a finding without places."""
    horizon: str = ""
    difficulty: str = ""
    risk: str = ""
    no_saving: str = "no time is claimed as saved"
    """What stands in place of the saving's sentence if there is no saving."""
    page: str | None = None
    """Where the rule is documented."""
    trial: TrialCommand | None = None
    """None for a trace alone, whose program is not known."""


class Verdict(Struct, frozen=True, tag="verdict", omit_defaults=True):
    """The answer: what holds the run back and what to do first, or why nothing is proposed."""

    kind: Literal[
        "change", "limit", "nothing", "too_short", "not_measured", "failed",
        "faster", "slower", "no_difference", "other_model",
    ]  # fmt: skip
    """For a comparison, how the new run differs; with `other_model` the change is not judged."""
    label: str
    """Heading above the title, such as "Held back by"."""
    title: str
    sentence: str
    """What to do, or why nothing is proposed."""
    finding: str | None = None
    """The id of the finding that the verdict is about."""
    change: str | None = None
    """The change in one line of code."""
    place: Place | None = None
    gain: str | None = None
    gain_short: str | None = None


class Chart(Struct, frozen=True, tag="chart", omit_defaults=True):
    """A drawing with many points, whose payload has its own route; text surfaces leave it out."""

    name: Literal["steps", "timeline", "memory", "batch_size", "roofline", "ranks", "flame"]
    title: str
    note: str | None = None


Part = Verdict | Figures | Text | Table | Bars | Multiples | FindingCard | Chart


class Section(Struct, frozen=True, omit_defaults=True):
    """Parts under one heading."""

    id: str
    """Unique within its document."""
    title: str
    """The heading; empty where the parts need none."""
    detail: Detail
    body: tuple[Part, ...]
    note: str | None = None
    """A sentence below the heading."""

    def __post_init__(self) -> None:
        """Clean all texts, many of which come from files."""
        clean_fields(self)


class Subject(Struct, frozen=True, omit_defaults=True):
    """What the document is about."""

    kind: Literal["run", "trace", "comparison", "trial", "file", "plan"]
    name: str
    line: str
    """The subject in a sentence: what kind of session, how it ended, how long it took."""
    path: str | None = None
    status: str | None = None
    """How a run ended: finished, exception, interrupted, or open (live or killed)."""
    facts: Mapping[str, Any] = {}
    """Metadata as recorded: versions, trainer, model, loader, hyperparameters."""

    def __post_init__(self) -> None:
        """Clean all texts, many of which come from files."""
        clean_fields(self)


class Document(Struct, frozen=True):
    """The report on one run, trace, comparison or trial; every surface shows this."""

    schema_version: int
    subject: Subject
    sections: tuple[Section, ...]

    def section(self, id: str) -> Section | None:
        """Return a section by id; None if the document has no such section."""
        return next((section for section in self.sections if section.id == id), None)

    def parts(self, kind: type[PartType]) -> Iterator[PartType]:
        """Yield all parts of one type, in order."""
        for section in self.sections:
            for part in section.body:
                if isinstance(part, kind):
                    yield part

    @property
    def verdict(self) -> Verdict | None:
        """The verdict; None if the document gives none."""
        return next(self.parts(Verdict), None)

    @property
    def findings(self) -> tuple[FindingCard, ...]:
        """Findings in the order in which they are to be worked on."""
        return tuple(self.parts(FindingCard))

    def rows(self, table: str) -> tuple[Mapping[str, Value], ...]:
        """Return the rows of a table by its id; empty if the document has no such table."""
        return next((part.rows for part in self.parts(Table) if part.id == table), ())

    def figure(self, key: str) -> Value:
        """Return the value of the first figure with this key; None if it was not measured."""
        figures = (figure for part in self.parts(Figures) for figure in part.figures)
        return next((figure.value for figure in figures if figure.key == key), None)


PartType = TypeVar("PartType", bound=Struct)
_DECODER = msgspec.json.Decoder(Document)


def encode(document: Document) -> bytes:
    """Return the document as JSON."""
    return msgspec.json.encode(document)


def decode(text: bytes | str) -> Document:
    """Read a document back.

    Raises:
        msgspec.ValidationError: The text is no document of this version.
    """
    return _DECODER.decode(text)
