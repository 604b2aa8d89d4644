"""Finds what training steps do for nothing: gradients, kept graphs, anomaly checks."""

import sys
from contextlib import suppress
from cProfile import Profile
from types import CodeType
from typing import Any

import torch

from lightning_gpuprof.adapters.dynamo import GRAPH_BREAK, RECOMPILATION
from lightning_gpuprof.adapters.lightning import Trainer
from lightning_gpuprof.inspect.places import user_line
from lightning_gpuprof.recorders.first_batch import unused_gradients
from lightning_gpuprof.records.facts import UnusedGradients
from lightning_gpuprof.records.inspection import CallCount, Waste
from lightning_gpuprof.records.lines import CompileEvent
from lightning_gpuprof.runtime.compiling import compile_events
from lightning_gpuprof.runtime.patches import Patches
from lightning_gpuprof.runtime.places import (
    of_multiprocessing,
    own_line_like,
    package_of,
    shown,
    shown_path,
)

MOST_NAMES = 3
MOST_ROWS = 5
LEAST_CALLS = 10
"""A step takes a batch from a loader's workers by fewer calls of a function."""
_COMPILED = {
    GRAPH_BREAK: (
        "torch.compile breaks its graph here",
        "use torch.where or torch.cond, or keep this line out of the function",
    ),
    RECOMPILATION: (
        "torch.compile compiles this function again",
        "keep what changes the same, or mark it: torch.compile(dynamic=True)",
    ),
}
_ANOMALY = r"\bset_anomaly_enabled\((?!False)|\b(set_)?detect_anomaly(\((?!False)|=(?!False))"
"""A line that switches anomaly detection on."""


class Work:
    """Inspects the work of a Trainer's steps from `start` to `stop`."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._profile: Profile | None = None
        self.steps = 0
        self.unused: UnusedGradients | None = None
        self._patches = Patches()
        self._found: dict[tuple[str, object], Waste] = {}

    def start(self) -> None:
        """Begin to inspect."""
        self._patches.instead(torch.autograd, "backward", self._backward)
        profile = Profile()
        with suppress(ValueError):  # from Python 3.12 on: another tool profiles
            profile.enable()
            self._profile = profile

    def begin_step(self) -> None:
        """Note that a step begins."""
        self.steps += 1
        self._check_anomaly_detection()

    def stop(self) -> None:
        """Put everything back, and list the gradients that nobody used."""
        if self._profile is not None:
            self._profile.disable()
        self._patches.restore()
        groups = [group for one in self._trainer.optimizers for group in one.param_groups]
        stepped = [group for group in groups if group.get("lr") != 0]
        self.unused = unused_gradients(self._trainer.lightning_module, stepped)
        if self.unused is not None:
            self._add("", _unused(self.unused))

    def waste(self) -> tuple[Waste, ...]:
        """Return what steps do for nothing, each once, and where torch.compile gives up a graph."""
        return (*self._found.values(), *map(_compiling, compile_events()))

    def calls_per_step(self) -> tuple[float | None, tuple[CallCount, ...]]:
        """Return all calls of a step, and the user's functions that make the most of them.

        Those of `multiprocessing` follow. None and nothing where another profiler was on.
        """
        if self._profile is None or not self.steps:
            return None, ()
        steps, entries = self.steps, self._profile.getstats()
        found = [
            CallCount(
                file=shown_path(entry.code.co_filename),
                line=entry.code.co_firstlineno,
                function=entry.code.co_name,
                calls=entry.callcount / steps,
                makes=sum(callee.callcount for callee in entry.calls or ()) / steps,
                to_workers=of_multiprocessing(entry.code.co_filename),
            )
            for entry in entries
            if isinstance(entry.code, CodeType)
            and (not package_of(file := entry.code.co_filename) or of_multiprocessing(file))
        ]
        found.sort(key=lambda row: -row.makes)
        own = [row for row in found if not row.to_workers]
        often = [row for row in found if row.to_workers and row.calls >= LEAST_CALLS]
        workers = [row for row in often if not row.function.startswith("_")]
        rows = (*own[:MOST_ROWS], *workers[:MOST_ROWS])
        return sum(entry.callcount for entry in entries) / steps, rows

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
            self._retained()
        return original(tensors, grad_tensors, retain_graph, create_graph, *args, **kwargs)

    def _retained(self) -> None:
        line = user_line(sys._getframe(1))
        place = None if line is None else shown(line)
        title = "backward keeps its graph (retain_graph=True), and with it all activations"
        advice = (
            "add the losses and call backward once; leave out retain_graph=True where the graph is "
            "used only once"
        )
        self._add(place, Waste("retained-graph", title, advice, place))

    def _check_anomaly_detection(self) -> None:
        if torch.is_anomaly_enabled():
            title = "autograd's anomaly detection is on: each operator notes its stack"
            advice = "switch it on only to find a NaN: Trainer(detect_anomaly=False)"
            self._add("", Waste("anomaly-detection", title, advice, own_line_like(_ANOMALY)))

    def _add(self, key: object, waste: Waste) -> None:
        self._found.setdefault((waste.kind, key), waste)


def _compiling(event: CompileEvent) -> Waste:
    title, advice = _COMPILED[event.what]
    kind = event.what.replace(" ", "-")
    return Waste(kind, f"{title}: {event.reason}", event.hint or advice, event.place)


def _unused(found: UnusedGradients) -> Waste:
    names = found.modules
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return Waste(
        kind="unused-gradients",
        title=f"gradients of {found.parameters:,} parameters are computed and no optimizer uses "
        f"them: {', '.join(names[:MOST_NAMES])}{more}",
        advice=f"self.{names[0]}.requires_grad_(False) in __init__, or pass its parameters to the "
        "optimizer",
    )
