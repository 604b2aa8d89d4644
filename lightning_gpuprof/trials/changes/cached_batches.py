"""Trains on the first batches again and again, which shows the gain without any wait for data.

That is the ceiling for changes of the data loading. It is not a change to keep.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.trials import ChangedSettings
from lightning_gpuprof.trials.change import NO_LOADER, Change, Values

BATCHES, MAX_BYTES = 16, 2**30


def _values(run: RunResults) -> Values:
    if not run.start.loader:
        return NO_LOADER
    fitting = MAX_BYTES // max(1, run.loader.batch_bytes or 1)
    return [max(2, min(BATCHES, fitting))]


CHANGE = Change(
    values=_values,
    write=lambda count, run: ChangedSettings(cached_batches=count),
    phases=(Phase.DATA_WAIT,),
    alters="it trains on its first batches only",
    ceiling=True,
)
