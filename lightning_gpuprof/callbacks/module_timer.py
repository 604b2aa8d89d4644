"""Times modules by their names, and counts how often they are called in a step."""

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial
from traceback import walk_stack
from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.adapters.callback_hooks import BATCH_END, BATCH_START
from lightning_gpuprof.adapters.compiled_modules import is_inside_compiled, modules_by_name
from lightning_gpuprof.adapters.lightning import LightningModule, Trainer
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records.lines import ModuleCalls
from lightning_gpuprof.runtime.context import TimedPart
from lightning_gpuprof.runtime.guard import guarded
from lightning_gpuprof.runtime.hooks import HookSet, dispatcher_in
from lightning_gpuprof.runtime.places import USER, Place, package_in, shown
from lightning_gpuprof.runtime.recording import RecordingCallback
from lightning_gpuprof.timing.components import BackwardCall, tensors_of

WATCHED = 5
"""Calls are counted in the first steps, up to this number, which are slow anyway."""
MIN_CALLS = 4
"""A line with at least this many calls in a step counts as a loop."""
MOST_NODES = 100_000
_INSIDE_COMPILED = (
    "is inside a compiled module and is not timed alone. Name the compiled module itself, or "
    "compile its parts one by one."
)


class ModuleTimer(RecordingCallback):
    """Times the forward and backward of modules, named as in `named_modules()`, and counts calls.

    `ModuleTimer(["encoder", "world_model.rssm"])` beside a `PhaseTimer`, or
    `GpuProfCallback(modules=[...])`, adds the parts `forward/encoder`, `backward/encoder` and so on
    to the phases of every step. Their time is self time, so that a component inside another is not
    counted twice. With device marks, every part has its device time too. Nothing waits for the
    device.

    The backward of a module lasts from the first gradient of an output to the last gradient of an
    input, or to the end of the backward pass if no input needs a gradient. Modules inside a
    compiled module cannot be timed separately, and are left out with a warning. A module that is
    wrapped by `torch.compile(module)` is timed as a whole by hooks on the wrapper, so that its
    graph stays the same.

    Costs: about 10 us per call, and more in the first step, whose calls are examined.
    Touches: forward and backward hooks on the named modules.
    When: every step, in the calls of the named modules.
    Switch: modules=() (the default)

    Args:
        modules: Names of modules.

    Raises:
        ConfigError: `modules` is not a sequence of names; in `on_train_start`, a module does not
            exist, or the Trainer has no `PhaseTimer`.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        if isinstance(modules, str) or not all(isinstance(name, str) for name in modules):
            raise ConfigError(
                f"ModuleTimer({modules!r}) is not a list of names. Pass names as in "
                'named_modules(), such as ModuleTimer(["encoder"]).'
            )
        super().__init__()
        self.modules = tuple(modules)
        self._hooks: list[Any] = []
        self._counts = CallCounts()
        self._steps = HookSet({BATCH_START: self._step_begins, BATCH_END: self._step_ends})

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._context is None or not self.modules:
            return
        if self._timing is None or not self._timing.running:
            raise ConfigError(
                "ModuleTimer has no clock: this Trainer has no PhaseTimer. Add one to the "
                "callbacks, or use GpuProfCallback(modules=[...]) in the place of both."
            )
        self._counts = CallCounts()
        self._steps.add(dispatcher_in(trainer, self))
        for name, module in _find(pl_module, self.modules).items():
            if is_inside_compiled(pl_module, name):
                self._context.note("module_not_timed", name, f"{name} {_INSIDE_COMPILED}")
            else:
                self._time(module, self._timing.part(name))

    def _time(self, module: torch.nn.Module, component: TimedPart) -> None:
        enter, leave = _Hook(self._call_begins, component), _Hook(self._call_ends, component)
        self._hooks += [
            module.register_forward_pre_hook(enter, with_kwargs=True),
            # This is called even if forward raises, since the region must not stay open.
            module.register_forward_hook(leave, with_kwargs=True, always_call=True),
        ]

    def _step_begins(self, *_: Any) -> None:
        self._counts.is_counting = True  # not during a validation between two batches

    @guarded
    def _step_ends(self, *_: Any) -> None:
        self._counts.end_step()
        if self._counts.steps == WATCHED:
            self._write()

    def _write(self) -> None:
        if self._steps.drop() and self._counts.steps and self._context is not None:
            self._context.write(self._counts.record())

    @guarded
    def _call_begins(self, component: TimedPart, args: Any, kwargs: Any) -> None:
        self._counts.called(component.name, (args, kwargs))
        component.__enter__()

    @guarded
    def _call_ends(self, component: TimedPart, args: Any, kwargs: Any, output: Any) -> None:
        component.__exit__(None, None, None)
        self._counts.returned(component.name, output)
        if component.timed and torch.is_grad_enabled():
            BackwardCall(self._guarded, component).watch((args, kwargs), output)

    @guarded
    def _guarded(self, act: Callable[[], None]) -> None:
        act()

    @override
    def _release(self) -> None:
        self._write()
        self._counts = CallCounts()  # after an error in a step, the old one still holds the graph
        while self._hooks:
            self._hooks.pop().remove()


class _Hook:
    """A hook that passes a component on. In a copy of the module (pickle, deepcopy) it is empty."""

    def __init__(self, act: Callable[..., None], component: TimedPart) -> None:
        self._act = act
        self._component = component

    def __call__(self, module: Any, *arguments: Any) -> None:
        self._act(self._component, *arguments)

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return partial, (_empty_hook,)


def _empty_hook(*arguments: Any) -> None:
    return None


def _find(model: torch.nn.Module, names: Sequence[str]) -> dict[str, torch.nn.Module]:
    modules = modules_by_name(model)
    for name in names:
        if name not in modules:
            near = get_close_matches(name, modules, n=3)
            examples = ", ".join(near or list(modules)[:8]) or "none"
            raise ConfigError(
                f"ModuleTimer: {type(model).__name__} has no module {name!r}. "
                f"{'Nearest' if near else 'It has'}: {examples}."
            )
    return {name: modules[name] for name in dict.fromkeys(names)}


class CallCounts:
    """Counts the calls of modules by name in a few steps, and examines those of the first step.

    For every call it notes the calling line, and walks the autograd graph behind the inputs. If
    these depend on the result of an earlier call, the calls cannot become a single call.
    """

    def __init__(self) -> None:
        self.is_counting = False
        self.steps = 0
        self._calls = Counter[str]()
        self._lines: defaultdict[str, Counter[Place]] = defaultdict(Counter)
        self._returned: defaultdict[str, set[Any]] = defaultdict(set)
        self._visited: defaultdict[str, set[Any]] = defaultdict(set)
        self._chained: set[str] = set()

    def end_step(self) -> None:
        """End a step, and drop the references to its graph."""
        self.is_counting = False
        self.steps += 1
        self._returned.clear()
        self._visited.clear()

    def called(self, name: str, inputs: Any) -> None:
        """Count a call of a module, and examine it in the first step."""
        if self.is_counting:
            self._calls[name] += 1
        if self.is_counting and not self.steps and name not in self._chained:
            self._lines[name][_calling_line()] += 1
            # Without gradients there is no graph, so the calls may depend on each other.
            if not torch.is_grad_enabled() or self._follows(name, _nodes(inputs)):
                self._chained.add(name)

    def returned(self, name: str, output: Any) -> None:
        """Note what a call has returned."""
        if self.is_counting and not self.steps:
            self._returned[name].update(_nodes(output))

    def record(self) -> ModuleCalls:
        """Return the calls per step, and the lines whose calls could become a single call."""
        loops = {name: lines.most_common(1)[0] for name, lines in self._lines.items()}
        return ModuleCalls(
            {name: count / self.steps for name, count in self._calls.items()},
            {
                name: shown(place)
                for name, (place, count) in loops.items()
                if count >= MIN_CALLS and name not in self._chained
            },
        )

    def _follows(self, name: str, todo: list[Any]) -> bool:
        """Return whether these nodes depend on the result of an earlier call.

        If there are too many nodes to be sure, the answer is True.
        """
        visited, returned = self._visited[name], self._returned[name]
        while todo:
            node = todo.pop()
            if node in returned or len(visited) >= MOST_NODES:
                return True
            if node not in visited:  # a visited node is older than all results since then
                visited.add(node)
                todo += [after for after, _ in node.next_functions if after is not None]
        return False


def _nodes(value: Any) -> list[Any]:
    return [tensor.grad_fn for tensor in tensors_of(value) if tensor.grad_fn is not None]


def _calling_line() -> Place:
    """Return the innermost line of the user's own code."""
    for frame, line in walk_stack(sys._getframe(1)):
        if package_in(frame) == USER:
            return frame.f_code.co_filename, line, frame.f_code.co_name
    return "", 0, ""
