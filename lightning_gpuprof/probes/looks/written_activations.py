"""Recognizes activations that are written out, by their values, and tries torch's own."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.weak import WeakIdKeyDictionary

from lightning_gpuprof.probes.looks.call_places import first_shown
from lightning_gpuprof.probes.looks.each_batch import in_each
from lightning_gpuprof.probes.looks.on_data import OnData
from lightning_gpuprof.probes.looks.tensor_values import readable, version
from lightning_gpuprof.probes.stacks.stack_lines import Place
from lightning_gpuprof.records.activations import WrittenActivation

_Form = Callable[[Tensor], Tensor]
ACTIVATIONS: dict[str, tuple[_Form, _Form]] = {
    'gelu(x, approximate="tanh")': (
        lambda x: functional.gelu(x, approximate="tanh"),
        lambda x: 0.5 * x * (1.0 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    "gelu(x)": (
        functional.gelu,
        lambda x: 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0))),
    ),
    "silu(x)": (functional.silu, lambda x: x * torch.sigmoid(x)),
    "mish(x)": (functional.mish, lambda x: x * torch.tanh(functional.softplus(x))),
    "softplus(x)": (functional.softplus, lambda x: torch.log(1.0 + torch.exp(x))),
    "hardswish(x)": (functional.hardswish, lambda x: x * functional.relu6(x + 3.0) / 6.0),
}
"""torch's own function, and the usual way to write it out."""
_ELEMENTWISE = frozenset(
    """mul __mul__ __rmul__ add __add__ __radd__ sub __sub__ __rsub__ div __truediv__ __rtruediv__
    true_divide pow __pow__ square neg __neg__ tanh erf sigmoid exp log log1p softplus relu relu6
    hardtanh clamp multiply""".split()
)
LEAST_NUMBERS = 1 << 14
"""Of smaller tensors calls as such are the cost, which are `host-bound`'s."""
MOST_NUMBERS = 1 << 26
"""Larger ones are not tried, for want of memory."""
LEAST_FUNCTIONS = 2
SAMPLED = 64
TOLERANCE = 1e-5
ROUNDS = 3
MOST_NS = 500_000_000
"""A trial that has taken so long is tried no further."""
_SURE = (torch.float32, torch.float64)


@dataclass(frozen=True)
class _Chain:
    """What became of a tensor by elementwise functions of it and of numbers alone."""

    root: int
    version: int
    sample: Tensor
    """Some values of the root."""
    taken_ns: dict[int, int]
    """Of each function, by its number."""
    places: tuple[Place, ...]


@dataclass
class Written:
    """An activation that one batch has written out."""

    place: Place
    call: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    trained: bool
    functions: int
    taken_ns: int
    places: tuple[Place, ...]


@dataclass
class WrittenActivations:
    """Follows elementwise functions of one tensor; `seen` is told of each function on data."""

    found: list[Written] = field(default_factory=list)
    _known: Any = field(default_factory=WeakIdKeyDictionary)
    _roots: Any = field(default_factory=WeakIdKeyDictionary)
    _count: int = 0

    def seen(self, call: OnData) -> None:
        """Note what an elementwise function makes of a tensor."""
        result = call.result
        if call.name not in _ELEMENTWISE or call.place is None or not call.given:
            return
        if result.numel() < LEAST_NUMBERS or result.dtype not in _SURE or not readable(result):
            return
        found = [self._of(one) for one in call.given if one.ndim]
        chains = [one for one in found if one is not None]
        if not chains or len(chains) < len(found) or len({one.root for one in chains}) > 1:
            return
        self._count += 1
        places = dict.fromkeys(place for one in chains for place in one.places)
        taken = {number: ns for one in chains for number, ns in one.taken_ns.items()}
        first = chains[0]
        chain = _Chain(
            first.root,
            version(result),
            first.sample,
            taken | {self._count: call.taken_ns},
            (*places, call.place) if call.place not in places else tuple(places),
        )
        self._known[result] = chain
        if len(chain.taken_ns) >= LEAST_FUNCTIONS:
            self._recognize(call, call.place, chain)

    def _of(self, tensor: Tensor) -> _Chain | None:
        known: _Chain | None = self._known.get(tensor)
        if known is not None:
            return known if known.version == version(tensor) else None
        root: _Chain | None = self._roots.get(tensor)
        if root is None or root.version != version(tensor):
            values = _sampled(tensor)
            if values is None:
                return None
            self._count += 1
            root = self._roots[tensor] = _Chain(self._count, version(tensor), values, {}, ())
        return root

    def _recognize(self, call: OnData, place: Place, chain: _Chain) -> None:
        values = _sampled(call.result)
        if values is None or not (chain.sample.min() < 0 < chain.sample.max()):
            return
        off = {
            name: float(((own(chain.sample) - values).abs() / (1 + values.abs())).max())
            for name, (own, _) in ACTIVATIONS.items()
        }
        # Where values are small several come near: the nearest is meant.
        nearest = min(off, key=off.__getitem__)
        if off[nearest] <= TOLERANCE:
            self.found.append(
                Written(
                    place,
                    nearest,
                    tuple(call.result.shape),
                    call.result.dtype,
                    call.result.requires_grad,
                    len(chain.taken_ns),
                    sum(chain.taken_ns.values()),
                    chain.places,
                )
            )


