"""Notices gradients that are computed and then thrown away."""

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from torch.nn import Parameter
from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import LightningModule, Trainer
from lightning_gpuprof.callbacks.dispatch import Hooks, called_by_trainer
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.recording import RecordingCallback
from lightning_gpuprof.probes.looks.gradient_use import (
    GradientTimes,
    GradientUse,
    ValueChanges,
    resting,
    shares,
)
from lightning_gpuprof.probes.looks.unseen import unseen
from lightning_gpuprof.probes.looks.unused_parts import FirstInput, owners, parts_without
from lightning_gpuprof.records.notes import UNUSED_NOTE, UnusedGradients

BATCHES = 3
"""Batches that are looked at, and one more that says what became of the last one's gradients."""
MOST_ACCUMULATED = 16
"""With more batches per step than this, a look would reach into the run: there is none."""
LEAST_DROPPED = 2
"""Times that a gradient was cleared unused before it is a habit: one step may be skipped."""
_OF_A_LOOK = ("_use", "_times", "_first", "_values", "_found")


class GradientWatch(RecordingCallback):
    """Looks in the first batches whether every gradient is stepped on, and then never again.

    Where some are not (a teacher without `no_grad`, a generator that is not detached, a body that
    is left out of the optimizer, or in it with a learning rate of 0), the next batches tell by the
    host's clock what they take of the backward pass; the run's records get one note. Under a
    gradient scaler steps may be skipped, so nothing is looked at.

    Args:
        clock: Returns nanoseconds; tests pass a fake.
    """

    def __init__(self, *, clock: Callable[[], int] = perf_counter_ns) -> None:
        super().__init__()
        self._clock = clock
        self._hooks = Hooks(
            {
                "on_before_backward": self._before_backward,
                "on_after_backward": self._after_backward,
                "on_train_batch_end": self._batch_ends,
            }
        )
        self._use: GradientUse | None = None
        self._times: GradientTimes | None = None
        self._first: FirstInput | None = None
        self._parameters: list[Parameter] = []
        self._values: ValueChanges | None = None
        self._found: tuple[set[int], set[int]] | None = None
        self._batches = self._left = 0
        self._complete = 0

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._release()
        every = trainer.accumulate_grad_batches
        if str(trainer.precision).startswith("16") or every > MOST_ACCUMULATED:
            return
        self._parameters = list(pl_module.parameters())
        self._batches = max(BATCHES, 2 * every)
        self._hooks.add(called_by_trainer(trainer, self))
        self._look()

    def _look(self) -> None:
        self._left, self._complete = self._batches + 1, 0
        self._use = GradientUse(self._parameters)
        self._use.start()
        self._flag_watched()

    @guarded
    def _before_backward(self, *_: Any) -> None:
        if self._use is None or self._found is not None:
            return
        self._use.before_backward()
        if self._times is not None:
            self._times.before_backward()

    @guarded
    def _after_backward(self, *_: Any) -> None:
        if self._use is not None and self._found is None:
            self._use.after_backward()

    @guarded
    def _batch_ends(self, trainer: Trainer, *_: Any) -> None:
        if self._use is None:
            return
        if self._found is not None:
            self._end(trainer.lightning_module, wait=False)
            return
        self._left -= 1
        if self._left == 1:
            self._complete = self._use.passes
        if self._left:
            self._flag_watched()
            return
        used, unheld = self._unused(trainer, self._use)
        self._use.stop()
        if self._values is not None:
            self._found = used, unheld
            if self._times is not None:
                self._times.stop()
            if self._first is not None:
                self._first.stop()
            with unseen():
                self._values.compare()
            self._end(trainer.lightning_module, wait=False)
        elif used or unheld:
            # Once more, with times, and with values that show whether somebody steps by hand.
            with unseen():
                self._values = ValueChanges({i: self._parameters[i] for i in used | unheld})
            if not any(hasattr(part, "_orig_mod") for part in trainer.lightning_module.modules()):
                self._times = GradientTimes(self._parameters, self._clock)
                self._times.start()
                weights = [self._parameters[i] for i in used | unheld]
                self._first = FirstInput(owners(trainer.lightning_module, weights))
            self._look()
        else:
            self._release()

    @override
    @guarded
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._end(pl_module, wait=True)

    def _end(self, model: LightningModule, *, wait: bool) -> None:
        """Write the note once the values are on the host: on a GPU that is a batch or two later."""
        use, values = self._use, self._values
        if use is None or values is None or self._found is None or not (wait or values.ready()):
            return
        used, unheld = self._found
        found = used | (unheld - values.changed())
        if found:
            trained = (use.stepped | set(use.dropped) | unheld) - found
            self._note(model, found, found - used, trained, use)
        self._release()

    def _unused(self, trainer: Trainer, use: GradientUse) -> tuple[set[int], set[int]]:
        """Return the parameters with gradients that nobody uses: of optimizers, and of nobody."""
        dropped = {i for i, at in use.dropped.items() if len(at) >= LEAST_DROPPED}
        if use.steps < LEAST_DROPPED:
            return dropped & use.stepped, set()
        optimizers: list[Any] = trainer.optimizers
        held = {id(p) for one in optimizers for group in one.param_groups for p in group["params"]}
        never = use.unreached() | (dropped - use.stepped)
        unheld = {i for i in never if id(self._parameters[i]) not in held}
        still = resting(optimizers)
        at_rest = {i for i in use.stepped if id(self._parameters[i]) in still}
        # Where nothing moves at all, somebody looks at something else than training.
        return dropped & use.stepped, unheld if at_rest == use.stepped else unheld | at_rest

    def _note(
        self,
        model: LightningModule,
        found: set[int],
        never: set[int],
        trained: set[int],
        use: GradientUse,
    ) -> None:
        def is_dropped(at: int, i: int) -> bool:
            return i in found and (i in never or at in use.dropped.get(i, ()))

        taken = None
        if self._times is not None:
            taken = shares(self._times.passes[: self._complete], is_dropped)
        share = {} if taken is None else taken.of
        weights = {self._parameters[i]: share.get(i, 0.0) for i in sorted(found)}
        sizes = [p.numel() for p in self._parameters]
        value = UnusedGradients(
            tensors=len(found),
            parameters=sum(sizes[i] for i in found),
            all_parameters=sum(sizes),
            stepped=found != never,
            rate_zero=len(never & use.stepped),
            all_stepped=len(use.stepped),
            modules=parts_without(model, [self._parameters[i] for i in trained], weights),
            sure_frac=None if taken is None else taken.sure,
            maybe_frac=None if taken is None else taken.maybe,
            through=None if self._first is None else self._first.through,
        )
        if self._output is not None:
            self._output.note(UNUSED_NOTE, value)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy is made of; one that is made amid a look has none of it."""
        return self.__dict__ | dict.fromkeys(_OF_A_LOOK) | {"_parameters": []}

    @override
    def _release(self) -> None:
        use, self._use = self._use, None
        times, self._times = self._times, None
        first, self._first = self._first, None
        if use is not None:
            use.stop()
        if times is not None:
            times.stop()
        if first is not None:
            first.stop()
        self._hooks.drop()
        self._values = self._found = None
        self._parameters = []
