"""Looks up a device's peak rates by the name that it reports."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_VENDORS = re.compile(r"\b(nvidia|tesla|amd|instinct|geforce|graphics)\b|[\[\]()™®]")
_MEMORY_TOLERANCE = 0.12
"""Devices report from 7 % less (ECC, firmware) to 8 % more (GiB sold as GB) than is advertised."""


@dataclass(frozen=True)
class Peaks:
    """The most that one device can do per second by its vendor's sheet, as in peaks.toml.

    `flop_per_s` is dense, by dtype; `units` are multiprocessors (NVIDIA) or compute units (AMD).
    """

    name: str
    flop_per_s: Mapping[str, float]
    memory_bytes_per_s: float | None
    url: str
    memory_gb: int | None = None
    units: int | None = None
    checked: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lookup:
    """Peaks of a device, or None with the reason; with peaks, it is which of them are unknown."""

    peaks: Peaks | None
    reason: str = ""


def find_peaks(
    name: str | None, *, memory_bytes: int | None = None, units: int | None = None
) -> Lookup:
    """Return the peaks of a device by its reported name; a similar name is no match.

    The reported memory and units decide between products of the same name, and show whether the
    device is a partition.

    >>> find_peaks("NVIDIA H100 80GB HBM3").peaks.flop_per_s["bf16"]
    989400000000000.0
    """
    if not name:
        return Lookup(None, "The file does not name the device.")
    plain = " ".join(_VENDORS.sub(" ", name.lower()).split())  # the form of the names in peaks.toml
    if "mig" in plain.split():
        return Lookup(None, f"{name} is a MIG partition; only whole devices have a datasheet row.")
    named = [row for row, patterns in peak_rows() if any(p.fullmatch(plain) for p in patterns)]
    if not named:
        return Lookup(None, f"No datasheet row in hardware/peaks.toml for {name!r}.")
    fitting = [row for row in named if _fits(row, memory_bytes, units)]
    if not fitting:
        datasheet = named[0]
        return Lookup(
            None,
            f"{name} reports {memory_bytes or '?'} bytes and {units or '?'} units, the datasheet "
            f"of {datasheet.name} {datasheet.memory_gb or '?'} GB and {datasheet.units or '?'}: "
            "a partition or another model, whose peaks are not known.",
        )
    return _common_peaks(name, fitting)


@cache
def peak_rows() -> list[tuple[Peaks, list[re.Pattern[str]]]]:
    """Return every row of peaks.toml, with the patterns of its names."""
    text = Path(__file__).with_name("peaks.toml").read_text("utf-8")
    rows = []
    for entry in tomllib.loads(text)["gpu"]:
        patterns = [re.compile(pattern) for pattern in entry.pop("names")]
        rows.append((Peaks(**{**entry, "checked": tuple(entry["checked"])}), patterns))
    return rows


def _fits(row: Peaks, memory_bytes: int | None, units: int | None) -> bool:
    sold = row.memory_gb and row.memory_gb * 10**9
    if memory_bytes and sold and abs(memory_bytes - sold) > _MEMORY_TOLERANCE * sold:
        return False
    return units is None or row.units is None or units == row.units


def _common_peaks(name: str, rows: list[Peaks]) -> Lookup:
    """Return the peaks that all products of the name have in common."""
    first = rows[0]
    if len(rows) == 1:
        return Lookup(first)
    products = ", ".join(row.name for row in rows)
    flop_per_s = {
        dtype: rate
        for dtype, rate in first.flop_per_s.items()
        if all(row.flop_per_s.get(dtype) == rate for row in rows)
    }
    if not flop_per_s:
        return Lookup(None, f"{name} may be any of {products}, whose peaks differ.")
    same_memory = all(row.memory_bytes_per_s == first.memory_bytes_per_s for row in rows)
    common = replace(
        first,
        name=" or ".join(row.name for row in rows),
        flop_per_s=flop_per_s,
        memory_bytes_per_s=first.memory_bytes_per_s if same_memory else None,
        memory_gb=first.memory_gb if all(r.memory_gb == first.memory_gb for r in rows) else None,
    )
    reason = "" if same_memory else f"{name} may be any of {products}: its bandwidth is not known."
    return Lookup(common, reason)
