"""Reads what the timing of a session needs from a Trainer, before anything in it is changed.

The names are public in Lightning 2.4 to 2.6, except for those in `adapters.lightning` and
`adapters.loaders`.
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
    """The parts of a Trainer that the timing of a session uses.

    Attributes:
        trainer: The Trainer.
        profiler: The user's own profiler.
        profiler_acts: Whether this profiler does more than Lightning's default, which does nothing.
        loop: The loop that has the loaders: that of the fit or of the evaluation.
        batch_loop: The loop over batches: that of the fit's epochs or of the evaluation.
        val_loop: The loop of the fit's validations; None in an evaluation.
        batch_holder: An object whose `batch` is the current batch.
        before_first_iterators: The last method that `loop` calls before it creates its iterators.
        module: The LightningModule.
        module_is_compiled: Whether the module is compiled as a whole.
        own_callbacks: The names of this package's callbacks and of their parts.
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
    """Return the parts of a Trainer whose session is being set up."""
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
