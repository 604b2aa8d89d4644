"""Figures with a limit, printed as PASS or FAIL and kept for a summary."""

import json
import os
from typing import Any


def figure(
    name: str, value: float | None, *, most: float | None = None, least: float | None = None
) -> bool:
    """Say whether a figure keeps its limit; None, not measured, does not.

    The environment variable FIGURES names the file that keeps them, one line of JSON each.
    """
    passed = value is not None
    passed = passed and (most is None or value <= most)  # type: ignore[operator]
    passed = passed and (least is None or value >= least)  # type: ignore[operator]
    row: dict[str, Any] = {"name": name, "value": value, "most": most, "least": least}
    row["passed"] = passed
    print(f"\n{shown(row)}", flush=True)
    if path := os.environ.get("FIGURES"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    return passed


def shown(row: dict[str, Any]) -> str:
    """Return a figure's line."""
    limits = [f"at {word} {row[word]:g}" for word in ("most", "least") if row[word] is not None]
    value = "not measured" if row["value"] is None else f"{row['value']:.4g}"
    return f"{'PASS' if row['passed'] else 'FAIL'}  {row['name']}: {value} ({', '.join(limits)})"
