"""Notices whether steps compute with more and more: longer sequences, larger batches."""

from typing import Any

from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import Callback, LightningModule, Trainer
from lightning_gpuprof.callbacks.dispatch import Hooks, called_by_trainer
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.recording import Watch
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.probes.looks.graph import first_result
from lightning_gpuprof.records.schema import INPUT_NOTE


class InputWatch(Watch):
    """Notes how many numbers the first operator of a forward pass makes, ever more seldom.

    By that a step that gets longer because it is given more is told from one that works on what
    was kept. It is read off the loss's graph, so it holds for what `training_step` takes of a batch
    as well. A look takes 0.2 to 0.5 ms; there are four in the first 150 batches and two each time
    that their number has doubled, some thirty in a million.

    Args:
        every: Batches from the first look to the second one.

    Raises:
        ConfigError: `every` makes no sense.
    """

    def __init__(self, *, every: int = 50) -> None:
        if every < 1:
            raise ConfigError(f"InputWatch(every={every}) would never look. Pass 1 or more.")
        super().__init__()
        self.every = every
        self._host: Callback | None = None
        self._at = 0
        self._waiting = Hooks({})
        self._looking = Hooks({"on_before_backward": self._look})

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._release()
        self._host = called_by_trainer(trainer, self)
        self._at = 0
        self._begin()

    @guarded
    def _begin(self, *_: Any) -> None:
        """Look at the next batch, and wait for the one after it whose turn it is."""
        self._waiting.drop()
        if self._host is None:
            return
        self._looking.add(self._host)
        apart = batches_apart(self._at)
        self._at += apart
        turn = {"on_train_batch_end": self._begin}
        self._waiting = Hooks(turn, every=apart * self.every)
        self._waiting.add(self._host)

    @guarded
    def _look(self, trainer: Trainer, pl_module: LightningModule, loss: Any) -> None:
        self._looking.drop()  # of several losses the first
        if loss.grad_fn is not None and self._output is not None:
            self._output.note(INPUT_NOTE, first_result(loss.grad_fn))

    @override
    def _release(self) -> None:
        self._waiting.drop()
        self._looking.drop()
        self._host = None


def batches_apart(at: int) -> int:
    """Return how far a look is from the next one: two for each doubling of their place.

    >>> at, places = 0, []
    >>> while at < 20:
    ...     places.append(at)
    ...     at += batches_apart(at)
    >>> places
    [0, 1, 2, 3, 4, 6, 8, 12, 16]
    """
    return 1 << max(0, at.bit_length() - 2)
