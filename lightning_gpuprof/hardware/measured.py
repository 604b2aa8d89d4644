"""Peaks that `doctor --measure-peaks` measured on this machine, kept in the user's cache folder."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SOURCE = "measured here"


def cache_file() -> Path:
    """Return where measured peaks are kept: below XDG_CACHE_HOME, or ~/.cache."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(root) / "lightning_gpuprof" / "peaks.json"


def save_measured(devices: Sequence[Mapping[str, Any]]) -> Path:
    """Keep what was measured, by device name, beside what was measured of other devices.

    Raises:
        OSError: The file cannot be written.
    """
    path = cache_file()
    known = {**load_measured(), **{device["name"]: dict(device) for device in devices}}
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(known, indent=2), encoding="utf-8")
    part.replace(path)
    return path


def load_measured() -> dict[str, Any]:
    """Return what was measured, by device name; nothing where the file is not there or damaged."""
    try:
        text = cache_file().read_text(encoding="utf-8")
    except (OSError, ValueError):
        return {}
    try:
        known = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(known, dict):
        return {}
    return {
        name: device
        for name, device in known.items()
        if isinstance(device, dict) and {"flop_per_s", "memory_bytes_per_s"} <= device.keys()
    }
