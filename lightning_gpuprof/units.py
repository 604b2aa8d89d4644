"""Formats numbers for people. All other code passes integers and fractions around.

What was measured, such as the time of a step, has three significant digits. An interval has as few
as its width supports, at least two, and the same decimals at both ends. A share has no decimals,
but for one below a tenth, and from 99.5% to less than 100%.
"""

_TIME_STEPS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
_BYTE_STEPS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def duration(ns: float) -> str:
    """Format nanoseconds with three significant digits.

    >>> duration(1_234_000_000), duration(41_500_000), duration(9_500), duration(-2_000_000)
    ('1.23 s', '41.5 ms', '9.50 µs', '-2.00 ms')
    """
    scale, unit = _scale_of(ns, _TIME_STEPS, "ns")
    return f"{_three_digits(ns / scale) if scale > 1 else f'{ns:.0f}'} {unit}"


def ascii_only(text: str) -> str:
    """Return the text as a terminal that shows only ASCII can print it.

    >>> ascii_only("12 µs é ok")
    '12 us ? ok'
    """
    return text.replace("µ", "u").encode("ascii", "replace").decode()


def seconds(ns: float) -> str:
    """Format nanoseconds in seconds, with two decimals or three significant digits.

    >>> seconds(1_234_000_000), seconds(61_500_000_000), seconds(28_512_000), seconds(0)
    ('1.23s', '61.50s', '0.0285s', '0.00s')
    """
    value = ns / 1e9
    return f"{value:.2f}s" if value >= 0.1 or value == 0 else f"{value:.3g}s"


def percent(frac: float, decimals: int | None = None) -> str:
    """Format a fraction of 1 as a percentage, with as many decimals as a share alone needs.

    >>> percent(0.1234), percent(0.0123), percent(0.999), percent(1), percent(0.5, decimals=1)
    ('12%', '1.2%', '99.9%', '100%', '50.0%')
    """
    return f"{frac * 100:.{percent_decimals(frac) if decimals is None else decimals}f}%"


def percent_decimals(*fracs: float) -> int:
    """Return how many decimals shares need that are read together, as in a column.

    >>> percent_decimals(0.75, 0.25), percent_decimals(0.75, 0.034), percent_decimals(0, 1)
    (0, 1, 0)
    """
    return int(any(0 < abs(frac) < 0.0995 or 0.995 <= abs(frac) < 1 for frac in fracs))


def percents(low: float, high: float) -> str:
    """Format an interval of fractions of 1 as percentages, below a tenth with one decimal.

    >>> percents(0.172, 0.338), percents(0.201, 0.203), percents(0.0, 0.12), percents(0.012, 0.034)
    ('17 to 34%', '20%', 'up to 12%', '1.2 to 3.4%')
    """
    digits = 1 if abs(high) < 0.1 else 0
    first, last = f"{low * 100:.{digits}f}", f"{high * 100:.{digits}f}"
    if first == last:
        return f"{last}%"
    return f"up to {last}%" if float(first) == 0 else f"{first} to {last}%"


def size(num_bytes: float) -> str:
    """Format bytes in powers of 1024.

    >>> size(3 * 2**30), size(1536), size(12)
    ('3.00 GiB', '1.50 KiB', '12 B')
    """
    scale, unit = _scale_of(num_bytes, _BYTE_STEPS, "B")
    return f"{_three_digits(num_bytes / scale) if scale > 1 else f'{num_bytes:.0f}'} {unit}"


def quantity(name: str, value: float) -> str:
    """Format a number by the unit that ends its name.

    >>> quantity("step_ns", 1_500_000), quantity("wait_frac", 0.25), quantity("calls_count", 12_000)
    ('1.50 ms', '25%', '12,000')
    """
    if name.endswith("_ns"):
        return duration(value)
    if name.endswith("_bytes"):
        return size(value)
    if name.endswith("_frac"):
        return percent(value)
    if name.endswith("_bytes_per_s"):
        return f"{size(value)}/s"
    if name.endswith("_per_s"):
        return f"{_three_digits(value)}/s"
    return f"{value:,.0f}" if float(value).is_integer() else _three_digits(value)


def interval_text(low_ns: float, high_ns: float) -> str:
    """Format an interval of time, or a single duration where both ends read the same.

    >>> interval_text(42_300_000, 48_100_000), interval_text(68_800_000, 140_000_000)
    ('42 to 48 ms', '69 to 140 ms')
    >>> interval_text(800_000, 1_000_000), interval_text(5, 5), interval_text(0, 5)
    ('0.8 to 1.0 ms', '5 ns', 'up to 5 ns')
    """
    low, high = _ends(low_ns, high_ns, _TIME_STEPS, "ns")
    return between(low, high, from_nothing=_is_nothing(low, high))


