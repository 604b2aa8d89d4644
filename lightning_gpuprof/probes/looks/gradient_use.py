"""Tells which gradients are computed and then thrown away: no optimizer ever steps on them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.hooks import RemovableHandle
from torch.utils.weak import TensorWeakRef

from lightning_gpuprof.probes.scalars.transfer import Pending, Transfer, to_host


class _State(NamedTuple):
    """A gradient at a moment; held weakly, for its memory is not ours to keep."""

    grad: TensorWeakRef
    version: int

    def is_of(self, grad: Tensor | None) -> bool:
        """Tell whether nothing was done to the gradient since."""
        return grad is not None and self.grad() is grad and self.version == grad._version


@dataclass
class GradientUse:
    """Follows the gradients of parameters through backward passes and optimizer steps.

    A gradient is *used* where an optimizer that holds its parameter steps, or where the backward
    pass ran inside such a step (a closure, as Lightning and LBFGS have it). It is *dropped* where
    it was cleared before any step, or where no step ever reaches its parameter. Gradients that
    later passes add to are neither, until one of both happens. Nor are those of a parameter that
    was changed before they were cleared (by hand, to look for flat places: sharpness-aware
    minimization), or whose gradient somebody else than the backward pass has put there when a step
    comes (several losses' gradients that were made one).

    Args:
        parameters: Those of the module; ones that need no gradient are passed over.
    """

    parameters: Sequence[Parameter]
    passes: int = 0
    dropped: dict[int, set[int]] = field(default_factory=dict)
    """By parameter: the backward passes whose gradient was cleared."""
    stepped: set[int] = field(default_factory=set)
    """Parameters that an optimizer stepped on."""
    steps: int = 0
    _open: dict[int, tuple[int, _State, int]] = field(default_factory=dict)
    """By parameter: the last pass that gave it a gradient, until that is used or dropped, and the
    parameter's version then."""
    _by_hand: set[int] = field(default_factory=set)
    _before: dict[int, _State] = field(default_factory=dict)
    _stepping: list[set[int]] = field(default_factory=list)
    _handles: list[RemovableHandle] = field(default_factory=list)
    _at: dict[int, int] = field(default_factory=dict)

    def start(self) -> None:
        """Watch every optimizer's steps, whoever calls them."""
        self._at = {id(p): i for i, p in enumerate(self.parameters) if p.requires_grad}
        self._handles = [
            register_optimizer_step_pre_hook(self._steps),
            register_optimizer_step_post_hook(self._stepped),
        ]

    def stop(self) -> None:
        """Watch no more; it may be called twice."""
        while self._handles:
            self._handles.pop().remove()
        self._open, self._before, self._stepping = {}, {}, []

    def before_backward(self) -> None:
        """Look which gradients were cleared since the last pass."""
        for i, (at, state, version) in list(self._open.items()):
            parameter = self.parameters[i]
            if not state.is_of(parameter.grad):
                if version == parameter._version and i not in self._by_hand:
                    self.dropped.setdefault(i, set()).add(at)
                del self._open[i]
        self._before = dict(self._states())

    def after_backward(self) -> None:
        """Note which gradients this pass has given."""
        used = set().union(*self._stepping)
        for i, state in self._states():
            before = self._before.get(i)
            if i not in used and not (before and before.is_of(self.parameters[i].grad)):
                self._open[i] = self.passes, state, self.parameters[i]._version
        self.passes += 1

    def _states(self) -> Iterator[tuple[int, _State]]:
        for i in self._at.values():
            grad = self.parameters[i].grad
            if grad is not None:
                yield i, _State(TensorWeakRef(grad), grad._version)

    def unreached(self) -> set[int]:
        """Return the parameters that have a gradient, and that no optimizer stepped on."""
        return {i for i in self._open if i not in self.stepped}

    def _steps(self, optimizer: Optimizer, *_: Any) -> None:
        held = self._held(optimizer)
        self._stepping.append(held)
        # Kept from an earlier pass, to be added to: this step is what they were kept for.
        for i in held:
            kept = self._open.pop(i, None)
            now = self.parameters[i].grad
            if kept is not None and now is not None and kept[1].grad() is not now:
                self._by_hand.add(i)
                self.dropped.pop(i, None)

    def _stepped(self, optimizer: Optimizer, *_: Any) -> None:
        held = self._stepping.pop() if self._stepping else self._held(optimizer)
        self.steps += 1
        self.stepped |= held
        for i in held:
            self._open.pop(i, None)

    def _held(self, optimizer: Optimizer) -> set[int]:
        every = (p for group in optimizer.param_groups for p in group["params"])
        return {at for p in every if (at := self._at.get(id(p))) is not None}


@dataclass
class GradientTimes:
    """When each gradient of a backward pass was ready, on the host's clock.

    Args:
        parameters: As for `GradientUse`.
        clock: Returns nanoseconds.
    """

    parameters: Sequence[Parameter]
    clock: Callable[[], int]
    passes: list[list[tuple[int, int]]] = field(default_factory=list)
    """For each pass, the parameters in the order of their gradients, each with the time since
    the one before."""
    _handles: list[RemovableHandle] = field(default_factory=list)
    _last_ns: int = 0

    def start(self) -> None:
        """Be told of each gradient."""
        for i, parameter in enumerate(self.parameters):
            if parameter.requires_grad:
                hook = self._hook(i)
                ready = parameter.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
                self._handles.append(ready)

    def stop(self) -> None:
        """Be told no more; it may be called twice."""
        while self._handles:
            self._handles.pop().remove()

    def before_backward(self) -> None:
        """Begin a pass."""
        self.passes.append([])
        self._last_ns = self.clock()

    def _hook(self, i: int) -> Callable[[Tensor], None]:
        def ready(_: Tensor) -> None:
            if self.passes:
                now = self.clock()
                self.passes[-1].append((i, now - self._last_ns))
                self._last_ns = now

        return ready


class ValueChanges:
    """Tells which parameters have other values than before, by their first ones.

    On a GPU they are compared there, and what comes of it is copied without a wait.

    Args:
        parameters: By number; of a sharded one this rank's share is looked at.
        transfer: Queues a copy to the host; tests pass a fake.

    >>> weight = Parameter(torch.zeros(3))
    >>> values = ValueChanges({0: weight, 1: Parameter(torch.zeros(2))})
    >>> weight.data += 1
    >>> values.compare()
    >>> values.ready(), values.changed()
    (True, {0})
    """

    def __init__(self, parameters: Mapping[int, Parameter], transfer: Transfer = to_host) -> None:
        self._parameters = parameters
        self._transfer = transfer
        self._before = {i: _first_value(p).clone() for i, p in parameters.items()}
        self._pending: list[tuple[list[int], Pending]] = []

    def compare(self) -> None:
        """Queue the comparison with what the values are now."""
        by_device: dict[torch.device, dict[int, Tensor]] = {}
        for i, before in self._before.items():
            differs = (before != _first_value(self._parameters[i])).any()
            by_device.setdefault(differs.device, {})[i] = differs
        self._pending = [
            (list(some), self._transfer(torch.stack(list(some.values()))))
            for some in by_device.values()
        ]

    def ready(self) -> bool:
        """Tell whether the comparison has arrived; never waits."""
        return all(pending.ready() for _, pending in self._pending)

    def changed(self) -> set[int]:
        """Return the numbers of those that have changed; waits for what has not arrived."""
        return {
            i
            for numbers, pending in self._pending
            for i, differs in zip(numbers, pending.result().tolist(), strict=True)
            if differs
        }


def resting(optimizers: Iterable[Optimizer]) -> set[int]:
    """Return the `id` of each parameter that is in groups with a learning rate of 0 alone.

    A rate that is to rise is not meant: a warm-up from 0 begins at another one (`initial_lr`).

    >>> still, moved = Parameter(torch.zeros(1)), Parameter(torch.zeros(1))
    >>> groups = [{"params": [still], "lr": 0.0}, {"params": [moved]}]
    >>> resting([torch.optim.SGD(groups, lr=0.1)]) == {id(still)}
    True
    """
    at_rest: set[int] = set()
    moved: set[int] = set()
    for group in (group for one in optimizers for group in one.param_groups):
        rates = (group.get("lr"), group.get("initial_lr", 0.0))
        # A rate on a device is not read: that would make the host wait.
        still = all(isinstance(rate, (int, float)) and rate == 0 for rate in rates)
        (at_rest if still else moved).update(map(id, group["params"]))
    return at_rest - moved


def _first_value(parameter: Parameter) -> Tensor:
    value = parameter.detach()
    own: Tensor = getattr(value, "_local_tensor", value)  # of a sharded one (FSDP)
    return own.flatten()[:1]


@dataclass(frozen=True)
class Shares:
    """What dropped gradients took of the backward passes' time up to the last gradient.

    `sure` is what nothing else needed: no used gradient came after it. `maybe` is what may have
    carried the gradient on to used ones. `of` holds each parameter's share of both.
    """

    sure: float
    maybe: float
    of: dict[int, float]


def shares(
    passes: Iterable[Sequence[tuple[int, int]]], is_dropped: Callable[[int, int], bool]
) -> Shares | None:
    """Return the time of dropped gradients as shares of all; None where none was timed.

    Args:
        passes: As `GradientTimes.passes`.
        is_dropped: Tells of a pass and a parameter whether that gradient is dropped.

    >>> shares([[(0, 50), (1, 30), (2, 20)]], lambda at, i: i == 2)
    Shares(sure=0.2, maybe=0.0, of={2: 0.2})
    >>> shares([[(0, 50), (1, 30), (2, 20)]], lambda at, i: i == 1)
    Shares(sure=0.0, maybe=0.3, of={1: 0.3})
    """
    sure = maybe = whole = 0
    of: Counter[int] = Counter()
    for at, ready in enumerate(passes):
        whole += sum(taken for _, taken in ready)
        last = max((n for n, (i, _) in enumerate(ready) if not is_dropped(at, i)), default=-1)
        for n, (i, taken) in enumerate(ready):
            if n > last:
                sure += taken
            elif is_dropped(at, i):
                maybe += taken
            if is_dropped(at, i):
                of[i] += taken
    if not whole:
        return None
    return Shares(sure / whole, maybe / whole, {i: taken / whole for i, taken in of.items()})
