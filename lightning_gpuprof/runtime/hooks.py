"""Hands hooks on to the parts of a callback, at no cost for hooks that no part has."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lightning_gpuprof.adapters.lightning import Callback, Trainer

HOOKS = tuple(
    name for name in dir(Callback) if name.startswith("on_") or name in ("setup", "teardown")
)
_PER_BATCH = ("_batch_", "_zero_grad", "_backward", "_optimizer_step")
PER_BATCH_HOOKS = tuple(name for name in HOOKS if any(text in name for text in _PER_BATCH))
BATCH_END = "on_train_batch_end"
_CALLS, _STAGE = "_batch_calls", "_stage"
_NEVER = 1 << 62

_Method = Callable[..., Any]


class Each:
    """Calls several methods with the same arguments, in order."""

    def __init__(self, methods: Sequence[_Method]) -> None:
        self.methods = methods

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Call them all."""
        for method in self.methods:
            method(*args, **kwargs)


@dataclass
class _Spaced:
    method: Callable[[], object]
    every: int
    due: int  # the batch, counted from 1, at whose end it is called next


class BatchCalls:
    """Calls methods at the end of one training batch in many.

    The Trainer takes about 3 us for each hook of each batch. Where somebody sees every batch anyway
    they count `left` down and call `ring` at 0; else a hook counts.
    """

    def __init__(self, host: Callback, *, counted: bool) -> None:
        self.left = self._set = _NEVER
        self._host = host
        self._counted = counted
        self._batch = 0
        self._spaced: list[_Spaced] = []

    @classmethod
    def of(cls, host: Callback) -> "BatchCalls":
        """Return a callback's; where it has none, one that a hook counts for."""
        found: BatchCalls | None = host.__dict__.get(_CALLS)
        if found is None:
            found = host.__dict__[_CALLS] = cls(host, counted=False)
        return found

    @classmethod
    def counted_by(cls, host: Callback) -> "BatchCalls":
        """Return new ones of a callback, for which its caller counts from now on."""
        calls = host.__dict__[_CALLS] = cls(host, counted=True)
        return calls

    @property
    def batches(self) -> int:
        """How many batches were counted: none in a time in which nobody counts."""
        return self._batch + self._set - self.left

    def add(self, method: Callable[[], object], every: int) -> None:
        """Call a method at the end of the last of each so many batches."""
        if not self._spaced and not self._counted:
            add_hook(self._host, BATCH_END, self._count)
        self._spaced.append(_Spaced(method, every, self.batches + every))
        self._set_left()

    def drop(self, method: Callable[[], object]) -> None:
        """Call it no more, if it was to be called."""
        kept = [one for one in self._spaced if one.method != method]
        if len(kept) < len(self._spaced):
            self._spaced = kept
            self._set_left()
            if not kept:
                drop_hook(self._host, BATCH_END, self._count)

    def ring(self) -> None:
        """Call what is due at the end of this batch."""
        now = self.batches
        due = [one for one in self._spaced if one.due <= now]
        for one in due:
            one.due = now + one.every
        self._set_left()
        for one in due:
            one.method()

    def hand_over(self) -> None:
        """Nobody else counts any more."""
        self._counted = False
        if self._spaced:
            add_hook(self._host, BATCH_END, self._count)

    def _count(self, *_: Any, **__: Any) -> None:
        self.left -= 1
        if self.left == 0:
            self.ring()

    def _set_left(self) -> None:
        self._batch = now = self.batches
        self.left = self._set = min((one.due for one in self._spaced), default=_NEVER) - now


def has_hook(callback: Callback, hook: str) -> bool:
    """Tell whether a callback's class has a hook of its own."""
    return getattr(type(callback), hook, None) is not getattr(Callback, hook, None)


def silence_unused(callback: Callback) -> None:
    """Make the Trainer pass over the per-batch hooks that a callback does not have.

    The Trainer opens a profiler action, about 2 us, around each hook of each callback, also
    where the hook is the base class's empty one; it passes over one that is not callable.
    """
    for hook in PER_BATCH_HOOKS:
        if not has_hook(callback, hook):
            callback.__dict__[hook] = None


