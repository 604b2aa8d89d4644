"""Every typed value of a document, for tests that compare surfaces or check units."""

from lightning_gpuprof.report.document import Bars, Figures, FindingCard, Interval, Quantity, Table


def values_of(document, *, sections=None):
    """Yield (place, unit, value) of each figure, cell, bar and saving that was measured."""
    for section in document.sections:
        if sections is not None and section.id not in sections:
            continue
        for part in section.body:
            for at, unit, value in _of_part(part):
                if isinstance(value, Quantity):
                    value, unit = value.value, value.unit
                if value is not None:
                    yield f"{section.id}.{at}", unit, value


def _of_part(part):
    if isinstance(part, Figures):
        yield from ((figure.key, figure.unit, figure.value) for figure in part.figures)
    elif isinstance(part, Table):
        for number, row in enumerate(part.rows):
            for column in part.columns:
                yield f"{part.id}[{number}].{column.key}", column.unit, row.get(column.key)
    elif isinstance(part, Bars):
        for bar in part.bars:
            yield f"{part.id}.{bar.key}", part.unit, bar.value
            yield f"{part.id}.{bar.key}.frac", "frac", bar.frac
            yield f"{part.id}.{bar.key}.device", part.unit, bar.device_value
    elif isinstance(part, FindingCard):
        yield from ((figure.key, figure.unit, figure.value) for figure in part.evidence)
        if part.saving is not None:
            yield f"{part.id}.saving", "ns", Interval(part.saving.low_ns, part.saving.high_ns)
            yield f"{part.id}.saving.frac", "frac", part.saving.frac


def ends(value):
    """Return a value's bounds: those of an interval, or the value twice."""
    return (value.low, value.high) if isinstance(value, Interval) else (value, value)
