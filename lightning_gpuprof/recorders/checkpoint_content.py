"""The bytes of a checkpoint, by what they belong to."""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.adapters.lightning import LightningModule
from lightning_gpuprof.adapters.torch_tensors import no_overrides, storage_key
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.facts import CheckpointContent
from lightning_gpuprof.session.guard import attempt
from lightning_gpuprof.session.output import RunOutput
from lightning_gpuprof.tensors import tensors_in

_MOST_VALUES = 1_000
MOST_NAMED = 3


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
    sizes: Counter[str] = Counter()
    fixed: dict[str, Counter[str]] = {"frozen": Counter(), "buffers": Counter()}
    seen: set[int] = set()
    for name, tensor in (checkpoint.get("state_dict") or {}).items():
        if not isinstance(tensor, torch.Tensor):
            continue
        kind = "trained" if trained.get(name) else "frozen" if name in trained else "buffers"
        sizes[kind] += tensor.nbytes
        seen.add(_address(tensor))
        if kind != "trained":
            fixed[kind][name] = tensor.nbytes
    states = checkpoint.get("optimizer_states") or []
    sizes["optimizer"] = sum(
        leaf.nbytes for leaf in tensors_in(states) if isinstance(leaf, torch.Tensor)
    )
    # A configuration may raise for a value that was never set.
    kept = attempt(lambda: _kept(checkpoint, seen), None)
    if not sizes.total() and not (kept and kept.total()):
        return None
    return CheckpointContent(
        trained_bytes=sizes["trained"],
        frozen_bytes=sizes["frozen"],
        buffer_bytes=sizes["buffers"],
        optimizer_bytes=sizes["optimizer"],
        largest_frozen=next((name for name, _ in fixed["frozen"].most_common(1)), None),
        largest_buffers=_largest(fixed["buffers"]),
        hparams_bytes=None if kept is None else kept.total(),
        largest_hparams=_largest(kept or Counter()),
    )


def _largest(sizes: Counter[Any]) -> tuple[tuple[str, int], ...]:
    return tuple((str(name), size) for name, size in sizes.most_common(MOST_NAMED) if size)


def _kept(checkpoint: Mapping[str, Any], seen: set[int]) -> Counter[Any]:
    hparams = checkpoint.get(LightningModule.CHECKPOINT_HYPER_PARAMS_KEY)
    return Counter({name: _bytes(value, seen) for name, value in dict(hparams or {}).items()})


def _bytes(value: Any, seen: set[int]) -> int:
    """Return about what a hyperparameter adds; of many values the first stand for all.

    `torch.save` writes shared memory once: a module that is also a part of the model adds nothing.

    Args:
        value: The hyperparameter, or a part of it.
        seen: Where lies what was counted before; grows.
    """
    parts: Iterable[Any] | None = None
    if isinstance(value, torch.nn.Module):
        return sum(_bytes(one, seen) for one in (*value.parameters(), *value.buffers()))
    if isinstance(value, (list, tuple, Mapping)):
        parts = value.values() if isinstance(value, Mapping) else value
    size = getattr(value, "nbytes", None)
    if parts is not None or isinstance(size, int):
        if _address(value) in seen:
            return 0
        seen.add(_address(value))
    if parts is None:
        return size if isinstance(size, int) else sys.getsizeof(value, 0)
    counted = sum(_bytes(part, seen) for part in islice(parts, _MOST_VALUES))
    return counted * len(value) // max(1, min(len(value), _MOST_VALUES))


def _address(value: Any) -> int:
    """Return a number that all tensors in the same memory share, as `torch.save` has it."""
    return storage_key(value) if isinstance(value, torch.Tensor) else id(value)
