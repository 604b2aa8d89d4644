"""The JSON of `lightning-gpuprof plan` and `tune`, where it lies beside the run."""

import os
from typing import Any

import msgspec

from lightning_gpuprof.views.tab.loaded_run import LoadedRun
from lightning_gpuprof.views.tab.query import Query

PLAN_NAME, TUNE_NAME = "plan.json", "tune.json"
MAX_BYTES = 1_000_000
_SHOWN: dict[str, dict[str, tuple[str, ...]]] = {
    PLAN_NAME: {
        "": ("precision", "optimizer", "target_frac", "points", "cards", "assumptions"),
        "points": (
            "batch_size",
            "peak_allocated_bytes",
            "peak_reserved_bytes",
            "peak_phase",
            "exact_bytes",
        ),
        "cards": (
            "card",
            "vram_bytes",
            "batch_size",
            "peak_reserved_bytes",
            "vram_frac",
            "largest_batch_size",
        ),
    },
    TUNE_NAME: {
        "": ("points", "suggested_batch_size", "reason"),
        "points": (
            "batch_size",
            "device",
            "step_ns",
            "samples_per_s",
            "peak_reserved_bytes",
            "total_bytes",
            "out_of_memory",
            "error",
        ),
    },
}
"""The keys that the page shows: of the document, and of the rows in its lists."""


def plan_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return the documents nearest to the run: beside it, or in a folder above up to its root.

    A file of that name that is no such document is reported in `notes`.
    """
    del query  # one plan is for all ranks and sessions
    notes: list[str] = []
    plan, planned = _nearest(run, PLAN_NAME, notes)
    tune, tuned = _nearest(run, TUNE_NAME, notes)
    return {"plan": plan, "plan_file": planned, "tune": tune, "tune_file": tuned, "notes": notes}


def _nearest(
    run: LoadedRun, name: str, notes: list[str]
) -> tuple[dict[str, Any] | None, str | None]:
    for folder in _upwards(run.path, run.root):
        path = os.path.join(folder, name)
        if not run.fs.exists(path) or run.fs.size(path) > MAX_BYTES:
            continue
        try:
            return _shown(msgspec.json.decode(run.fs.read_bytes(path)), _SHOWN[name]), path
        except (msgspec.MsgspecError, KeyError, TypeError):
            command = name.removesuffix(".json")
            notes.append(f"{path} is not the JSON of `{command} --json`; left out.")
    return None, None


def _shown(document: Any, keys: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    shown = {key: document[key] for key in keys[""]}
    for name, of_row in keys.items():
        if name:
            shown[name] = [{key: row[key] for key in of_row} for row in document[name]]
    return shown


def _upwards(path: str, root: str) -> list[str]:
    """Return a run's folder and those above it, up to the root that it was found under.

    >>> _upwards("/logs/a/version_0", "/logs")
    ['/logs/a/version_0', '/logs/a', '/logs']
    >>> _upwards("/elsewhere/run", "/logs")
    ['/elsewhere/run']
    """
    prefix, folders = root.rstrip("/") + "/", [path.rstrip("/")]
    while folders[-1].startswith(prefix) and folders[-1] != prefix:
        folders.append(os.path.dirname(folders[-1]))
    return folders
