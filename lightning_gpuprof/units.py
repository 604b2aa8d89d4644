"""Formats numbers for people. All other code passes integers and fractions around."""

_TIME_STEPS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
_BYTE_STEPS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def duration(ns: float) -> str:
    """Format nanoseconds with three significant digits.

    >>> duration(1_234_000_000), duration(41_500_000), duration(9_500), duration(-2_000_000)
    ('1.23 s', '41.5 ms', '9.50 µs', '-2.00 ms')
    """
    for scale, unit in _TIME_STEPS:
        if abs(ns) >= scale:
            return f"{_three_digits(ns / scale)} {unit}"
    return f"{ns:.0f} ns"


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


def percent(frac: float) -> str:
    """Format a fraction of 1 as a percentage with one decimal.

    >>> percent(0.1234)
    '12.3%'
    """
    return f"{frac * 100:.1f}%"


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
    for scale, unit in _BYTE_STEPS:
        if abs(num_bytes) >= scale:
            return f"{_three_digits(num_bytes / scale)} {unit}"
    return f"{num_bytes:.0f} B"


def quantity(name: str, value: float) -> str:
    """Format a number by the unit that ends its name.

    >>> quantity("step_ns", 1_500_000), quantity("wait_frac", 0.25), quantity("calls_count", 12_000)
    ('1.50 ms', '25.0%', '12,000')
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

    >>> interval_text(2_000_000, 3_500_000), interval_text(800_000, 1_000_000)
    ('2.00 to 3.50 ms', '800 µs to 1.00 ms')
    >>> interval_text(5, 5), interval_text(0, 5)
    ('5 ns', 'up to 5 ns')
    """
    return between(duration(low_ns), duration(high_ns), from_nothing=not low_ns)


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


def _three_digits(value: float) -> str:
    digits = len(str(int(abs(value))))
    return f"{value:.{max(0, 3 - digits)}f}"