def size_interval(low_bytes: float, high_bytes: float) -> str:
    """Format an interval of bytes.

    >>> size_interval(2**20, 3.04 * 2**20)
    '1.0 to 3.0 MiB'
    """
    low, high = _ends(low_bytes, high_bytes, _BYTE_STEPS, "B")
    return between(low, high, from_nothing=_is_nothing(low, high))


def inside(ns: float, low_ns: float, high_ns: float) -> str:
    """Format an estimate with the unit and the digits of its interval.

    >>> inside(45_300_000, 42_300_000, 48_100_000)
    '45 ms'
    """
    scale, unit = _scale_of(max(abs(low_ns), abs(high_ns)), _TIME_STEPS, "ns")
    return f"{_to_digits(ns / scale, _decimals(low_ns / scale, high_ns / scale, scale))} {unit}"


def between(low: str, high: str, *, from_nothing: bool = False) -> str:
    """Join the ends of an interval, the unit written once where both have the same.

    >>> between("2.00 ms", "3.50 ms"), between("2.00 ms", "2.00 ms"), between("12", "15")
    ('2.00 to 3.50 ms', '2.00 ms', '12 to 15')
    """
    if low == high:
        return high
    if from_nothing:
        return f"up to {high}"
    number, _, unit = low.partition(" ")
    same = unit and high.endswith(f" {unit}")
    return f"{number if same else low} to {high}"


def shortened(text: str, width: int) -> str:
    """Cut text to the width of a column.

    >>> shortened("aten::convolution", 8), shortened("aten::mm", 8)
    ('aten:...', 'aten::mm')
    """
    return text if len(text) <= width else text[: width - 3] + "..."


def times(count: float) -> str:
    """Format how often something happens.

    >>> times(1), times(7), times(2.5)
    ('once', '7 times', '2.5 times')
    """
    return "once" if count == 1 else f"{count:,.4g} times"


def rate(per_s: float) -> str:
    """Format a rate with three significant digits, or with all digits before the point.

    >>> rate(17_676.9), rate(4.567)
    ('17,677', '4.57')
    """
    return f"{per_s:,.0f}" if per_s >= 100 else f"{per_s:.3g}"


def _ends(
    low: float, high: float, steps: tuple[tuple[int, str], ...], base: str
) -> tuple[str, str]:
    """Format both ends of an interval with one unit and the same decimals."""
    scale, unit = _scale_of(max(abs(low), abs(high)), steps, base)
    low, high = low / scale, high / scale
    decimals = _decimals(low, high, scale)
    return f"{_to_digits(low, decimals)} {unit}", f"{_to_digits(high, decimals)} {unit}"


def _is_nothing(low: str, high: str) -> bool:
    """Return whether an interval's text begins with 0 and ends above it."""
    return float(low.split(" ")[0]) == 0 < float(high.split(" ")[0])


def _scale_of(value: float, steps: tuple[tuple[int, str], ...], base: str) -> tuple[int, str]:
    """Return the largest unit of which a value is at least one, once rounded to three digits."""
    return next((step for step in steps if abs(value) >= 0.9995 * step[0]), (1, base))


def _decimals(low: float, high: float, scale: int) -> int:
    """Return the decimals of an interval's ends: below zero, they are rounded to tens and so on.

    They show the first digit of the interval's width, and of the larger end two to three digits.
    """
    largest = _exponent(max(abs(low), abs(high)))
    by_width = -_exponent(high - low) if high > low else 2 - largest
    decimals = min(max(by_width, 1 - largest), 2 - largest)
    return decimals if scale > 1 else min(decimals, 0)


def _to_digits(value: float, decimals: int) -> str:
    """Round to decimals; no whole number to fewer than two digits, or three if the first is 1."""
    digits = 3 if f"{abs(value):.2e}".startswith("1") else 2
    decimals = max(decimals, min(0, digits - 1 - _exponent(value)))
    if decimals < 0:
        return str(int(f"{value / 10**-decimals:.0f}") * 10**-decimals)
    text = f"{value:.{decimals}f}"
    return text if float(text) else text.removeprefix("-")


def _exponent(value: float) -> int:
    """Return the power of ten of a number's first digit, once rounded to three digits."""
    return int(f"{value:.2e}".partition("e")[2])


def _three_digits(value: float) -> str:
    digits = len(str(int(abs(value))))
    return f"{value:.{max(0, 3 - digits)}f}"
