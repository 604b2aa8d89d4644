"""Gives training_step's own loss back where Lightning has divided it for accumulation."""

from typing import Any

from torch import Tensor


class UndividedLoss:
    """Stands in for Lightning's closure result class and keeps each step's loss undivided.

    With `accumulate_grad_batches=3` Lightning puts `loss / 3` into `outputs["loss"]`, and
    multiplying by 3 does not always give the same bits back. In automatic optimization every
    closure passes training_step's output through `output_result_cls`; this object takes its
    place there and hands the call on.

    Args:
        loop: Lightning's automatic optimization loop.
    """

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self._inner = loop.output_result_cls
        self._loss: Tensor | None = None
        loop.output_result_cls = self

    def from_training_step_output(self, output: Any, normalize: int = 1, **more: Any) -> Any:
        """Keep the loss where it is about to be divided, and build Lightning's own result."""
        if normalize != 1:
            loss = output if isinstance(output, Tensor) else (output or {}).get("loss")
            self._loss = None if loss is None else loss.detach()
        return self._inner.from_training_step_output(output, normalize, **more)

    def __getattr__(self, name: str) -> Any:
        """Answer for the class that it stands in for."""
        return getattr(self._inner, name)

    def take(self) -> Tensor | None:
        """Return the last closure's loss if it was divided, once."""
        loss, self._loss = self._loss, None
        return loss

    def remove(self) -> None:
        """Put Lightning's own class back."""
        if self._loop.__dict__.get("output_result_cls") is self:
            del self._loop.output_result_cls
            if self._loop.output_result_cls is not self._inner:  # another stand-in was below
                self._loop.output_result_cls = self._inner
