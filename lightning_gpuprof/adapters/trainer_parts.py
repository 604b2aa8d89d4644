"""What the timing of a session needs from a Trainer, read once before anything is put into it.

The names are public, but for those that `lightning` and `loaders` here describe; seen in
Lightning 2.4 to 2.6.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lightning_gpuprof.adapters.actions import own_callback_names
from lightning_gpuprof.adapters.compiled_modules import is_compiled_whole
from lightning_gpuprof.adapters.lightning import (
    Trainer,
    batch_holder,
    batch_loop,
    data_loop,
    does_nothing,
)
from lightning_gpuprof.adapters.loaders import before_first_iterators


@dataclass(frozen=True)
class TrainerParts:
    """The parts of a Trainer that one session of it is timed by.

    Attributes:
        profiler: The user's own.
        profiler_acts: Whether that does more than Lightning's default, which does nothing.
        loop: The loop that has the loaders: the fit's, or an evaluation's own.
        batch_loop: The loop over batches: of a fit's epoch, or the evaluation's own.
        val_loop: The fit's validation; None in an evaluation.
        batch_holder: The object whose `batch` is the batch that runs.
        before_first_iterators: The last method that `loop` calls before its first iterators.
        module_is_compiled: Whether the module is compiled as a whole, with all that it calls.
        own_callbacks: Names of this package's callbacks, and of their parts.
    """

    trainer: Any
    profiler: Any
    profiler_acts: bool
    loop: Any
    batch_loop: Any
    val_loop: Any
    batch_holder: Any
    before_first_iterators: str
    module: Any
    module_is_compiled: bool
    own_callbacks: Sequence[str]


def trainer_parts(trainer: Trainer) -> TrainerParts:
    """Read the parts of a Trainer whose session is being set up."""
    loop = data_loop(trainer)
    return TrainerParts(
        trainer=trainer,
        profiler=trainer.profiler,  # type: ignore[attr-defined]
        profiler_acts=not does_nothing(trainer.profiler),  # type: ignore[attr-defined]
        loop=loop,
        batch_loop=batch_loop(trainer),
        val_loop=getattr(getattr(loop, "epoch_loop", None), "val_loop", None),
        batch_holder=batch_holder(trainer),
        before_first_iterators=before_first_iterators(loop),
        module=trainer.lightning_module,
        module_is_compiled=is_compiled_whole(trainer.lightning_module),
        own_callbacks=own_callback_names(trainer),
    )
