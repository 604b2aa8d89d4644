"""Logs in fewer steps; training's results stay the same."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.trials.change import Change, Values

USUAL_STEPS = 50
"""Lightning's interval of logging."""


def _values(run: RunResults) -> Values:
    now = run.start.trainer.get("log_every_n_steps") or USUAL_STEPS
    loggers = run.start.trainer.get("loggers")
    return [max(USUAL_STEPS, 4 * now)] if loggers else "there is no logger"


CHANGE = Change(
    values=_values,
    place="Trainer",
    phases=(Phase.LOGGING, Phase.CALLBACKS),
    findings=("slow-logging",),
)
