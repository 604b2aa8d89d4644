"""Logs in fewer steps. The results of training stay the same."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.trials.change import Change, Values

DEFAULT_STEPS = 50
"""Lightning's default for `log_every_n_steps`."""


def _values(run: RunResults) -> Values:
    settings = settings_of(run.start)
    if not settings.loggers:
        return "there is no logger"
    steps = settings.log_every_n_steps or DEFAULT_STEPS
    return [max(DEFAULT_STEPS, 4 * steps)]


CHANGE = Change(
    values=_values,
    place="Trainer",
    phases=(Phase.LOGGING, Phase.CALLBACKS),
    findings=("slow-logging",),
)
