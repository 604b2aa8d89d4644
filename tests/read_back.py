"""Reads values back from the text that a document's values were formatted to."""

import re

TIMES = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}
SIZES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
NUMBER = r"[-+]?[\d,]+(?:\.\d+)?(?:e-?\d+)?"
SCALES = {"ns": TIMES, "bytes": SIZES, "bytes_per_s": {f"{name}/s": n for name, n in SIZES.items()}}


def read_back(text, unit):
    """Return the bounds of a formatted value, both the same where it is no interval.

    >>> read_back("2.0 to 3.5 ms", "ns"), read_back("up to 12%", "frac")
    ((2000000.0, 3500000.0), (0.0, 0.12))
    """
    low, _, high = text.rpartition(" to ")
    last, scale = _number(high, unit)
    if not low:
        return last, last
    if low == "up":
        return 0.0, last
    first = re.fullmatch(NUMBER, low)
    return (float(low.replace(",", "")) * scale if first else _number(low, unit)[0]), last


def _number(text, unit):
    scales = SCALES.get(unit)
    if scales is not None:
        number, _, name = text.partition(" ")
        scale = scales[name]
    else:
        number, scale = text.removesuffix("/s"), 1.0
        if number.endswith("%"):
            number, scale = number[:-1], 0.01
    assert re.fullmatch(NUMBER, number), text
    return float(number.replace(",", "")) * scale, scale


def last_digit(text, unit):
    """Return what one of the last digit is worth that a formatted value shows.

    >>> last_digit("2.0 to 3.5 ms", "ns"), last_digit("410 to 590 ms", "ns")
    (100000.0, 10000000.0)
    """
    high = text.rpartition(" to ")[2]
    number, exponent = re.match(r"[-+]?([\d,]+(?:\.\d+)?)(?:e(-?\d+))?", high).groups()
    whole, _, decimals = number.partition(".")
    is_rounded = not decimals and len(whole) > 2 and whole.endswith("0")
    scale = _number(high, unit)[1]
    return scale * 10.0 ** (int(exponent or 0) - len(decimals) + is_rounded)


def close(text, unit, bounds):
    """Whether the ends of a formatted value are its bounds, rounded to the digits it shows."""
    half = 0.501 * last_digit(text, unit)
    shown = read_back(text, unit)
    return all(abs(read - bound) <= half for read, bound in zip(shown, bounds, strict=True))
