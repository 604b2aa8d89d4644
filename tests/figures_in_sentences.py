"""Finds figures in a document's sentences that are no typed figure of it, nor a share of one."""

import re

from lightning_gpuprof.report.document import (
    Bars,
    Figures,
    FindingCard,
    Interval,
    Quantity,
    Table,
    Text,
    Verdict,
)
from lightning_gpuprof.report.format import shown
from lightning_gpuprof.units import duration, inside, interval_text, size

_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_FIGURE = re.compile(
    rf"(?<![\w.,])({_NUMBER})(?: to ({_NUMBER}))? ?(ns|µs|ms|s|%|B|KiB|MiB|GiB|TiB)(?![\w/-])"
)
THRESHOLDS = {"10 µs"}
"""Limits of definitions, which are no measured figures."""
WORK = ("host_to_device", "forward", "zero_grad", "backward", "clip_gradients", "optimizer_step")
_INSTEAD = re.compile(r"^a step of .* instead of (\d[\d.]* (?:ns|µs|ms|s))")
WHOLES = ("step_ns", "mean_ns", "fit_step_ns", "device_step_ns", "wall_ns", "whole_fit_ns")
"""Keys of times of which other times are shares."""


def orphans(document):
    """Return the figures in sentences that no figure of the document is, with their sentence."""
    known = _known(document)
    return [
        *(
            f"{figure} in {sentence!r} is no figure of the document"
            for sentence in sentences(document)
            for figure in figures_in(sentence)
            if figure not in known
        ),
        *_other_steps(document),
    ]


def _other_steps(document):
    """Find sentences that compare a new step with another one than the document's."""
    steps = {duration(value) for key, _, value in _values(document) if key == "step_ns"}
    for sentence in sentences(document):
        for step in _INSTEAD.findall(sentence):
            if step not in steps:
                yield f"{sentence!r} compares with another step than {sorted(steps)}"


def figures_in(sentence):
    """Return the figures in a sentence with their units; the ends of an interval are two.

    >>> figures_in("takes 2.0 to 3.5 ms of each step (17%)")
    ['2.0 ms', '3.5 ms', '17%']
    """
    found = []
    for first, last, unit in _FIGURE.findall(sentence):
        space = "" if unit == "%" else " "
        found += [f"{number}{space}{unit}" for number in (first, last) if number]
    return found


def sentences(document):
    """Yield titles, verdicts, savings and notes; advice of cards speaks of other programs too."""
    for part in (part for section in document.sections for part in section.body):
        if isinstance(part, FindingCard):
            yield part.title
            if part.saving is not None:
                yield from (part.saving.sentence, part.saving.outcome, part.saving.short)
        elif isinstance(part, Verdict):
            yield from filter(None, (part.title, part.sentence, part.gain, part.gain_short))
        elif isinstance(part, Text) and part.style not in ("code", "command"):
            yield from part.lines
        elif isinstance(part, Table) and part.note:
            yield part.note
        elif isinstance(part, Figures):
            yield from (figure.note for figure in part.figures if figure.note)


def _known(document):
    """Return all figures of a document as sentences write them."""
    times, fracs, sizes, wholes = set(), set(), set(), set()
    for key, unit, value in _values(document):
        kind = {"ns": times, "frac": fracs, "change_frac": fracs, "bytes": sizes}.get(unit)
        if kind is not None:
            kind.add(abs(value))
        if key in WHOLES:
            wholes.add(value)
    shares = {time / whole for time in times for whole in wholes if whole}
    bars = [bar for part in document.parts(Bars) if part.id == "phases" for bar in part.bars]
    fracs.add(sum(bar.frac for bar in bars if bar.key in WORK and not bar.level))
    known = {duration(time) for time in times} | {size(value) for value in sizes} | THRESHOLDS
    known |= set(_of_intervals(document)) | set(_of_savings(document))
    error = document.subject.facts.get("error") or ""
    known |= {size(float(number) * 2**30) for number in re.findall(r"([\d.]+) GiB", error)}
    known |= set(figures_in(error))
    for frac in fracs | shares | {1 - frac for frac in fracs}:
        known |= {f"{frac * 100:.{digits}f}%" for digits in range(3)}
    return known | {"0%", "0.0%", "100%", "0 ns"}


def _of_intervals(document):
    """Yield the ends of the document's intervals as they are written: as coarse as their width."""
    for part in (part for section in document.sections for part in section.body):
        cells = []
        if isinstance(part, Figures):
            cells = [(figure.value, figure.unit) for figure in part.figures]
        elif isinstance(part, Table):
            cells = [
                (row.get(column.key), column.unit) for row in part.rows for column in part.columns
            ]
        for value, unit in cells:
            if isinstance(value, Quantity):
                value, unit = value.value, value.unit
            if isinstance(value, Interval):
                yield from figures_in(shown(value, unit))


def _of_savings(document):
    """Yield the figures of the savings of cards, in the digits that their intervals support."""
    for card in document.findings:
        values = {figure.key: figure.value for figure in card.evidence}
        for key in values:
            if (high := values.get(key.replace("_low_ns", "_high_ns"))) and "_low_" in key:
                yield from figures_in(interval_text(values[key], high))
    for saving in filter(None, (card.saving for card in document.findings)):
        yield from figures_in(interval_text(saving.low_ns, saving.high_ns))
        yield from figures_in(interval_text(0, saving.indirect_ns))
        if saving.cause_high_ns is not None:
            yield from figures_in(interval_text(saving.cause_low_ns, saving.cause_high_ns))
        if (after := saving.step_after_ns) is not None:
            yield from figures_in(interval_text(after.low, after.high))
            yield inside(after.low + saving.high_ns - saving.likely_ns, after.low, after.high)


def _values(document):
    for section in document.sections:
        for part in section.body:
            if isinstance(part, Figures):
                for figure in part.figures:
                    yield from _ends(figure.key, figure.unit, figure.value)
            elif isinstance(part, Bars):
                for bar in part.bars:
                    yield from _ends(bar.key, part.unit, bar.value)
                    yield from _ends("", "frac", bar.frac)
            elif isinstance(part, Table):
                for row in part.rows:
                    for column in part.columns:
                        yield from _ends(column.key, column.unit, row.get(column.key))
            elif isinstance(part, FindingCard):
                yield from _of_card(part)


def _of_card(card):
    for figure in card.evidence:
        yield from _ends(figure.key, figure.unit, figure.value)
    yield "", "frac", card.confidence
    saving = card.saving
    if saving is None:
        return
    for key in ("low_ns", "high_ns", "likely_ns", "indirect_ns", "cause_low_ns", "cause_high_ns"):
        yield from _ends("", "ns", getattr(saving, key))
    yield from _ends("", "frac", saving.frac)
    yield from _ends("", "ns", saving.step_after_ns)


def _ends(key, unit, value):
    """Yield a value, or the ends of an interval, with the key and the unit."""
    if isinstance(value, Quantity):
        value, unit = value.value, value.unit
    ends = (value.low, value.high) if isinstance(value, Interval) else (value,)
    for end in ends:
        if isinstance(end, (int, float)) and not isinstance(end, bool):
            yield key, unit, end
