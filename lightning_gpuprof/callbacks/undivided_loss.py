"""Takes each step's own loss where Lightning makes it: undivided, and without a copy."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

_NONE: Mapping[str, Tensor] = {}


class UndividedLoss:
    """Stands in for Lightning's closure result class and keeps each step's loss undivided.

    With `accumulate_grad_batches=3` Lightning puts `loss / 3` into `outputs["loss"]`, and
    multiplying by 3 does not always give the same bits back. In automatic optimization every
    closure passes training_step's output through `output_result_cls`; this object takes its
    place there and hands the call on. Where nothing is divided, what Lightning keeps for
    `backward` is a tensor that no user's code writes to: to keep it costs no copy.

    Args:
        loop: Lightning's automatic optimization loop.
    """

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self._inner = loop.output_result_cls
        self._make = self._inner.from_training_step_output
        self._loss: Tensor | None = None
        loop.output_result_cls = self

    def from_training_step_output(self, output: Any, normalize: int = 1, **more: Any) -> Any:
        """Build Lightning's own result, and keep the loss as it was before it was divided."""
        result = self._make(output, normalize, **more)
        if normalize == 1:
            loss = getattr(result, "closure_loss", None)
            self._loss = None if loss is None else loss.detach()
        else:
            loss = output if isinstance(output, Tensor) else (output or {}).get("loss")
            self._loss = None if loss is None else loss.detach().clone()
        return result

    def __getattr__(self, name: str) -> Any:
        """Answer for the class that it stands in for."""
        return getattr(self._inner, name)

    def take(self) -> Mapping[str, Tensor]:
        """Return the last closure's loss, once, by its name: it has no graph and is our own."""
        loss, self._loss = self._loss, None
        if loss is None:
            return _NONE
        return {"loss": loss.reshape(()) if loss.dim() else loss}

    def remove(self) -> None:
        """Put Lightning's own class back."""
        if self._loop.__dict__.get("output_result_cls") is self:
            del self._loop.output_result_cls
            if self._loop.output_result_cls is not self._inner:  # another stand-in was below
                self._loop.output_result_cls = self._inner
