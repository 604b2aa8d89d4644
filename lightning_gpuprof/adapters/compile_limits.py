"""Notices that torch.compile gives a function up: it was compiled as often as the limit allows."""

import logging
import re

from typing_extensions import override

from lightning_gpuprof.probes.stacks.call_places import shown
from lightning_gpuprof.records.compiling import CompileLimit

LOGGER = "torch._dynamo.convert_frame"
"""It warns once of each function that reaches the limit; nothing else in torch tells which."""
_SAID = re.compile(
    r"hit config\.(?P<limit>\w+) \((?P<count>\d+)\)\s+"
    r"function: '(?P<function>[^']*)' \((?P<file>.*):(?P<line>\d+)\)\s+"
    r"last reason: (?P<reason>[^\n]*)"
)
_NUMBER = re.compile(r"^\d+/\d+: ")
"""Which compilation failed a guard: `0/7: `."""
_BEHIND = re.compile(r"\s+#\s|\s*\(HINT")
"""What comes behind the guard: the line that made it, and torch's advice."""
_LONGEST = 200


class CompileLimits(logging.Handler):
    """Keeps dynamo's warnings while a session lasts; `take` reads them, outside of dynamo."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._heard: list[logging.LogRecord] = []
        logging.getLogger(LOGGER).addHandler(self)

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self._heard.append(record)

    def take(self) -> list[CompileLimit]:
        """Return the functions that were given up since the last call."""
        heard, self._heard = self._heard, []
        found = (read_warning(record.getMessage()) for record in heard)
        return [one for one in found if one is not None]

    @override
    def close(self) -> None:
        """Hear no more."""
        logging.getLogger(LOGGER).removeHandler(self)
        super().close()


def read_warning(text: str) -> CompileLimit | None:
    """Return what dynamo's warning says; None where it is about something else."""
    said = _SAID.search(text)
    if said is None:
        return None
    reason = _BEHIND.split(_NUMBER.sub("", said["reason"].strip()), maxsplit=1)[0]
    return CompileLimit(
        limit=said["limit"],
        count=int(said["count"]),
        reason=" ".join(reason.split())[:_LONGEST],
        place=shown((said["file"], int(said["line"]), said["function"])),
    )
