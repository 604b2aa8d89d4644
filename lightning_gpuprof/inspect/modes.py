"""Which modes of torch are open: each is told of every operator, in Python."""

import re
import sys
from collections.abc import Iterator

from lightning_gpuprof.adapters.torch_tensors import (
    WATCHING_MODES,
    open_dispatch_modes,
    open_function_modes,
)
from lightning_gpuprof.records.code_place import CodePlace
from lightning_gpuprof.session.places import own_line_like

_OTHERS = ("torch", "lightning", "pytorch_lightning", "lightning_fabric", "lightning_gpuprof")


def open_modes() -> Iterator[tuple[str, CodePlace | None]]:
    """Yield the class of each open mode and the line that makes it, but for torch's own needs."""
    for mode in (*open_dispatch_modes(), *open_function_modes()):
        module = type(mode).__module__
        if module.split(".")[0] not in _OTHERS or module.startswith(WATCHING_MODES):
            name = _public_name(type(mode))
            yield name, own_line_like(rf"(?<!class )(?<![\w\"'])(?:\w+\.)*{re.escape(name)}\(")


def _public_name(kind: type) -> str:
    """Return the name that a program uses: torch's counter opens a mode of a private class."""
    public = kind.__name__.lstrip("_")
    return public if hasattr(sys.modules.get(kind.__module__), public) else kind.__name__
