"""A user's logger, which may fail without taking anything else away."""

from typing import Any

from lightning_gpuprof.session.guard import guarded
from lightning_gpuprof.session.timed_calls import untimed


class SafeLogger:
    """Hands values on to a logger until that fails: then it gets no more, and the user is told."""

    def __init__(self, logger: Any, output: Any = None) -> None:
        self.logger = logger
        self._output = output
        self.guard_name = f"Logging to {type(logger).__name__}"

    @guarded
    def log(self, values: dict[str, float], step: int) -> None:
        """Hand values on, which is this package's own time, not what the user's logging takes."""
        untimed(self.logger.log_metrics)(values, step=step)

    @guarded
    def save(self) -> None:
        """Let the logger write its files."""
        untimed(self.logger.save)()
