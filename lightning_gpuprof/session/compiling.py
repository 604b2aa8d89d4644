"""Notes what torch.compile compiled and which functions it gave up."""

from collections.abc import Callable, Mapping
from typing import Any

from lightning_gpuprof.adapters.dynamo import Compilations, CompileLimits, counters
from lightning_gpuprof.records.facts import CompileTime
from lightning_gpuprof.session.output import RunOutput


class CompileNotes:
    """Writes them to a run; `flag` flags the step of the batch that began last, and returns it."""

    def __init__(self, output: RunOutput, flag: Callable[[], int | None]) -> None:
        self._output, self._flag = output, flag
        self._compilations, self._limits = Compilations(), CompileLimits()

    def look(self) -> Mapping[str, Any] | None:
        """Note the compilations since the last call; returns dynamo's counters, once they exist."""
        found = counters()
        if found is None:
            return None
        for limit in self._limits.take():
            self._output.write(limit)
        if self._compilations.compiled_since():
            took_ns, step = self._compilations.took_ns(), self._flag()
            if took_ns and step is not None:
                self._output.write(CompileTime(step, took_ns))
        return found

    def close(self) -> None:
        """Stop listening to dynamo's warnings."""
        self._limits.close()
