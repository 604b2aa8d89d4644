"""Looks whether a mode that is told of every operator stays open around training steps."""

from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils.hooks import RemovableHandle
from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import Callback, LightningModule, Trainer
from lightning_gpuprof.callbacks.dispatch import Hooks, called_by_trainer
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.recording import Watch
from lightning_gpuprof.callbacks.timing.compile_watch import CompileWatch
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.probes.looks.modes import OpenMode, made_at, open_modes
from lightning_gpuprof.records.torch_modes import MODES_NOTE, TorchMode

AGAIN = 50
"""Batches after which a mode that was open is looked for again."""
APART = 2
"""Each look is so many times as far from the one before as that was: a mode that is opened later
is found later, and a long run is hardly ever looked at."""
_Found = tuple[frozenset[OpenMode], frozenset[OpenMode]]
"""Modes that were open in forward, and in backward."""
_NONE: _Found = (frozenset(), frozenset())


class ModeWatch(Watch):
    """Reads torch's stacks of modes, ever more seldom, and notes what stays open.

    A `TorchDispatchMode` or `TorchFunctionMode` sends each operator through Python. It may be open
    around a step, around the model's call or around the backward pass alone, so the stacks are
    read where modules are called, right before the backward pass and in it. What one batch alone
    has (a count of the first one's operations, say) is no habit: noted is what two in a row have.
    The first batch is not looked at: in it what is compiled is compiled, and hooks on modules would
    have that done again; where something was compiled, there are none.

    Args:
        every: Batches from the first look, at the second batch, to the next one.

    Raises:
        ConfigError: `every` makes no sense.
    """

    def __init__(self, *, every: int = 50) -> None:
        if every < 1:
            raise ConfigError(f"ModeWatch(every={every}) would never look. Pass 1 or more.")
        super().__init__()
        self._host: Callback | None = None
        self._first = Hooks({"on_train_batch_end": self._begin})
        self.every = every
        self._apart = every
        self._waiting = Hooks({})
        self._again = Hooks({"on_train_batch_end": self._look}, every=min(every, AGAIN))
        self._looking = Hooks(
            {"on_before_backward": self._before, "on_train_batch_end": self._looked}
        )
        self._handles: list[RemovableHandle] = []
        self._forward: set[OpenMode] = set()
        self._backward: set[OpenMode] = set()
        self._last: _Found = _NONE
        self._noted: _Found = _NONE

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._release()
        self._last = self._noted = _NONE
        self._apart = self.every
        self._host = called_by_trainer(trainer, self)
        self._first.add(self._host)

    @guarded
    def _begin(self, *_: Any) -> None:
        """Look at the next batch, and wait for the one after it whose turn it is."""
        self._first.drop()
        self._waiting.drop()
        if self._host is None:
            return
        self._look()
        self._waiting = Hooks({"on_train_batch_end": self._begin}, every=self._apart)
        self._waiting.add(self._host)
        self._apart *= APART

    @guarded
    def _look(self, *_: Any) -> None:
        if self._host is None:
            return
        self._looking.add(self._host)
        self._hook_modules()
        self._flag_watched()

    def _hook_modules(self) -> None:
        if not self._handles and not CompileWatch.compiled_before():
            self._handles.append(register_module_forward_pre_hook(self._called))

    @guarded
    def _called(self, *_: Any) -> None:
        self._forward |= open_modes()

    @guarded
    def _before(self, trainer: Trainer, pl_module: LightningModule, loss: torch.Tensor) -> None:
        self._called()
        if loss.requires_grad:
            hooked: Any = loss
            self._handles.append(hooked.register_hook(self._in_pass))

    @guarded
    def _in_pass(self, _: torch.Tensor) -> None:
        self._backward |= open_modes()

    @guarded
    def _looked(self, *_: Any) -> None:
        self._drop_handles()
        found: _Found = frozenset(self._forward), frozenset(self._backward)
        self._forward, self._backward = set(), set()
        before, self._last = self._last, found
        if found != self._noted and found != before:
            self._hook_modules()  # the next batch tells whether it stays so
            self._flag_watched()
            return
        if found != self._noted:
            self._note(found)
        self._looking.drop()

    def _note(self, found: _Found) -> None:
        forward, backward = self._noted = found
        modes = tuple(
            TorchMode(
                name=one.name,
                dispatch=one.dispatch,
                package=one.package,
                forward=one in forward,
                backward=one in backward,
                place=made_at(one.name),
            )
            for one in sorted(forward | backward)
        )
        if modes and self._host is not None:
            self._again.add(self._host)
        elif not modes:
            self._again.drop()
        if self._output is not None:
            said = f"open: {', '.join(one.name for one in modes)}" if modes else "shut again"
            self._output.note(MODES_NOTE, modes, f"modes that are told of every operator: {said}")

    def _drop_handles(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy is made of; one that is made amid a look has none of it."""
        return self.__dict__ | {"_handles": []}

    @override
    def _release(self) -> None:
        self._drop_handles()
        self._looking.drop()
        self._first.drop()
        self._waiting.drop()
        self._again.drop()
        self._host = None
        self._forward, self._backward = set(), set()
