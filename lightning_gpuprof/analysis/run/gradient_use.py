"""Gradients that are computed and thrown away, as a look at the first batches noted them."""

from collections.abc import Iterable

from msgspec import Struct

from lightning_gpuprof.analysis.run.noted import last_noted
from lightning_gpuprof.records.schema import Note

NOTE = "unused_gradients"
"""Note of this name: some gradients are never stepped on."""


class UnusedGradients(Struct, frozen=True):
    """Parameters whose gradients nobody uses, at least in some of the backward passes.

    Args:
        tensors: How many parameter tensors.
        parameters: How many numbers they hold.
        all_parameters: The same of the whole module.
        stepped: An optimizer holds some of them: their gradients are used in other passes.
        modules: The module's children that they belong to.
        sure_frac: Their share of the backward passes' time that nothing else needs; None where
            it was not timed.
        maybe_frac: The share spent at them on the way to gradients that are used.
    """

    tensors: int
    parameters: int
    all_parameters: int
    stepped: bool
    modules: tuple[str, ...]
    sure_frac: float | None
    maybe_frac: float | None


def unused_gradients(notes: Iterable[Note]) -> UnusedGradients | None:
    """Return what was noted of unused gradients; None where there are none."""
    return last_noted(notes, NOTE, UnusedGradients)
