"""Regions of a program's own code inside a step."""

from contextlib import AbstractContextManager, ContextDecorator
from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters.dynamo import is_compiling
from lightning_gpuprof.timing.components import active_component


class region(ContextDecorator):
    """Times a piece of code inside a step: `with region("dream"):` or `@region("dream")`.

    It appears as a part of the phase in which it runs, usually `forward/dream`, with its host time
    and, if there are device marks, its device time. It does nothing without a `PhaseTimer`, in
    threads other than the training thread, and in code that is being compiled.

    Args:
        name: The part's name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._entered: list[AbstractContextManager[None]] = []

    def __enter__(self) -> None:
        if is_compiling():
            return
        component = active_component(self.name)
        component.__enter__()
        self._entered.append(component)

    def __exit__(self, *raised: Any) -> None:
        if not is_compiling() and self._entered:
            self._entered.pop().__exit__(None, None, None)

    @override
    def _recreate_cm(self) -> "region":
        return region(self.name)
