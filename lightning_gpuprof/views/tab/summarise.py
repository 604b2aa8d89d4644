"""Writes the summary of the run in its argument; run as a module, in a process of its own."""

import os

import msgspec

import lightning_gpuprof
from lightning_gpuprof.records.files import plugin_dir, written_whole
from lightning_gpuprof.views.documents.trace_notices import STILL_ANALYSED
from lightning_gpuprof.views.tab.loaded_run import LoadedRun
from lightning_gpuprof.views.tab.preparation import prepare
from lightning_gpuprof.views.tab.query import Query
from lightning_gpuprof.views.tab.summary import (
    SCHEMA_VERSION,
    SUMMARY_NAME,
    Summary,
    answer_key,
    files_of,
)
from lightning_gpuprof.views.tab.tab import find_view

OVERVIEW_BUCKETS = "160"
"""As overview.js asks."""
KEPT: tuple[tuple[str, dict[str, str]], ...] = (
    ("run", {}),
    ("report", {}),
    ("steps", {}),
    ("steps", {"buckets": OVERVIEW_BUCKETS}),
    ("memory", {}),
)
"""What the overview, the steps and the memory view ask for of the default rank and session."""


def write_summary(run: str) -> str | None:
    """Work a run's summary out, write it beside the records, and return that file's path.

    None, and no file, where a trace is still being analysed: should that fail, no file would change
    and the summary would go on saying so.

    Raises:
        RecordError: There is no such run, or it cannot be read.
        OSError: The file cannot be written.
    """
    run = os.path.abspath(run)
    # Before reading: what is written meanwhile makes the summary one of older files.
    files = files_of(run)
    loaded = LoadedRun(run, summarised=False)
    notices = loaded.report(Query({}))["run"]["notices"]
    if any(STILL_ANALYSED in notice for notice in notices):
        return None
    answers = {}
    for name, params in KEPT:
        payload = find_view(name)(loaded, Query(params))
        answers[answer_key(name, params)] = msgspec.Raw(msgspec.json.encode(payload))
    summary = Summary(
        schema_version=SCHEMA_VERSION,
        version=lightning_gpuprof.__version__,
        run=run,
        files=files,
        cycles=loaded.cycles(),
        answers=answers,
    )
    path = os.path.join(plugin_dir(run), SUMMARY_NAME)
    with written_whole(path) as part, open(part, "wb") as file:
        file.write(msgspec.json.encode(summary))
    return path


if __name__ == "__main__":
    prepare(write_summary)
