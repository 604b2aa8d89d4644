"""What to write in place of a loop of the program that makes most calls of a forward pass."""

import re
from dataclasses import dataclass, replace

from lightning_gpuprof.analysis.run.host_lines import LineCount, host_lines
from lightning_gpuprof.analysis.run.line_times import LEAST_COUNT
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import Finding, Where
from lightning_gpuprof.findings.places import at_once, busiest
from lightning_gpuprof.records.function_calls import (
    BusyFunction,
    CellLoop,
    FunctionNotes,
    function_notes,
)
from lightning_gpuprof.records.phases import Phase

LOOP_LOW_FRAC = 0.75
"""Least part of what a loop of small operators takes that one operator over all elements removes,
whether the loop computes, launches or reads: 0.8 and more of the most promised were measured in
loops that compute, in five programs of which the model knew nothing, and in loops that read all
of nine recordings saved more than this part of the least (docs/adr/0031)."""
MOSTLY = 0.5
LOOP_ADVICE = (
    "The loop at {file}:{line} makes {calls} calls of torch's functions in each step. Do all its "
    "turns at once: stack what it goes through, and call each function once for all of it "
    "(broadcasting, cumsum, unfold, bmm, one call of a layer for the whole batch). Where a turn "
    "needs what the one before gave, torch.compile the function with the loop."
)
CHAIN_ADVICE = (
    "The loop at {file}:{line} makes {calls} calls of torch's functions in each step, and each "
    "turn needs what the one before gave: what can be fewer are the calls in a turn."
)
AT_ONCE_ADVICE = (
    "Begin with {loops}: do all turns at once (stack what each goes through, and call each layer "
    "once for all of it). In the loop at {file}:{line}, which makes {calls} calls of torch's "
    "functions in each step, each turn needs what the one before gave: what can be fewer there are "
    "the calls in a turn. {rest}"
)
CELL_ADVICE = (
    "The loop around {file}:{line} calls an nn.{kind}Cell {turns} times in each step, and all its "
    "inputs are there beforehand: nn.{kind} takes the whole sequence in one call. Its weights are "
    "the cell's (weight_ih_l0 for weight_ih, and so on); cells one on another are its num_layers."
)
CELL_CHANGE = """self.rnn = nn.{kind}(inputs, hidden, batch_first=True)  # in place of nn.{kind}Cell
outputs, last = self.rnn(x)  # in place of the loop; x: samples, moments, inputs"""


GRADIENT_ADVICE = (
    "The loop at {loop} takes gradients one by one, at {file}:{line}: each call goes back through "
    "the whole graph. If no sample's output needs another sample, make one call for the sum of "
    "all outputs: each sample's gradient is in its own row. Else give all outputs to one call, "
    "with is_grads_batched=True."
)
GRADIENT_CHANGE = (
    "(grads,) = torch.autograd.grad(outputs.sum(), inputs, create_graph=True)"
    "  # in place of the loop; grads[i] is sample i's"
)
_TAKES_GRADIENT = re.compile(r"\bautograd\.grad\(")


@dataclass(frozen=True)
class GradientLoop:
    """A line of a loop that calls `torch.autograd.grad`.

    Args:
        line: The line.
        takes_ns: What samples saw of its function in forward, and as large a share of backward.
    """

    line: LineCount
    takes_ns: int


