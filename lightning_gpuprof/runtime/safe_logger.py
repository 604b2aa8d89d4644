"""Calls the user's loggers so that their failure does not end training."""

from typing import Any

from lightning_gpuprof.runtime.guard import attempt, guarded
from lightning_gpuprof.runtime.wrap import unwrapped


class SafeLogger:
    """Hands values on to a logger. If the logger fails, it is not called again in this run."""

    def __init__(self, logger: Any, context: Any = None) -> None:
        self.logger = logger
        self._context = context
        self.kind = type(logger).__name__
        self.guard_name = f"Logging to {self.kind}"

    @property
    def experiment(self) -> Any:
        """The logger's `experiment`; None if it cannot be created.

        If it belongs to this process, Lightning has created it before it calls `setup`.
        """
        return attempt(lambda: self.logger.experiment, None)

    @guarded
    def log(self, values: dict[str, float], step: int) -> None:
        """Hand values on. This time is the package's own, so it does not count as logging."""
        unwrapped(self.logger.log_metrics)(values, step=step)

    @guarded
    def save(self) -> None:
        """Let the logger write its files."""
        unwrapped(self.logger.save)()
