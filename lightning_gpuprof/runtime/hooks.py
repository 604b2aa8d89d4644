"""Decides which methods the hooks of a callback call, at no cost for hooks that call none.

The Trainer knows one callback, the *host*; its parts and their helpers are called by the host's
hooks. All of that goes through the host's `HookDispatcher`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lightning_gpuprof.adapters.callback_hooks import (
    BATCH_END,
    HOOKS,
    PER_BATCH_HOOKS,
    has_hook,
    hook_in,
)
from lightning_gpuprof.adapters.lightning import Callback, Trainer

_DISPATCHER = "_hook_dispatcher"
_NEVER = 1 << 62

_Method = Callable[..., Any]


class HookDispatcher:
    """Calls methods from the hooks of one callback: at each call, or at one batch in many.

    A callback has one dispatcher, see `dispatcher_of`. In an evaluation, methods that are added
    for a hook of training are called by the evaluation's own hook.
    """

    def __init__(self, host: Callback) -> None:
        self.host = host
        self.periodic = PeriodicCalls(self)
        self._stage = "fit"

    def count_elsewhere(self) -> "PeriodicCalls":
        """Return new periodic calls, for which the caller counts the batches."""
        self.periodic = PeriodicCalls(self, counted=True)
        return self.periodic

    def forward(
        self, parts: Sequence[Callback], *, but: Sequence[str] = (), stage: str = "fit"
    ) -> None:
        """Let the host's hooks be those of its parts: `setup` in order, others in reverse order.

        So the first part is set up before all others and is the last to see the run's end. A part
        takes a hook of its own back by setting the attribute to None. A hook of the host's own
        class comes first, and those named in `but` are the host's alone. In an evaluation the
        parts' hooks of training are called by the host's hooks of that evaluation.
        """
        host, self._stage = self.host, stage
        part_hooks = {hook: hook for hook in HOOKS}
        part_hooks |= {hook_in(stage, hook): hook for hook in HOOKS if hook.startswith("on_train_")}
        for hook, part_hook in part_hooks.items():
            if hook in but:
                continue
            host.__dict__.pop(hook, None)
            order = parts if hook == "setup" else parts[::-1]
            named = [(part, part_hook if has_hook(part, part_hook) else hook) for part in order]
            named.insert(0, (host, hook))
            methods = [getattr(owner, name) for owner, name in named if has_hook(owner, name)]
            methods = [method for method in methods if callable(method)]
            if methods:
                host.__dict__[hook] = _as_one(methods)
            elif hook in PER_BATCH_HOOKS:
                host.__dict__[hook] = None

    def add(self, hook: str, method: _Method) -> None:
        """Let a hook call a method, before others, until `drop`."""
        hook = hook_in(self._stage, hook)
        self.host.__dict__[hook] = _as_one([method, *self._called_by(hook)])

    def drop(self, hook: str, method: _Method) -> None:
        """Undo `add`; the Trainer passes over a hook that calls nothing any more."""
        hook = hook_in(self._stage, hook)
        self.host.__dict__[hook] = _as_one([m for m in self._called_by(hook) if m != method])

    def _called_by(self, hook: str) -> Sequence[_Method]:
        method = getattr(self.host, hook, None)
        if isinstance(method, _CallEach):
            return method.methods
        own = hook in self.host.__dict__ or has_hook(self.host, hook)
        return (method,) if own and callable(method) else ()


class HookSet:
    """Methods, by hook, that a dispatcher calls for a while, added and dropped together."""

    def __init__(self, methods: Mapping[str, _Method]) -> None:
        self._methods = methods
        self._dispatcher: HookDispatcher | None = None

    def add(self, dispatcher: HookDispatcher) -> None:
        """Let the hooks call the methods, unless they already do."""
        if self._dispatcher is None:
            self._dispatcher = dispatcher
            for hook, method in self._methods.items():
                dispatcher.add(hook, method)

    def drop(self) -> bool:
        """Undo `add`; tells whether there was anything to undo."""
        dispatcher, self._dispatcher = self._dispatcher, None
        if dispatcher is None:
            return False
        for hook, method in self._methods.items():
            dispatcher.drop(hook, method)
        return True


@dataclass
class _PeriodicCall:
    method: Callable[[], object]
    every: int
    due: int  # the batch, counted from 1, at whose end the next call is made


class PeriodicCalls:
    """Calls methods at the end of one training batch in many.

    The Trainer takes about 3 us for each hook of each batch. Where a part sees every batch anyway
    (`counted`), that part counts `left` down and calls `run_due` at 0; else a hook counts.
    """

    def __init__(self, dispatcher: HookDispatcher, *, counted: bool = False) -> None:
        self.left = self._left_when_set = _NEVER
        self._dispatcher = dispatcher
        self._counted = counted
        self._batch = 0
        self._calls: list[_PeriodicCall] = []

    @property
    def batches(self) -> int:
        """How many batches were counted; a hook counts only while there are calls."""
        return self._batch + self._left_when_set - self.left

    def add(self, method: Callable[[], object], every: int) -> None:
        """Call a method at the end of every so many batches."""
        if not self._calls and not self._counted:
            self._dispatcher.add(BATCH_END, self._count)
        self._calls.append(_PeriodicCall(method, every, self.batches + every))
        self._set_left()

    def drop(self, method: Callable[[], object]) -> None:
        """Undo `add`, if there is anything to undo."""
        others = [call for call in self._calls if call.method != method]
        if len(others) < len(self._calls):
            self._calls = others
            self._set_left()
            if not others:
                self._dispatcher.drop(BATCH_END, self._count)

    def run_due(self) -> None:
        """Make the calls that are due at the end of this batch."""
        now = self.batches
        due = [call for call in self._calls if call.due <= now]
        for call in due:
            call.due = now + call.every
        self._set_left()
        for call in due:
            call.method()

    def count_with_hook(self) -> None:
        """Count with a hook from now on, in the place of the part that counted."""
        self._counted = False
        if self._calls:
            self._dispatcher.add(BATCH_END, self._count)

    def _count(self, *_: Any, **__: Any) -> None:
        self.left -= 1
        if self.left == 0:
            self.run_due()

    def _set_left(self) -> None:
        self._batch = now = self.batches
        next_due = min((call.due for call in self._calls), default=_NEVER)
        self.left = self._left_when_set = next_due - now


def dispatcher_of(callback: Callback) -> HookDispatcher:
    """Return the dispatcher of a callback that a Trainer calls."""
    dispatcher: HookDispatcher | None = callback.__dict__.get(_DISPATCHER)
    if dispatcher is None:
        dispatcher = callback.__dict__[_DISPATCHER] = HookDispatcher(callback)
    return dispatcher


def dispatcher_in(trainer: Trainer, part: Callback) -> HookDispatcher:
    """Return the dispatcher whose hooks the Trainer calls for a part: its own or its host's."""
    callbacks: Sequence[Callback] = trainer.callbacks  # type: ignore[attr-defined]
    hosts = (callback for callback in callbacks if part in getattr(callback, "parts", ()))
    return dispatcher_of(next(hosts, part))


def silence_unused(callback: Callback) -> None:
    """Make the Trainer pass over the per-batch hooks that a callback does not have.

    The Trainer opens a profiler action, about 2 us, around each hook of each callback, also
    where the hook is the base class's empty one; it passes over a hook that is not callable.
    """
    for hook in PER_BATCH_HOOKS:
        if not has_hook(callback, hook):
            callback.__dict__[hook] = None


class _CallEach:
    """Calls several methods with the same arguments, in order."""

    def __init__(self, methods: Sequence[_Method]) -> None:
        self.methods = methods

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        for method in self.methods:
            method(*args, **kwargs)


def _as_one(methods: Sequence[_Method]) -> _Method | None:
    """Return what calls all of these methods: the simplest that will do, None for none."""
    if len(methods) > 1:
        return _CallEach(methods)
    return methods[0] if methods else None
