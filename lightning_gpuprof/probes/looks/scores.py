"""Follows what a linear layer gives to where little of it is used: a few places, a few targets."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from lightning_gpuprof.probes.looks.call_places import first_shown
from lightning_gpuprof.probes.looks.each_batch import in_each
from lightning_gpuprof.probes.looks.on_data import OnData, followed
from lightning_gpuprof.probes.looks.tensor_values import readable
from lightning_gpuprof.probes.stacks.stack_lines import Place
from lightning_gpuprof.records.function_calls import UnusedScores

LEAST_NUMBERS = 1 << 14
"""Smaller results are over in microseconds."""
MOST_KEPT = 0.5
"""A part that is larger is taken for the whole: to leave the rest out first gains little."""
_PARTS = frozenset({"__getitem__", "index_select", "masked_select", "select", "narrow"})
_ALONG = frozenset(
    """cumsum cumprod cummax cummin logcumsumexp flip fliplr flipud roll rot90 sort argsort msort
    conv1d conv2d conv3d""".split()
)
"""Their result at one place may need what is at others."""
_NORMS = frozenset({"softmax", "log_softmax", "softmin", "gumbel_softmax", "normalize"})
"""So do these, unless they go along the scores of a place."""
_LOSSES = frozenset({"cross_entropy", "nll_loss"})
_IGNORED, _IGNORED_AT = -100, 4
"""The usual `ignore_index` of these losses, and which argument it is."""


@dataclass
class Scored:
    """What one call of a linear layer gave, and how much of it was used."""

    places: list[Place]
    numbers: int
    layer_ns: int
    after_ns: int = 0
    """Functions on all of it: a softmax, a loss."""
    trained: bool = False
    kept_frac: float = 0.0
    counted: bool = False
    """How much was used is known."""
    needed: bool = False
    """Something else is done with all of it."""


@dataclass
class Scores:
    """What becomes of linear layers' results in one batch; `seen` is told of each on data.

    Args:
        weights: Numbers (`id`) of the model's parameters.
    """

    weights: set[int]
    scored: list[Scored] = field(default_factory=list)
    _known: Any = field(default_factory=WeakIdKeyDictionary)

    def seen(self, call: OnData) -> None:
        """Note a layer, or what becomes of one's results."""
        scored = next(followed(call.given, self._known), None)
        if scored is not None:
            self._goes_on(scored, call)
        result, place = call.result, call.place
        if (
            call.name == "linear"
            and place is not None
            and self.weights.intersection(map(id, call.given[1:2]))
            and result.numel() >= LEAST_NUMBERS
        ):
            trained = result.requires_grad
            self.scored.append(Scored([place], result.numel(), call.taken_ns, trained=trained))
            self._known[result] = self.scored[-1]

    def used(self, given: Iterable[Any]) -> None:
        """Note that something is done with tensors of which no function on data tells."""
        for scored in followed(given, self._known):
            scored.needed = True

    def _goes_on(self, scored: Scored, call: OnData) -> None:
        name, given, result = call.name, call.given, call.result
        kept = None
        first = given[0] in self._known
        if first and name in _LOSSES:
            kept = self._counted(call)
            scored.after_ns += call.taken_ns
        elif first and name in _PARTS and result.shape[-1:] == given[0].shape[-1:]:
            kept = result.numel() / scored.numbers
        if kept is not None and (kept <= MOST_KEPT or name in _LOSSES):
            scored.kept_frac += kept
            scored.counted = True
        elif kept is not None or (
            len(given) == 1 and result.numel() == given[0].numel() and not _mixes(call)
        ):
            scored.after_ns += call.taken_ns
            self._known[result] = scored
        else:
            scored.needed = True
        call.add_place(scored.places)

    def _counted(self, call: OnData) -> float | None:
        """Return the share of targets that a loss does not leave out; None where it is not read."""
        target = call.argument("target", 1, None)
        if not isinstance(target, Tensor) or target.is_floating_point():
            return None
        if not readable(target):
            return None
        ignored = call.argument("ignore_index", _IGNORED_AT, _IGNORED)
        return int((target != ignored).sum()) / max(1, target.numel())


def _mixes(call: OnData) -> bool:
    """Tell whether a function of one tensor puts several places together."""
    if call.name in _NORMS:
        last = call.argument("dim", 2 if call.name == "normalize" else 1, None)
        return last not in (-1, call.result.ndim - 1)
    return call.name in _ALONG or call.name.startswith("fft_")


def unused_scores(batches: Sequence[Scores]) -> tuple[UnusedScores, ...]:
    """Return the layers of whose results little is used, by their lines.

    Args:
        batches: What was seen in each batch; times are of the faster one.
    """
    return tuple(
        UnusedScores(
            kept_frac=max(one.kept_frac for ones in every for one in ones),
            numbers=sum(one.numbers for one in every[-1]),
            layer_ns=min(sum(one.layer_ns for one in ones) for ones in every),
            after_ns=min(sum(one.after_ns for one in ones) for ones in every),
            trained=any(one.trained for one in every[-1]),
            places=first_shown(every[-1][0].places),
        )
        for every in in_each([batch.scored for batch in batches], lambda one: one.places[0])
        if all(
            one.counted and not one.needed and one.kept_frac <= MOST_KEPT
            for ones in every
            for one in ones
        )
    )
