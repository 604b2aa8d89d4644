"""The bytes of a checkpoint, by what they belong to."""

from collections.abc import Mapping
from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.adapters.torch_tensors import no_overrides
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.facts import CheckpointContent
from lightning_gpuprof.session.output import RunOutput
from lightning_gpuprof.tensors import tensors_in


class CheckpointContents(Recorder):
    """Adds up the bytes of the first checkpoint by what they belong to.

    Lightning calls no callback for a checkpoint of weights alone, which is not noted.

    Costs: below 1 ms for a model of 1,000 parameters, once.
    Touches: nothing; it reads the sizes of what is saved, not the values.
    When: the first checkpoint of a fit.
    """

    _noted = False

    @override
    def joins(self, output: RunOutput) -> None:
        super().joins(output)
        self._noted = False

    @override
    def checkpoint_is_saved(self, module: torch.nn.Module, checkpoint: Mapping[str, Any]) -> None:
        if self._noted or self._output is None:
            return
        self._noted = True
        content = checkpoint_content(module, checkpoint)
        if content is not None:
            self._output.write(content)


def checkpoint_content(
    module: torch.nn.Module, checkpoint: Mapping[str, Any]
) -> CheckpointContent | None:
    """Return the bytes of a checkpoint's tensors by what they are; None where it holds none.

    Args:
        module: Whose `state_dict` it holds.
        checkpoint: As Lightning hands it to `on_save_checkpoint`.
    """
    with no_overrides():  # a sharded tensor refuses what it has no answer for
        return _content(module, checkpoint)


def _content(module: torch.nn.Module, checkpoint: Mapping[str, Any]) -> CheckpointContent | None:
    trained = {name: p.requires_grad for name, p in module.named_parameters()}
    state = checkpoint.get("state_dict") or {}
    sizes = {name: one.nbytes for name, one in state.items() if isinstance(one, torch.Tensor)}
    buffers = {name: size for name, size in sizes.items() if name not in trained}
    states = tensors_in(checkpoint.get("optimizer_states") or [])
    whole = sum(sizes.values()) + sum(one.nbytes for one in states if isinstance(one, torch.Tensor))
    if not whole:
        return None
    return CheckpointContent(
        whole_bytes=whole,
        frozen_bytes=sum(size for name, size in sizes.items() if trained.get(name) is False),
        buffer_bytes=sum(buffers.values()),
        largest_buffer=max(buffers.items(), key=lambda one: one[1], default=None),
    )
