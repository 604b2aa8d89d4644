"""What `lightning-gpuprof plan` predicted and `tune` measured, where their JSON lies by the run."""

import os
from typing import Any, TypeVar

import msgspec

from lightning_gpuprof.views.tab.loaded_run import LoadedRun
from lightning_gpuprof.views.tab.query import Query

PLAN_NAME, TUNE_NAME = "plan.json", "tune.json"
MAX_BYTES = 1_000_000


class _Part(msgspec.Struct):
    """A part of a document; keys that the page does not show are left out."""


class PlanPoint(_Part):
    """Predicted memory of a training step at one batch size."""

    batch_size: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    peak_phase: str
    exact_bytes: dict[str, int]


class PlanCard(_Part):
    """What fits a card; null where nothing does."""

    card: str | None
    vram_bytes: int
    batch_size: int | None
    peak_reserved_bytes: int | None
    vram_frac: float | None
    largest_batch_size: int | None


class PlanDocument(_Part):
    """What the page shows of `plan --json`."""

    precision: str
    optimizer: str
    target_frac: tuple[float, float]
    points: list[PlanPoint]
    cards: list[PlanCard]
    assumptions: list[str]


class TunePoint(_Part):
    """What training at one batch size took; null is not measured."""

    batch_size: int
    device: str | None
    step_ns: int | None
    samples_per_s: float | None
    peak_reserved_bytes: int | None
    total_bytes: int | None
    out_of_memory: bool
    error: str | None


class TuneDocument(_Part):
    """What the page shows of `tune --json`."""

    points: list[TunePoint]
    suggested_batch_size: int | None
    reason: str


Document = TypeVar("Document", PlanDocument, TuneDocument)


def plan_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return the documents nearest to the run: beside it, or in a folder above up to its root.

    A file of that name that is no such document is told in `notes`.
    """
    del query  # one plan is for all ranks and sessions
    notes: list[str] = []
    plan, planned = _nearest(run, PLAN_NAME, PlanDocument, notes)
    tune, tuned = _nearest(run, TUNE_NAME, TuneDocument, notes)
    return {
        "plan": plan and msgspec.to_builtins(plan),
        "plan_file": planned,
        "tune": tune and msgspec.to_builtins(tune),
        "tune_file": tuned,
        "notes": notes,
    }


def _nearest(
    run: LoadedRun, name: str, kind: type[Document], notes: list[str]
) -> tuple[Document | None, str | None]:
    for folder in _upwards(run.path, run.root):
        path = os.path.join(folder, name)
        if not run.fs.exists(path) or run.fs.size(path) > MAX_BYTES:
            continue
        try:
            return msgspec.json.decode(run.fs.read_bytes(path), type=kind), path
        except msgspec.MsgspecError as error:
            command = name.removesuffix(".json")
            notes.append(f"{path} is not what `{command} --json` prints ({error}); left out.")
    return None, None


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
