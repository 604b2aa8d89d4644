"""Trains without a callback, which shows the gain without its work. It is no change to keep."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.phases import OWN_CALLBACKS, Phase
from lightning_gpuprof.records.trials import ChangedSettings
from lightning_gpuprof.trials.change import Change, Values

MOST = 3


def _values(run: RunResults) -> Values:
    names = [part.name for part in run.parts_of(Phase.CALLBACKS) if part.name not in OWN_CALLBACKS]
    return names[:MOST] or "no callback was timed"


CHANGE = Change(
    values=_values,
    write=lambda name, run: ChangedSettings(without_callbacks=(name,)),
    phases=(Phase.CALLBACKS,),
    alters="it trains without what the callback does",
    ceiling=True,
    on_request=True,
)
