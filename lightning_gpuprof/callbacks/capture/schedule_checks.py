"""What can stand between a profiler schedule and its trace, and what is said of it."""

from collections.abc import Mapping
from typing import Any

from lightning_gpuprof.callbacks._lightning import is_kind, rank_zero_warn
from lightning_gpuprof.callbacks.capture.fit_length import fit_length
from lightning_gpuprof.callbacks.output.run_output import RunOutput
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records.schema import Note
from lightning_gpuprof.schedule import Schedule, too_short


def refuse_device(device_type: str) -> None:
    """Raise where torch.profiler must not be used.

    Raises:
        ConfigError: The device is Apple's MPS.
    """
    if device_type == "mps":
        raise ConfigError(
            "ProfilerSchedule cannot record on Apple's MPS, where torch.profiler is unstable. "
            "Leave it out: phase timers and deferred loss work there."
        )


def check_length(trainer: Any, schedule: Schedule, output: RunOutput, *, explicit: bool) -> None:
    """Say where a run is too short for a schedule.

    Raises:
        ConfigError: Not one cycle of a schedule that was asked for fits.
    """
    length = fit_length(trainer, schedule.unit)
    if length is None or length >= schedule.needed():
        return
    message = too_short(schedule, length)
    if schedule.fitting(length):
        rank_zero_warn(message)
    elif explicit and not trainer.fast_dev_run:
        raise ConfigError(message)
    else:
        output.write(Note(step=0, name="no-trace", value=length, message=message))


def has_own_profiler(trainer: Any) -> bool:
    """Tell whether the Trainer records with torch.profiler by itself."""
    theirs = getattr(trainer.profiler, "_inner", trainer.profiler)
    return is_kind(theirs, "PyTorchProfiler")


def ways_to_shrink(schedule: Schedule, options: Mapping[str, bool]) -> str:
    """Return what would make a trace smaller.

    >>> ways_to_shrink(Schedule("step", 0, 0, 3, 0), {"with_stack": True})
    'with_stack=False, or a smaller active='
    """
    ways = [f"{name}=False" for name, on in options.items() if on]
    fewer = "a smaller active=" if schedule.active > 1 else "a shorter step"
    if schedule.unit == "epoch":
        fewer = "unit='step' with a small active="
    return ", or ".join([*ways, fewer])


class GivingWay:
    """Says that another profiler is at work: recorded each time, shown once.

    Args:
        output: The run's records.
    """

    def __init__(self, output: RunOutput) -> None:
        self._output = output
        self._shown = False

    def say(self, why: str, *, step: int) -> None:
        """Say why no trace of ours is recorded now."""
        message = (
            f"{why}; only one profiler can record at a time, so ProfilerSchedule gives way. "
            "Remove the other one to get a trace of ours."
        )
        self._output.write(Note(step=max(0, step), name="profiler-busy", message=message))
        if not self._shown:
            self._shown = True
            rank_zero_warn(message)
