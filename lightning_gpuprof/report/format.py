"""Formats the values of a document by their units, for every surface.

`tab/static/format.js` does the same in the browser; tests/data/format_cases.json holds both to the
same texts. A tie is rounded to the even digit, as Python does.
"""

from collections.abc import Iterable
from datetime import datetime, timezone
from math import floor, log10

from lightning_gpuprof.report.document import Interval, Place, Quantity, Unit, Value
from lightning_gpuprof.report.labels import phase_label
from lightning_gpuprof.units import (
    between,
    duration,
    interval_text,
    percent,
    percent_decimals,
    percents,
    size,
    size_interval,
)

NOT_MEASURED = "-"
STATES = {"good": "ok", "bad": "bad", "look": "look", "neutral": "", "not_measured": NOT_MEASURED}
"""How a state is written."""
_SIGNIFICANT = 4
_SMALLEST = 1e-4


def shown(value: Value, unit: Unit, decimals: int | None = None) -> str:
    """Format a value of a document by its unit, a share in a column with the column's decimals.

    >>> shown(1_500_000, "ns"), shown(0.25, "frac"), shown(-0.18, "change_frac")
    ('1.50 ms', '25%', '-18%')
    >>> shown(Interval(2e6, 3.5e6), "ns"), shown(None, "bytes"), shown(0.25, "frac", decimals=1)
    ('2.0 to 3.5 ms', '-', '25.0%')
    """
    if isinstance(value, Quantity):
        return shown(value.value, value.unit)
    if value is None:
        return NOT_MEASURED
    if isinstance(value, Place):
        return place_name(value)
    if isinstance(value, Interval):
        return _interval(value, unit)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return STATES.get(value, value) if unit == "state" else value
    return _number(value, unit, decimals)


def column_decimals(values: Iterable[Value], unit: Unit) -> int | None:
    """Return the decimals with which the shares in a column stay aligned; None for other units.

    >>> column_decimals([0.75, 0.034, None], "frac"), column_decimals([75, 3], "ns")
    (1, None)
    """
    if unit not in ("frac", "change_frac"):
        return None
    return percent_decimals(*(value for value in values if isinstance(value, (int, float))))


def place_name(place: Place) -> str:
    """Return where something is as text, without the line's source.

    >>> place_name(Place(file="train.py", line=3)), place_name(Place(name="EMA", rank=1))
    ('train.py:3', 'EMA rank 1')
    """
    if place.file is not None:
        file = place.short_file or place.file
        return file if place.line is None else f"{file}:{place.line}"
    names = [place.name or place.kernel]
    if place.rank is not None:
        names.append(f"rank {place.rank}")
    named = " ".join(name for name in names if name)
    return named or (phase_label(place.phase) if place.phase else "")


def _interval(value: Interval, unit: Unit) -> str:
    low, high = value.low, value.high
    if unit == "frac":
        return percents(low, high)
    if unit == "change_frac":
        decimals = percent_decimals(max(abs(low), abs(high)))
        return between(_number(low, unit, decimals), _number(high, unit, decimals))
    if unit == "ns":
        return interval_text(low, high)
    if unit in ("bytes", "bytes_per_s"):
        return f"{size_interval(low, high)}{'/s' if unit == 'bytes_per_s' else ''}"
    return between(_number(low, unit), _number(high, unit), from_nothing=not low and high > 0)


def _number(value: float, unit: Unit, decimals: int | None = None) -> str:
    if unit == "ns":
        return duration(value)
    if unit == "bytes":
        return size(value)
    if unit == "bytes_per_s":
        return f"{size(value)}/s"
    if unit == "per_s":
        return f"{_short(value)}/s"
    if unit == "frac":
        return percent(value, decimals)
    if unit == "change_frac":
        return f"{'+' if value >= 0 else ''}{percent(value, decimals)}"
    if unit == "unix_ns":
        moment = datetime.fromtimestamp(value // 1e9, tz=timezone.utc)
        return moment.strftime("%Y-%m-%d %H:%M UTC")
    return _short(value) if unit == "count" else number(value)


def _short(value: float) -> str:
    """Format a count, or a mean of counts with three significant digits.

    >>> _short(12_000), _short(2.5), _short(17_676.9)
    ('12,000', '2.50', '17,677')
    """
    digits = len(str(int(abs(value))))
    decimals = 0 if float(value).is_integer() else max(0, 3 - digits)
    return f"{value:,.{decimals}f}"


def number(value: float) -> str:
    """Format a plain number with four significant digits.

    >>> number(0.5), number(2.34567), number(12_345.6), number(0.0000123456)
    ('0.5', '2.346', '12,346', '1.235e-5')
    """
    if float(value).is_integer():
        return f"{value:,.0f}"
    if abs(value) < _SMALLEST:
        digits, _, exponent = f"{value:.{_SIGNIFICANT - 1}e}".partition("e")
        return f"{digits.rstrip('0').rstrip('.')}e{int(exponent)}"
    decimals = max(0, _SIGNIFICANT - 1 - floor(log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text
