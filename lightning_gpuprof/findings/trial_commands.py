"""Names the trial that measures what a finding's change gains, or says why there is none."""

import shlex

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import Finding, Place, TrialCommand, When
from lightning_gpuprof.records.phases import Phase

BETWEEN_STEPS = (Phase.VALIDATION.value, Phase.CHECKPOINT.value)
DEFERRED = "deferred_logging"
"""The setting by which calls of self.log do nothing in the steps."""
SETTING = "a trial of this setting"
BATCHES = "a trial on a few batches again and again, which shows the upper bound for faster loading"
CALLBACK = "a trial without {name}, which shows the most that can be saved here"
LOG = "a trial without self.log, which shows the most that can be saved here"
LOGGERS = "a trial without loggers, which shows the most that can be saved here"
NO_TRAINING = "try runs a training, and this is none"
COUNTED = "no trial is needed: each occurrence was timed, and the saving follows from their number"
COMPARE = "make the change, then compare the new run with this one (lightning-gpuprof compare)"
NO_LINE = f"no trial can measure this line: {COMPARE}"
NO_CHANGE = f"no trial can measure this change: {COMPARE}"


def trial_command(finding: Finding, run: RunResults) -> TrialCommand:
    """Return the trial that measures a finding's change, or why there is none.

    If the change is a setting, that is tried. Otherwise the phase decides in which the time is
    spent: a trial without what takes it shows the most that can be saved.
    """
    place = finding.places[0] if finding.places else Place()
    if not run.trains:
        return TrialCommand(None, NO_TRAINING)
    if place.phase in BETWEEN_STEPS:
        return TrialCommand(None, COUNTED)
    if finding.setting is not None:
        return TrialCommand(finding.setting, LOG if finding.setting == DEFERRED else SETTING)
    if finding.when is not When.IN_STEPS:
        return TrialCommand(None, COUNTED)
    if place.phase == Phase.DATA_WAIT.value and run.start.loader is not None:
        return TrialCommand("cached_batches", BATCHES)
    if place.phase == Phase.CALLBACKS.value and place.name:
        return TrialCommand(f"without_callback={place.name}", CALLBACK.format(name=place.name))
    if place.phase == Phase.LOGGING.value:
        return TrialCommand("without_loggers", LOGGERS)
    return TrialCommand(None, NO_LINE if place.file else NO_CHANGE)


def command_line(
    trial: TrialCommand, *, run_dir: str | None, program: tuple[str, ...]
) -> str | None:
    """Return the command of a trial, ready to paste; None if there is no such trial.

    >>> command_line(TrialCommand("num_workers=4", ""), run_dir="a run", program=("train.py",))
    "lightning-gpuprof try --change num_workers=4 --into 'a run' train.py"
    >>> command_line(TrialCommand("compile", ""), run_dir=None, program=("-m", "net.train"))
    'lightning-gpuprof try --change compile -- python -m net.train'
    """
    if trial.change is None:
        return None
    words = ["lightning-gpuprof", "try", "--change", trial.change]
    if run_dir is not None:
        words += ["--into", run_dir]
    words += ["--", "python", *program] if program[:1] == ("-m",) else program or ("SCRIPT",)
    return shlex.join(words)
