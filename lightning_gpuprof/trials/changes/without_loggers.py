"""Trains without loggers, which shows the gain without any of their work. It is no change to keep.

Calls of `self.log` and of a logger's `experiment` stay in the program, and do nothing.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.trials import ChangedSettings
from lightning_gpuprof.trials.change import Change, Values


def _values(run: RunResults) -> Values:
    return [True] if settings_of(run.start).loggers else "there is no logger"


CHANGE = Change(
    values=_values,
    write=lambda value, run: ChangedSettings(without_loggers=True),
    phases=(Phase.LOGGING,),
    alters="it trains without loggers",
    ceiling=True,
    on_request=True,
)
