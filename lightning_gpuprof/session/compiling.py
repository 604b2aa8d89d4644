"""Notes what torch.compile compiled."""

from collections.abc import Callable, Mapping
from typing import Any

from lightning_gpuprof.adapters.dynamo import Compilations, counters
from lightning_gpuprof.records.facts import CompileTime
from lightning_gpuprof.session.output import RunOutput


class CompileNotes:
    """Writes them to a run; `flag` flags the step of the batch that began last, and returns it."""

    def __init__(self, output: RunOutput, flag: Callable[[], int | None]) -> None:
        self._output, self._flag = output, flag
        self._compilations = Compilations()

    def look(self) -> Mapping[str, Any] | None:
        """Note the compilations since the last call; returns dynamo's counters, once they exist."""
        found = counters()
        if found is None:
            return None
        if self._compilations.compiled_since():
            took_ns, step = self._compilations.took_ns(), self._flag()
            if took_ns and step is not None:
                self._output.write(CompileTime(step, took_ns))
        return found
