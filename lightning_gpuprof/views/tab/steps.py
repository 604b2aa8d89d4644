"""The steps of a session, stacked by phase, in as many buckets as there is room to draw."""

from typing import Any

import numpy as np

from lightning_gpuprof.analysis.run.level_of_detail import bucket_steps
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.views.tab.loaded_run import LoadedRun
from lightning_gpuprof.views.tab.query import Query

DEFAULT_BUCKETS = 480
MAX_BUCKETS = 1000
"""A thousand buckets of thirteen phases keep a reply below 200 kB."""


def steps_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return a range of steps by bucket; all steps go by their own numbers.

    Where only one step in several is timed by phase, numbers and places in the record differ.

    Raises:
        QueryError: A parameter is out of range.
    """
    session = run.session(query)
    last = query.integer("last", default=2**53, low=0, high=2**53)
    first = query.integer("first", default=0, low=0, high=2**53)
    numbers = session.columns.get("step", np.arange(session.steps))
    buckets = query.integer("buckets", default=DEFAULT_BUCKETS, low=1, high=MAX_BUCKETS)
    phases = _phases(session)
    found = bucket_steps(
        session.columns.get("dur_ns", np.zeros(0, dtype=np.int64)),
        phases,
        session.columns.get("flags"),
        first=int(np.searchsorted(numbers, first)),
        last=int(np.searchsorted(numbers, last)),
        buckets=buckets,
    )
    return {
        "steps": session.steps,
        "first": numbers[found.first].tolist(),
        "last": numbers[found.first + found.count - 1].tolist(),
        "count": found.count.tolist(),
        "phase_ns": {name: values.tolist() for name, values in found.mean_ns.items()},
        "max_ns": found.max_ns.tolist(),
        "slowest": numbers[found.slowest].tolist(),
        "flags": found.flags.tolist(),
    }


def _phases(session: Session) -> dict[str, Any]:
    measured = {phase.value: session.phase_ns(phase) for phase in Phase}
    return {name: values for name, values in measured.items() if values is not None}
