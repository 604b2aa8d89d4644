"""Loggers of the user's, whose failure does not end training."""

from typing import Any

from lightning_gpuprof.runtime.guard import attempt, guarded
from lightning_gpuprof.runtime.wrap import unwrapped


class SafeLogger:
    """Hands values on to a logger; once the logger fails, warns the user and hands on no more."""

    def __init__(self, logger: Any, context: Any = None) -> None:
        self.logger = logger
        self._context = context
        self.kind = type(logger).__name__
        self.guard_name = f"Logging to {self.kind}"

    @property
    def experiment(self) -> Any:
        """The tracker's own object; None where it cannot be made.

        Lightning has made it by the time of `setup`, where it is to be made in this process.
        """
        return attempt(lambda: self.logger.experiment, None)

    @guarded
    def log(self, values: dict[str, float], step: int) -> None:
        """Hand values on, which is this package's own time, not what the user's logging takes."""
        unwrapped(self.logger.log_metrics)(values, step=step)

    @guarded
    def save(self) -> None:
        """Let the logger write its files."""
        unwrapped(self.logger.save)()
