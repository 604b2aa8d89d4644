"""Decides which methods the hooks of a callback call. A hook that calls none costs nothing.

The Trainer knows a single callback, the *host*. The hooks of the host call those of its parts, and
the helpers of the parts. All these calls are set up by the host's `HookDispatcher`.
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
    """Makes the hooks of a callback call methods: at every call, or at one batch in many.

    `dispatcher_of` returns the dispatcher of a callback. In an evaluation, a method that is added
    to a hook of training is called by the evaluation's hook in its place.
    """

    def __init__(self, host: Callback) -> None:
        self.host = host
        self.periodic = PeriodicCalls(self)
        self._stage = "fit"

    def let_caller_count(self) -> "PeriodicCalls":
        """Return new periodic calls, for which the caller counts the batches."""
        self.periodic = PeriodicCalls(self, caller_counts=True)
        return self.periodic

    def forward(
        self, parts: Sequence[Callback], *, but: Sequence[str] = (), stage: str = "fit"
    ) -> None:
        """Let every hook of the host call the hooks of its parts.

        `setup` calls the parts in order and all other hooks in reverse order, so that the first
        part is set up before all others and ends after them. If the class of the host has a hook,
        that is called before those of the parts. A part whose attribute for a hook is None is left
        out. In an evaluation, the host's hooks of that evaluation call the parts' training hooks.

        Args:
            parts: The parts of the host.
            but: Hooks that are left as they are.
            stage: fit, validate, test or predict.
        """
        host, self._stage = self.host, stage
        part_hooks = {hook: hook for hook in HOOKS}
        part_hooks |= {hook_in(stage, hook): hook for hook in HOOKS if hook.startswith("on_train_")}
        for hook, part_hook in part_hooks.items():
            if hook in but:
                continue
            host.__dict__.pop(hook, None)
            order = parts if hook == "setup" else parts[::-1]
            owners = [(part, part_hook if has_hook(part, part_hook) else hook) for part in order]
            owners.insert(0, (host, hook))
            methods = [getattr(owner, name) for owner, name in owners if has_hook(owner, name)]
            methods = [method for method in methods if callable(method)]
            if methods:
                host.__dict__[hook] = _combined(methods)
            elif hook in PER_BATCH_HOOKS:
                host.__dict__[hook] = None

    def add(self, hook: str, method: _Method) -> None:
        """Let a hook call a method, before its other methods, until `drop`."""
        hook = hook_in(self._stage, hook)
        self.host.__dict__[hook] = _combined([method, *self._called_by(hook)])

    def drop(self, hook: str, method: _Method) -> None:
        """Undo `add`. The Trainer skips a hook that has no methods left."""
        hook = hook_in(self._stage, hook)
        others = [called for called in self._called_by(hook) if called != method]
        self.host.__dict__[hook] = _combined(others)

    def _called_by(self, hook: str) -> Sequence[_Method]:
        method = getattr(self.host, hook, None)
        if isinstance(method, _CallAll):
            return method.methods
        is_own = hook in self.host.__dict__ or has_hook(self.host, hook)
        return (method,) if is_own and callable(method) else ()


class HookSet:
    """Methods of several hooks that are added to a dispatcher together, and dropped together."""

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
        """Undo `add`, and return whether there was anything to undo."""
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
    due: int  # the batch, counted from 1, at whose end the method is called next


class PeriodicCalls:
    """Calls methods at the end of one training batch in many.

    A hook counts the batches, for which the Trainer takes about 3 us per batch. With
    `caller_counts`, a part that runs in every batch anyway counts them instead: it counts `left`
    down, and calls `run_due` at 0.

    Attributes:
        left: Batches until the next call is due.
    """

    def __init__(self, dispatcher: HookDispatcher, *, caller_counts: bool = False) -> None:
        self.left = self._left_at_update = _NEVER
        self._dispatcher = dispatcher
        self._caller_counts = caller_counts
        self._batches_at_update = 0
        self._calls: list[_PeriodicCall] = []

    @property
    def batches(self) -> int:
        """How many batches have been counted. A hook counts only while there are calls."""
        return self._batches_at_update + self._left_at_update - self.left

    def add(self, method: Callable[[], object], every: int) -> None:
        """Call a method at the end of every `every`-th batch from now on."""
        if not self._calls and not self._caller_counts:
            self._dispatcher.add(BATCH_END, self._count)
        self._calls.append(_PeriodicCall(method, every, self.batches + every))
        self._update_left()

    def drop(self, method: Callable[[], object]) -> None:
        """Undo `add`, if there is anything to undo."""
        others = [call for call in self._calls if call.method != method]
        if len(others) < len(self._calls):
            self._calls = others
            self._update_left()
            if not others:
                self._dispatcher.drop(BATCH_END, self._count)

    def run_due(self) -> None:
        """Make the calls that are due at the end of this batch."""
        now = self.batches
        due = [call for call in self._calls if call.due <= now]
        for call in due:
            call.due = now + call.every
        self._update_left()
        for call in due:
            call.method()

    def count_with_hook(self) -> None:
        """Let a hook count the batches from now on, instead of the caller."""
        self._caller_counts = False
        if self._calls:
            self._dispatcher.add(BATCH_END, self._count)

    def _count(self, *_: Any, **__: Any) -> None:
        self.left -= 1
        if self.left == 0:
            self.run_due()

    def _update_left(self) -> None:
        self._batches_at_update = now = self.batches
        next_due = min((call.due for call in self._calls), default=_NEVER)
        self.left = self._left_at_update = next_due - now


def dispatcher_of(callback: Callback) -> HookDispatcher:
    """Return the dispatcher of a callback that the Trainer calls itself."""
    dispatcher: HookDispatcher | None = callback.__dict__.get(_DISPATCHER)
    if dispatcher is None:
        dispatcher = callback.__dict__[_DISPATCHER] = HookDispatcher(callback)
    return dispatcher


def dispatcher_in(trainer: Trainer, part: Callback) -> HookDispatcher:
    """Return the dispatcher of a part's host, or of the part itself if it has no host."""
    callbacks: Sequence[Callback] = trainer.callbacks  # type: ignore[attr-defined]
    hosts = (callback for callback in callbacks if part in getattr(callback, "parts", ()))
    return dispatcher_of(next(hosts, part))


def silence_unused(callback: Callback) -> None:
    """Make the Trainer skip the per-batch hooks that a callback does not override.

    Around every hook of every callback, even an empty one, the Trainer opens a profiler action,
    which takes about 2 us. It skips a hook that is not callable.
    """
    for hook in PER_BATCH_HOOKS:
        if not has_hook(callback, hook):
            callback.__dict__[hook] = None


class _CallAll:
    """Calls several methods in order, all with the same arguments."""

    def __init__(self, methods: Sequence[_Method]) -> None:
        self.methods = methods

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        for method in self.methods:
            method(*args, **kwargs)


def _combined(methods: Sequence[_Method]) -> _Method | None:
    """Return a callable that calls all of these methods, or None if there are none."""
    if len(methods) > 1:
        return _CallAll(methods)
    return methods[0] if methods else None
