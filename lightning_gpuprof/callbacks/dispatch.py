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


class Each:
    """Calls several methods with the same arguments, in order."""

    def __init__(self, methods: Sequence[Callable[..., Any]]) -> None:
        self.methods = methods

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Call them."""
        for method in self.methods:
            method(*args, **kwargs)


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


def add_hook(callback: Callback, hook: str, method: Callable[..., Any]) -> None:
    """Let a callback's hook call a method first, until `drop_hook`."""
    now = callback.__dict__.get(hook)
    callback.__dict__[hook] = method if now is None else Each([method, *_methods(now)])


def drop_hook(callback: Callback, hook: str, method: Callable[..., Any]) -> None:
    """Undo `add_hook`; a hook that nothing is left of is passed over again."""
    methods = [one for one in _methods(callback.__dict__.get(hook)) if one != method]
    if methods:
        callback.__dict__[hook] = methods[0] if len(methods) == 1 else Each(methods)
    else:
        callback.__dict__[hook] = None


def _methods(hook: Callable[..., Any] | None) -> Sequence[Callable[..., Any]]:
    if hook is None:
        return ()
    return hook.methods if isinstance(hook, Each) else (hook,)
