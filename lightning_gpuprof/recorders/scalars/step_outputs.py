"""Takes each step's outputs where training_step returns them: undivided, and without a hook."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor
from typing_extensions import override

from lightning_gpuprof.adapters.lightning import hook_of
from lightning_gpuprof.recorders.scalars.scalar_log import ScalarLog

Keep = Callable[[int, Mapping[str, Any], Mapping[str, Tensor]], object]
_NONE: Mapping[str, Any] = {}


class _StandIn:
    """Stands in for Lightning's class, but for one function.

    The class's attributes are copied, since `__getattr__` would slow every access down.
    """

    def __init__(self, inner: Any, from_training_step_output: Callable[..., Any]) -> None:
        own = {name: getattr(inner, name) for name in dir(inner) if not name.startswith("__")}
        self.__dict__ |= own
        self._inner = inner
        self.from_training_step_output = from_training_step_output

    @override
    def __reduce__(self) -> tuple[Callable[[Any], Any], tuple[Any]]:
        """A copy of the loop has the class itself."""
        return _itself, (self._inner,)


class StepOutputs:
    """Keeps what training_step returned as Lightning puts it into a class of its own.

    Each time that training_step is run, by a closure or in manual optimization, Lightning passes
    what it returned through `output_result_cls`; an object of ours takes its place there, which
    hands the call on and keeps the outputs. A hook would cost a profiler action more, and would
    come too late: with `accumulate_grad_batches=3` Lightning puts `loss / 3` into
    `outputs["loss"]`, and multiplying by 3 does not always give the same bits back.

    Args:
        epoch_loop: Lightning's loop over batches.
        loop: Its loop of automatic or manual optimization.
        log: Gets the outputs of each batch, those of the last closure where it has several. Its
            steps are those that `self.log` would use if the batch steps: if the next batch has
            the same, this one did not.
        keep: Adds to it whatever is not the loss alone, or needs a copy. Gets the step, the outputs
            by name, and of these the tensors that have no graph and that no user's code writes to.
        alone: The log has the loss and nothing else.
        private: Nobody's code gets the tensor that `backward` begins with (`gets_the_loss`): where
            some does, it may write to it, and the loss is copied.
        on_first: Called with the first batch's number, over all runs that this one goes on with.
        full: Steps of the open window at which `on_full` is called next.
        on_full: Must set `full` anew.

    Attributes:
        full: As above.
        batch: Number of the last batch; None where the loss is undivided, so that each one steps.
    """

    def __init__(
        self,
        epoch_loop: Any,
        loop: Any,
        log: ScalarLog,
        keep: Keep,
        *,
        alone: bool,
        private: bool,
        on_first: Callable[[int], object],
        full: int,
        on_full: Callable[[], object],
    ) -> None:
        self.full = full
        self.batch: int | None = None
        self._epochs: list[tuple[int, int]] = []
        self._epoch_loop, self._progress = epoch_loop, epoch_loop.batch_progress.total
        self._loop, self._log = loop, log
        self._keep, self._on_first, self._on_full = keep, on_first, on_full
        self._alone, self._private = alone and private, private
        self._has_begun = False
        self._inner = loop.output_result_cls
        self._make = self._inner.from_training_step_output
        self.begin_window(full)
        loop.output_result_cls = _StandIn(self._inner, self.from_training_step_output)

    def from_training_step_output(self, output: Any, normalize: int = 1, **more: Any) -> Any:
        """Build Lightning's own result, and keep what it is built from.

        This runs in every step, with cold processor caches: a function call then costs about a
        microsecond. So the usual path is written out here, without a guard; code that may fail is
        in `_keep_all`.
        """
        if normalize == 1:  # all that manual optimization knows
            result = self._make(output, **more) if more else self._make(output)
            loss = getattr(result, "closure_loss", None)
        else:
            result, loss = self._make(output, normalize, **more), None
        steps, step = self._steps, self._epoch_loop._batches_that_stepped
        # Undivided, each batch steps: with the same number as before it is the same batch again.
        if (
            self._quick
            and loss.__class__ is Tensor
            and not loss.dim()
            and not (steps and steps[-1] == step)
        ):
            # Lightning keeps another tensor for `backward`.
            self._first.append(loss.detach())
            steps.append(step)
            self.batch = None
        else:
            self._keep_all(step, output, loss)
        if len(steps) == self.full:
            self._on_full()
        return result

    def begin_window(self, full: int) -> None:
        """Fill the log's open window, which is a new one, up to so many steps."""
        self.full = full
        self._steps, self._first = self._log.steps, self._log.first
        self._quick = self._alone and self._has_begun

    def begin_epoch(self, epoch: int) -> None:
        """Note the epoch of the batches to come."""
        self._epochs.append((len(self._log.steps), epoch))

    def take_epochs(self) -> list[int]:
        """Return the epoch of each step of the open window, which ends here."""
        ends = [*(first for first, _ in self._epochs[1:]), len(self._log.steps)]
        found = [
            epoch
            for (first, epoch), end in zip(self._epochs, ends, strict=True)
            for _ in range(first, end)
        ]
        self._epochs = [(0, self._epochs[-1][1])]
        return found

    def _keep_all(self, step: int, output: Any, loss: Tensor | None) -> None:
        """Keep what is not the loss alone, or may be a batch's second: closures run again."""
        log, batch = self._log, self._progress.ready
        if not self._has_begun:
            # Only now has Lightning put right what the checkpoint says of the batch it was made in.
            self._on_first(self._progress.completed)
            self._has_begun, self._quick = True, self._alone
        elif log.steps and (log.steps[-1] == step if self.batch is None else self.batch == batch):
            log.take_back()
        self.batch = batch
        if loss is None or loss.dim() or not self._private:
            private = _NONE
        else:
            private = {"loss": loss.detach()}
        values = output
        if output is None or isinstance(output, Tensor):
            values = _NONE if output is None else private or {"loss": output}
        self._keep(step, values, private)

    def remove(self) -> None:
        """Put Lightning's own class back."""
        held = self._loop.__dict__.get("output_result_cls")
        mine = self.from_training_step_output
        if isinstance(held, _StandIn) and held.from_training_step_output == mine:
            del self._loop.output_result_cls
            if self._loop.output_result_cls is not self._inner:  # another stand-in was below
                self._loop.output_result_cls = self._inner


def gets_the_loss(trainer: Any) -> bool:
    """Tell whether the program's own code is given the very tensor that `backward` begins with."""
    module, precision = trainer.lightning_module, trainer.precision_plugin
    hooks = [hook_of(module, "backward"), hook_of(precision, "pre_backward")]
    # Of callbacks by their class: this package's own have hooks for a while, which write nothing.
    owners = [module, *map(type, trainer.callbacks)]
    return not all([*hooks, *(hook_of(owner, "on_before_backward") for owner in owners)])


def _itself(inner: Any) -> Any:
    return inner