@torch.no_grad()
def _sampled(tensor: Tensor) -> Tensor | None:
    """Return some values, the same places of every tensor of a shape; None if not to be read."""
    if tensor.numel() < LEAST_NUMBERS or tensor.dtype not in _SURE or not readable(tensor):
        return None
    line = tensor.detach().movedim(max(range(tensor.ndim), key=tensor.shape.__getitem__), -1)
    while line.ndim > 1:
        line = line[len(line) // 2]
    return line[:: max(1, len(line) // SAMPLED)][:SAMPLED].to(torch.float64, copy=True)


def written_activations(
    batches: Sequence[WrittenActivations], clock: Callable[[], int]
) -> tuple[WrittenActivation, ...]:
    """Return what every batch writes out, by its last line, with a trial of both forms."""
    tried: dict[Any, tuple[int, int]] = {}
    noted = []
    for every in in_each([one.found for one in batches], lambda one: (one.place, one.call)):
        last = every[-1]
        for one in last:
            key = one.call, one.shape, one.dtype, one.trained
            if key not in tried and math.prod(one.shape) <= MOST_NUMBERS:
                tried[key] = _try(*key, clock)
        times = [tried.get((one.call, one.shape, one.dtype, one.trained)) for one in last]
        known = [one for one in times if one is not None]
        if len(known) < len(times):
            continue
        noted.append(
            WrittenActivation(
                call=last[0].call,
                calls=len(last),
                functions=max(one.functions for one in last),
                numbers=max(math.prod(one.shape) for one in last),
                taken_ns=min(sum(one.taken_ns for one in ones) for ones in every),
                written_ns=sum(written for written, _ in known),
                fused_ns=sum(fused for _, fused in known),
                places=first_shown(last[0].places),
            )
        )
    return tuple(sorted(noted, key=lambda one: -one.written_ns))


def _try(
    call: str, shape: tuple[int, ...], dtype: torch.dtype, trained: bool, clock: Callable[[], int]
) -> tuple[int, int]:
    """Return what the usual written form takes, and torch's own, forward and backward."""
    fused, written = ACTIVATIONS[call]
    taken: dict[bool, list[int]] = {True: [], False: []}
    values = torch.linspace(-3, 3, math.prod(shape), dtype=dtype, device="cpu").view(shape)
    with torch.set_grad_enabled(trained):
        for number in range(2 * ROUNDS):
            own = number % 2 == 1
            x = values.detach().requires_grad_(trained)
            begin_ns = clock()
            y = (fused if own else written)(x)
            if trained:
                torch.autograd.grad(y, x, torch.ones_like(y))
            taken[own].append(clock() - begin_ns)
            if own and sum(taken[True]) + sum(taken[False]) > MOST_NS:
                break
    return min(taken[False]), min(taken[True])
