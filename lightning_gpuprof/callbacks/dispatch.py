"""Hands hooks on to the parts of a callback, at no cost for hooks that no part has."""

from collections.abc import Callable, Sequence
from typing import Any

from lightning_gpuprof.callbacks._lightning import Callback, Trainer

HOOKS = tuple(
    name for name in dir(Callback) if name.startswith("on_") or name in ("setup", "teardown")
)
PER_BATCH_HOOKS = (
    "on_train_batch_start",
    "on_train_batch_end",
    "on_before_zero_grad",
    "on_before_backward",
    "on_after_backward",
    "on_before_optimizer_step",
    "on_validation_batch_start",
    "on_validation_batch_end",
    "on_test_batch_start",
    "on_test_batch_end",
    "on_predict_batch_start",
    "on_predict_batch_end",
)


_Method = Callable[..., Any]


class Spaced:
    """A method that is to be called one time in many.

    Args:
        method: What is called.
        every: Calls of the hook per call of the method.
        due: The call of the hook, counted from 1, at which it is next.
    """

    def __init__(self, method: _Method, every: int, due: int) -> None:
        self.method = method
        self.every = every
        self.due = due


class Each:
    """Calls several methods with the same arguments, in order.

    Args:
        methods: Called each time.
        spaced: Called now and then, after the others.
        calls: How often the hook was called before.
    """

    def __init__(
        self, methods: Sequence[_Method], spaced: Sequence[Spaced] = (), calls: int = 0
    ) -> None:
        self.methods = methods
        self.spaced = spaced
        self.calls = calls
        self._due = min((one.due for one in spaced), default=0)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Call those that are due."""
        self.calls += 1
        for method in self.methods:
            method(*args, **kwargs)
        # At or above: a method above may have put another object in this one's place, which then
        # was made before those due now were called.
        if self._due and self.calls >= self._due:
            due = [one for one in self.spaced if one.due == self.calls]
            for one in due:
                one.due += one.every
            self._due = min(one.due for one in self.spaced)
            for one in due:
                one.method(*args, **kwargs)


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


def forward(callback: Callback, parts: Sequence[Callback], *, but: Sequence[str] = ()) -> None:
    """Let a callback's hooks be those of its parts: `setup` in order, others in reverse order.

    So the first part is set up before all others and is the last to see the run's end. A part
    takes a hook of its own back by setting the attribute to None.

    Args:
        callback: Gets the hooks, as attributes of this object.
        parts: Whose hooks they are.
        but: Hooks that the callback has itself.
    """
    for hook in HOOKS:
        if hook in but:
            continue
        order = parts if hook == "setup" else parts[::-1]
        methods = [getattr(part, hook) for part in order if has_hook(part, hook)]
        methods = [method for method in methods if callable(method)]
        callback.__dict__.pop(hook, None)
        if methods:
            callback.__dict__[hook] = methods[0] if len(methods) == 1 else Each(methods)
        elif hook in PER_BATCH_HOOKS:
            callback.__dict__[hook] = None


def called_by_trainer(trainer: Trainer, part: Callback) -> Callback:
    """Return the callback whose hooks the Trainer calls: the part itself, or what it is part of."""
    callbacks: Sequence[Callback] = trainer.callbacks  # type: ignore[attr-defined]
    return next((one for one in callbacks if part in getattr(one, "parts", ())), part)


def add_hook(callback: Callback, hook: str, method: _Method, *, every: int = 1) -> None:
    """Let a callback's hook call a method, until `drop_hook`.

    Args:
        callback: Whose hook.
        hook: Its name.
        method: Called first; one that is not called each time, after the others.
        every: Calls of the hook per call of the method, which comes with the last of them.
    """
    now = _each(callback.__dict__.get(hook))
    if every == 1:
        added = Each([method, *now.methods], now.spaced, now.calls)
    else:
        one = Spaced(method, every, now.calls + every)
        added = Each(now.methods, [*now.spaced, one], now.calls)
    callback.__dict__[hook] = _simplest(added)


def drop_hook(callback: Callback, hook: str, method: _Method) -> None:
    """Undo `add_hook`; a hook that nothing is left of is passed over again."""
    now = _each(callback.__dict__.get(hook))
    methods = [one for one in now.methods if one != method]
    spaced = [one for one in now.spaced if one.method != method]
    callback.__dict__[hook] = _simplest(Each(methods, spaced, now.calls))


def _each(hook: _Method | None) -> Each:
    if isinstance(hook, Each):
        return hook
    return Each(() if hook is None else (hook,))


def _simplest(each: Each) -> _Method | None:
    if each.spaced or len(each.methods) > 1:
        return each
    return each.methods[0] if each.methods else None
