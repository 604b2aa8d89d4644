"""Finds needless work in training steps: unused gradients, retained graphs, anomaly detection."""

import sys
from contextlib import suppress
from cProfile import Profile
from types import CodeType
from typing import Any

import torch

from lightning_gpuprof.adapters.lightning import Trainer
from lightning_gpuprof.findings.compile_advice import remedy
from lightning_gpuprof.inspect.places import user_line
from lightning_gpuprof.recorders.first_batch import unused_gradients
from lightning_gpuprof.records.facts import UnusedGradients
from lightning_gpuprof.records.inspection import CallCount, Waste
from lightning_gpuprof.records.lines import CompileEvent, Recompilation
from lightning_gpuprof.runtime.compiling import all_graph_breaks, all_recompilations
from lightning_gpuprof.runtime.places import (
    is_in_multiprocessing,
    own_line_like,
    package_of,
    shown,
    shown_path,
)
from lightning_gpuprof.runtime.wrap import Wrappers

MAX_NAMES = 3
MAX_ROWS = 5
MIN_CALLS = 10
"""Functions of `multiprocessing` that are called less often in a step are left out: the DataLoader
needs fewer calls to take a batch from its workers."""
_GRAPH_BREAK = "use torch.where or torch.cond, or keep this line out of the function"
_ANOMALY = r"\bset_anomaly_enabled\((?!False)|\b(set_)?detect_anomaly(\((?!False)|=(?!False))"
"""Matches a line of code that switches anomaly detection on."""


class WorkInspection:
    """Inspects the work and the Python calls of a Trainer's steps, from `start` to `stop`."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._profile: Profile | None = None
        self.steps = 0
        self.unused: UnusedGradients | None = None
        self._wrappers = Wrappers()
        self._waste: dict[tuple[str, object], Waste] = {}

    def start(self) -> None:
        """Begin to inspect."""
        self._wrappers.call_instead(torch.autograd, "backward", self._backward)
        profile = Profile()
        # From Python 3.12 on this raises ValueError if another profiler is active.
        with suppress(ValueError):
            profile.enable()
            self._profile = profile

    def begin_step(self) -> None:
        """Count a step that begins."""
        self.steps += 1
        self._check_anomaly_detection()

    def stop(self) -> None:
        """Restore what was wrapped, and look for gradients that no optimizer uses."""
        if self._profile is not None:
            self._profile.disable()
        self._wrappers.restore()
        # A group with a learning rate of 0 trains nothing, so its gradients are unused too.
        trained_groups = [
            group
            for optimizer in self._trainer.optimizers
            for group in optimizer.param_groups
            if group.get("lr") != 0
        ]
        self.unused = unused_gradients(self._trainer.lightning_module, trained_groups)
        if self.unused is not None:
            self._add("", _waste_of_gradients(self.unused))

    def waste(self) -> tuple[Waste, ...]:
        """Return the needless work of the steps, and what torch.compile could not compile."""
        breaks = map(_waste_of_graph_break, all_graph_breaks())
        return (*self._waste.values(), *breaks, *map(_waste_of_recompilation, all_recompilations()))

    def calls_per_step(self) -> tuple[float | None, tuple[CallCount, ...]]:
        """Return the number of Python calls per step, and the functions that make most of them.

        The user's own functions come first, then those of `multiprocessing`. If another profiler
        was active, nothing was counted: the number is None and there are no functions.
        """
        if self._profile is None or not self.steps:
            return None, ()
        steps, entries = self.steps, self._profile.getstats()
        functions = [
            CallCount(
                file=shown_path(entry.code.co_filename),
                line=entry.code.co_firstlineno,
                function=entry.code.co_name,
                calls=entry.callcount / steps,
                makes=sum(callee.callcount for callee in entry.calls or ()) / steps,
                to_workers=is_in_multiprocessing(entry.code.co_filename),
            )
            for entry in entries
            if isinstance(entry.code, CodeType)
            and (not package_of(file := entry.code.co_filename) or is_in_multiprocessing(file))
        ]
        functions.sort(key=lambda function: -function.makes)
        users_own = [function for function in functions if not function.to_workers]
        to_workers = [
            function
            for function in functions
            if function.to_workers
            and function.calls >= MIN_CALLS
            and not function.function.startswith("_")
        ]
        all_calls = sum(entry.callcount for entry in entries)
        return all_calls / steps, (*users_own[:MAX_ROWS], *to_workers[:MAX_ROWS])

    def _backward(
        self,
        original: Any,
        tensors: Any,
        grad_tensors: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        self._check_anomaly_detection()
        if retain_graph and not create_graph:
            self._add_retained_graph()
        return original(tensors, grad_tensors, retain_graph, create_graph, *args, **kwargs)

    def _add_retained_graph(self) -> None:
        line = user_line(sys._getframe(1))
        place = None if line is None else shown(line)
        title = "backward retains its graph (retain_graph=True), and with it all activations"
        advice = (
            "add the losses and call backward once, or leave out retain_graph=True if the graph is "
            "used only once"
        )
        self._add(place, Waste("retained-graph", title, advice, place))

    def _check_anomaly_detection(self) -> None:
        if torch.is_anomaly_enabled():
            title = "autograd's anomaly detection is on: every operator records its stack"
            advice = "switch it on only to search for a NaN: pass Trainer(detect_anomaly=False)"
            self._add("", Waste("anomaly-detection", title, advice, own_line_like(_ANOMALY)))

    def _add(self, key: object, waste: Waste) -> None:
        """Add needless work, unless this kind was added with the same key before."""
        self._waste.setdefault((waste.kind, key), waste)


def _waste_of_graph_break(event: CompileEvent) -> Waste:
    title = f"torch.compile breaks its graph here: {event.reason}"
    return Waste("graph-break", title, event.hint or _GRAPH_BREAK, event.place)


def _waste_of_recompilation(again: Recompilation) -> Waste:
    title = f"torch.compile compiles this function again: {again.reason}"
    advice = remedy(again.cause, subject=again.subject, reason=again.reason, value=again.value)
    return Waste("recompilation", title, advice.advice, again.place or again.function)


def _waste_of_gradients(unused: UnusedGradients) -> Waste:
    names = unused.modules
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return Waste(
        kind="unused-gradients",
        title=f"gradients of {unused.parameters:,} parameters are computed and no optimizer uses "
        f"them: {', '.join(names[:MAX_NAMES])}{more}",
        advice=f"self.{names[0]}.requires_grad_(False) in __init__, or pass its parameters to the "
        "optimizer",
    )