@dataclass(frozen=True)
class LoopInForward:
    """The function with most calls of a forward pass, whose calls may be in a loop.

    Args:
        busy: The function.
        cell: The recurrent cell that its loop is around.
        at_once: Others, whose loops' turns could be done at once, where its own cannot.
        gradients: The line in it that takes gradients, where that is most of what it does.
    """

    busy: BusyFunction
    cell: CellLoop | None
    at_once: tuple[BusyFunction, ...] = ()
    gradients: GradientLoop | None = None

    @property
    def chain(self) -> bool:
        """Whether each turn needs what the one before gave, and nothing of torch's does them."""
        return self.busy.goes_on and self.cell is None

    @property
    def calls(self) -> int:
        """How many the loop makes per batch."""
        return self.busy.calls if self.busy.loop_calls is None else self.busy.loop_calls

    @property
    def calls_frac(self) -> float:
        """Its share of the calls of a forward pass; 0 without a loop."""
        if self.busy.loop is None:
            return 0.0
        return min(1.0, self.busy.calls_frac * self.calls / max(1, self.busy.calls))

    def told(self, found: Finding) -> Finding:
        """Return a finding of its calls with what to write in its place."""
        if self.busy.loop is None:
            return found
        if self.cell is not None:
            where = dict(file=self.cell.place.file, line=self.cell.place.line)
            advice = CELL_ADVICE.format(kind=self.cell.kind, turns=self.cell.turns, **where)
            return replace(found, advice=advice, change=CELL_CHANGE.format(kind=self.cell.kind))
        if self.gradients is not None:
            loop, line = self.busy.loop, self.gradients.line
            where = dict(loop=f"{loop.file}:{loop.line}", file=line.file, line=line.line)
            named = tuple(at for at in found.where if (at.file, at.line) != (line.file, line.line))
            return replace(
                found,
                advice=GRADIENT_ADVICE.format(**where),
                change=GRADIENT_CHANGE,
                where=(Where.at(line, phase=line.phase), *named),
            )
        at = dict(calls=self.calls, file=self.busy.loop.file, line=self.busy.loop.line)
        if self.at_once:
            loops = " and ".join(map(_told, self.at_once))
            advice = AT_ONCE_ADVICE.format(loops=loops, rest=found.advice, **at)
            return replace(found, advice=advice, change=None)
        if self.chain:
            return replace(found, advice=f"{found.advice} {CHAIN_ADVICE.format(**at)}")
        return replace(found, advice=LOOP_ADVICE.format(**at), change=None)


def loop_in_forward(run: RunResults) -> LoopInForward | None:
    """Return it; None where no pass was looked at, or none of its functions makes many calls."""
    seen = function_notes(run.notes)
    first = None if seen is None else next(iter(busiest(seen)), None)
    if seen is None or first is None:
        return None
    gradients = _gradients_in(run, first)
    return LoopInForward(first, _cell_in(seen, first), at_once(seen), gradients)


def _gradients_in(run: RunResults, busy: BusyFunction) -> GradientLoop | None:
    """Return the line that takes gradients in the function that has the loop, if it is most of it.

    It takes a gradient in each turn, so what the function takes beside it goes with it.
    """
    lines, forward = host_lines(run.notes), run.per_step(Phase.FORWARD)
    if lines is None or forward is None or busy.loop is None or busy.goes_on:
        return None  # where turns need each other no call takes all gradients at once
    function = busy.loop.file, busy.loop.function
    own = [one for one in lines.of(Phase.FORWARD) if (one.file, one.function) == function]
    count = sum(one.count for one in own)
    inside = (one for one in own if one.line >= busy.loop.line)
    taking = [one for one in inside if _TAKES_GRADIENT.search(one.source)]
    if not taking or sum(one.count for one in taking) < max(LEAST_COUNT, MOSTLY * count):
        return None
    backward = run.per_step(Phase.BACKWARD)
    passes_ns = forward.mean_ns + (backward.mean_ns if backward else 0)
    return GradientLoop(taking[0], round(count / lines.by_phase[Phase.FORWARD.value] * passes_ns))


def _told(one: BusyFunction) -> str:
    place = one.loop or one.place
    return f"the loop at {place.file}:{place.line} ({one.loop_calls or one.calls} calls)"


def _cell_in(seen: FunctionNotes, busy: BusyFunction) -> CellLoop | None:
    """Return the recurrent cell that the loop of the function with most calls is around."""
    functions = {(one.file, one.function) for one in (busy.place, busy.loop) if one is not None}
    around = (one for one in seen.cells if one.loop is not None and one.loop == busy.loop)
    return next((one for one in around if (one.place.file, one.place.function) in functions), None)
