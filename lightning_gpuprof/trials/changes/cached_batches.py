"""Hands out the first batches again and again: the gain that no wait for data at all would give.

It trains on those batches only, and is a ceiling for other changes, nothing to keep.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.trials.change import NO_LOADER, Change, Values

BATCHES, MOST_BYTES = 16, 2**30


def _values(run: RunResults) -> Values:
    fitting = MOST_BYTES // max(1, run.loader.batch_bytes or 1)
    return [max(2, min(BATCHES, fitting))] if run.start.loader else NO_LOADER


CHANGE = Change(
    values=_values,
    write=lambda value, run: {"cached_batches": [value]},
    phases=(Phase.DATA_WAIT,),
    alters="it trains on its first batches only",
    ceiling=True,
)
