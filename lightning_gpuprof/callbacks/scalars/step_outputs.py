"""Takes each step's outputs where training_step returns them: undivided, and without a hook."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor
from typing_extensions import override

Keep = Callable[[Mapping[str, Any], Mapping[str, Tensor]], object]
_NONE: Mapping[str, Any] = {}


class StepOutputs:
    """Stands in for the class in which Lightning puts what training_step returned.

    Each time that training_step is run, by a closure or in manual optimization, Lightning passes
    what it returned through `output_result_cls`; this object takes its place there, hands the
    call on and shows the outputs. A hook would cost a profiler action more, and would come too
    late: with `accumulate_grad_batches=3` Lightning puts `loss / 3` into `outputs["loss"]`, and
    multiplying by 3 does not always give the same bits back.

    Args:
        loop: Lightning's loop of automatic or manual optimization.
        keep: Gets the outputs by name, and of these the tensors that have no graph and that no
            user's code writes to: where nothing is divided, what Lightning keeps for `backward`
            is such a one, and to keep it costs no copy.
    """

    def __init__(self, loop: Any, keep: Keep) -> None:
        self._loop = loop
        self._keep = keep
        self._inner = loop.output_result_cls
        self._make = self._inner.from_training_step_output
        loop.output_result_cls = self

    def from_training_step_output(self, output: Any, normalize: int = 1, **more: Any) -> Any:
        """Build Lightning's own result, and show what it is built from."""
        if normalize == 1:  # all that manual optimization knows
            result = self._make(output, **more)
            loss = getattr(result, "closure_loss", None)
        else:
            result, loss = self._make(output, normalize, **more), None
        private = _NONE if loss is None or loss.dim() else {"loss": loss.detach()}
        if output is None:
            self._keep(_NONE, _NONE)
        elif not isinstance(output, Tensor):
            self._keep(output, private)
        else:
            self._keep(private or {"loss": output}, private)
        return result

    def __getattr__(self, name: str) -> Any:
        """Answer for the class that it stands in for."""
        return getattr(self._inner, name)

    @override
    def __reduce__(self) -> tuple[Callable[[Any], Any], tuple[Any]]:
        """A copy of the loop has the class itself."""
        return _itself, (self._inner,)

    def remove(self) -> None:
        """Put Lightning's own class back."""
        if self._loop.__dict__.get("output_result_cls") is self:
            del self._loop.output_result_cls
            if self._loop.output_result_cls is not self._inner:  # another stand-in was below
                self._loop.output_result_cls = self._inner


def _itself(inner: Any) -> Any:
    return inner
