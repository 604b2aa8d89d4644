"""Which argument asked for the work that functions of Lightning and torch do for a program.

Public and private names in torch 2.2 to 2.13 and Lightning 2.4 to 2.6. If a name is missing, the
time is not attributed to its argument.
"""

import os
from types import CodeType
from typing import NamedTuple


class AskedFor(NamedTuple):
    """Functions that work because of an argument.

    Args:
        argument: The name of the argument.
        package: The package of the file.
        file: The path of the file in the package.
        functions: The functions, each with its class if others have the same name.
    """

    argument: str
    package: str
    file: str
    functions: tuple[str, ...]


ASKED_FOR = (
    AskedFor(
        "gradient_clip_val",
        "lightning.pytorch",
        "plugins/precision/precision.py",
        ("clip_grad_by_norm", "clip_grad_by_value"),
    ),
    AskedFor(
        "find_unused_parameters",
        "torch",
        "nn/parallel/distributed.py",
        ("_find_tensors", "_post_forward"),
    ),
    AskedFor(
        "broadcast_buffers",
        "torch",
        "nn/parallel/distributed.py",
        ("_sync_buffers", "_sync_module_buffers"),
    ),
    AskedFor(
        "sync_batchnorm",
        "torch",
        "nn/modules/_functions.py",
        ("SyncBatchNorm.forward", "SyncBatchNorm.backward"),
    ),
    AskedFor("pin_memory", "torch", "utils/data/_utils/pin_memory.py", ("pin_memory",)),
    AskedFor("precision", "torch", "amp/grad_scaler.py", ("unscale_", "_maybe_opt_step", "update")),
)
"""Functions of which no record has the time under a name of its own."""
_BY_FILE: dict[str, list[AskedFor]] = {}
for _asked in ASKED_FOR:
    _BY_FILE.setdefault(os.path.basename(_asked.file), []).append(_asked)


def argument_of(code: CodeType) -> str | None:
    """Return the argument that asked for what a function does, or None.

    Before Python 3.11 the class of a function is not known; functions whose class matters are then
    left out.
    """
    asked_in_file = _BY_FILE.get(os.path.basename(code.co_filename))
    if asked_in_file is None:
        return None
    path = code.co_filename.replace(os.sep, "/")
    names = (code.co_name, getattr(code, "co_qualname", ""))
    return next(
        (
            asked.argument
            for asked in asked_in_file
            if path.endswith("/" + asked.file) and any(name in asked.functions for name in names)
        ),
        None,
    )