def forward(
    callback: Callback, parts: Sequence[Callback], *, but: Sequence[str] = (), stage: str = "fit"
) -> None:
    """Let a callback's hooks be those of its parts: `setup` in order, others in reverse order.

    So the first part is set up before all others and is the last to see the run's end. A part
    takes a hook of its own back by setting the attribute to None. A hook of the callback's own
    class comes first, and those named in `but` are its own alone. In an evaluation the parts' hooks
    of training are called by its own hooks.
    """
    callback.__dict__[_STAGE] = stage
    sources = {hook: hook for hook in HOOKS}
    sources |= {hook_in(stage, hook): hook for hook in HOOKS if hook.startswith("on_train_")}
    for hook, source in sources.items():
        if hook in but:
            continue
        callback.__dict__.pop(hook, None)
        order = parts if hook == "setup" else parts[::-1]
        own = [(part, source if has_hook(part, source) else hook) for part in order]
        own.insert(0, (callback, hook))
        methods = [getattr(one, name) for one, name in own if has_hook(one, name)]
        methods = [method for method in methods if callable(method)]
        if methods:
            callback.__dict__[hook] = methods[0] if len(methods) == 1 else Each(methods)
        elif hook in PER_BATCH_HOOKS:
            callback.__dict__[hook] = None


def hook_in(stage: str, hook: str) -> str:
    """Return the hook that is called in an evaluation where this one is in training.

    >>> hook_in("validate", "on_train_batch_end"), hook_in("fit", "on_train_start")
    ('on_validation_batch_end', 'on_train_start')
    """
    name = {"fit": "train", "validate": "validation"}.get(stage, stage)
    return hook.replace("on_train_", f"on_{name}_")


def called_by_trainer(trainer: Trainer, part: Callback) -> Callback:
    """Return the callback whose hooks the Trainer calls: the part itself, or what it is part of."""
    callbacks: Sequence[Callback] = trainer.callbacks  # type: ignore[attr-defined]
    return next((one for one in callbacks if part in getattr(one, "parts", ())), part)


def add_hook(callback: Callback, hook: str, method: _Method) -> None:
    """Let a callback's hook call a method, before others, until `drop_hook`."""
    hook = hook_in(callback.__dict__.get(_STAGE, "fit"), hook)
    callback.__dict__[hook] = _simplest([method, *_called(callback, hook)])


def drop_hook(callback: Callback, hook: str, method: _Method) -> None:
    """Undo `add_hook`; a hook that nothing is left of is passed over again."""
    hook = hook_in(callback.__dict__.get(_STAGE, "fit"), hook)
    left = [one for one in _called(callback, hook) if one != method]
    callback.__dict__[hook] = _simplest(left)


class Hooks:
    """Methods, by hook, that a callback calls for a while, added and dropped together."""

    def __init__(self, methods: Mapping[str, _Method]) -> None:
        self._methods = methods
        self._callback: Callback | None = None

    def add(self, callback: Callback) -> None:
        """Let a callback's hooks call the methods, unless some already do."""
        if self._callback is None:
            self._callback = callback
            for hook, method in self._methods.items():
                add_hook(callback, hook, method)

    def drop(self) -> bool:
        """Undo `add`; tells whether there was anything to undo."""
        callback, self._callback = self._callback, None
        if callback is None:
            return False
        for hook, method in self._methods.items():
            drop_hook(callback, hook, method)
        return True


def _called(callback: Callback, hook: str) -> Sequence[_Method]:
    """Return the methods that a hook calls now."""
    method = getattr(callback, hook, None)
    if isinstance(method, Each):
        return method.methods
    own = hook in callback.__dict__ or has_hook(callback, hook)
    return (method,) if own and callable(method) else ()


def _simplest(methods: Sequence[_Method]) -> _Method | None:
    if len(methods) > 1:
        return Each(methods)
    return methods[0] if methods else None
