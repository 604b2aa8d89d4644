"""What torch's functions did in two of the first batches, as far as a rule may want to know."""

from collections.abc import Iterable

from msgspec import Struct

from lightning_gpuprof.records.activations import WrittenActivation
from lightning_gpuprof.records.attention import UnreadWeights, WrittenAttention
from lightning_gpuprof.records.lookups import Compared, IndexedLookup, OneHotLookup, OneHotSum
from lightning_gpuprof.records.module_calls import CallPlace
from lightning_gpuprof.records.notes import last_noted
from lightning_gpuprof.records.schema import Note
from lightning_gpuprof.records.slices import TakenApart
from lightning_gpuprof.records.sparse_products import SparseProduct
from lightning_gpuprof.records.windows import SeparableWindow

FUNCTIONS_NOTE = "function_calls"
"""Note of this name: what was seen of torch's functions in a forward pass."""


class ConstantWork(Struct, frozen=True):
    """Lines of one function that computed the same values in each batch, of no data or weights.

    Args:
        taken_ns: Host time per batch of the functions called there.
        calls: How many.
        places: The lines, that with the most time first.
        alone: All that the function does is for them: it called none of torch's on data or weights,
            read no values, and was given nothing that may hold the batch.
    """

    taken_ns: int
    calls: int
    places: tuple[CallPlace, ...]
    alone: bool = False


class Penalty(Struct, frozen=True):
    """Squares of the weights that are added up and join the loss.

    Args:
        numbers: Trained numbers that are squared.
        taken_ns: Host time per batch of that in the forward pass.
        places: The lines.
    """

    numbers: int
    taken_ns: int
    places: tuple[CallPlace, ...]


class BuiltWeight(Struct, frozen=True):
    """Weights of layers that are products of thin factors, made anew in each forward pass.

    Args:
        layers: How many layers had such a weight.
        product_ns: Host time per batch of the products of the factors.
        around_ns: The same of what is done to weights of that size beside it: scaled, added.
        layer_ns: The same of the layers with these weights.
        thin_frac: Work of a layer through both factors, as a share of that through their product.
        places: The lines.
    """

    layers: int
    product_ns: int
    around_ns: int
    layer_ns: int
    thin_frac: float
    places: tuple[CallPlace, ...]


class RebuiltWeights(Struct, frozen=True):
    """Values that are computed from the same weights several times in one forward pass.

    Args:
        times: How often, at most.
        again_ns: Host time per batch of all but the first time.
        places: The lines.
    """

    times: int
    again_ns: int
    places: tuple[CallPlace, ...]


class SeparateLayers(Struct, frozen=True):
    """Layers of one kind that a function calls one by one, none with what another one gave.

    Args:
        kind: The function, such as `embedding`.
        layers: How many.
        call_ns: Median host time of one call's function.
        data: Shape of what each was given.
        weight: Shape of the first one's weight.
        place: The line of the first one.
        depth: How often there are so many, one time behind the other: heads of several layers, or
            heads in several blocks.
        after: Other functions that each one's result goes through before it meets all the others'.
        attends: What two of them gave is multiplied, as queries are with their keys.
        tensors: Parameters of each: 1 without a bias, and in older files.
    """

    kind: str
    layers: int
    call_ns: int
    data: tuple[int, ...]
    weight: tuple[int, ...]
    place: CallPlace
    depth: int = 1
    after: int = 0
    attends: bool = False
    tensors: int = 1


class Checkpointed(Struct, frozen=True):
    """Functions inside `torch.utils.checkpoint`: each runs once more for the backward pass.

    Args:
        taken_ns: Host time per batch of these functions in the forward pass.
        calls: How many.
        made_bytes: Memory of their results, which is what not to drop them takes at most.
        free_bytes: Memory of the host that was to be had; None where the system does not say.
        places: The lines that call the checkpoint.
    """

    taken_ns: int
    calls: int
    made_bytes: int
    free_bytes: int | None
    places: tuple[CallPlace, ...]


class BusyFunction(Struct, frozen=True):
    """A function of the program that calls many of torch's, as a Python loop over small ones does.

    Args:
        calls_frac: Its share of a batch's calls of such functions.
        calls: How many, per batch.
        place: Its line with most of them, in the loop where there is one.
        loop: Where the loop begins that makes them; None where there is none in the program.
        loop_calls: How many the loop makes; None without one, or in older files.
        goes_on: A turn of the loop needs what the one before gave (`x = block(x)`).
    """

    calls_frac: float
    calls: int
    place: CallPlace
    loop: CallPlace | None = None
    loop_calls: int | None = None
    goes_on: bool = False


class CellLoop(Struct, frozen=True):
    """A recurrent cell that a loop of the program calls, with inputs that none of its turns makes.

    Args:
        kind: `LSTM`, `GRU` or `RNN`.
        turns: How often it is called per batch.
        place: The line.
        loop: Where the loop begins; None in older files.
    """

    kind: str
    turns: int
    place: CallPlace
    loop: CallPlace | None = None


class Broadcast(Struct, frozen=True):
    """Every pair of two tensors' rows is written out, and then summed up over what they share.

    Args:
        kind: What it is then: "squares" or "absolute" (of differences), "distance" (the root), or
            "product".
        taken_ns: Host time per batch of the functions on what was written out, forward.
        calls: How often this is done.
        wide_bytes: What is written out at once, at most.
        given_bytes: The two tensors together.
        summed: How many numbers are summed up for each result.
        trained: Gradients go back through it.
        places: The lines.
    """

    kind: str
    taken_ns: int
    calls: int
    wide_bytes: int
    given_bytes: int
    summed: int
    trained: bool
    places: tuple[CallPlace, ...]


class UnusedScores(Struct, frozen=True):
    """A linear layer of whose results a part is used.

    Args:
        kept_frac: The largest share that was used, at most a half.
        numbers: What it gives per batch.
        layer_ns: Host time per batch of the layer, forward.
        after_ns: The same of functions on all that it gives, such as a loss.
        trained: Gradients go back through it.
        places: The lines, the layer's first.
    """

    kept_frac: float
    numbers: int
    layer_ns: int
    after_ns: int
    trained: bool
    places: tuple[CallPlace, ...]


class RepeatedWork(Struct, frozen=True):
    """Functions of the same values that a function of the program calls again within a batch.

    Args:
        taken_ns: Host time per batch of all times but the longest of each, forward.
        trained_ns: Of it, what gradients go back through.
        times: How often one of them is called, at most.
        places: The lines, that with the most time first.
        through: All lines that they were called through again.
    """

    taken_ns: int
    trained_ns: int
    times: int
    places: tuple[CallPlace, ...]
    through: tuple[CallPlace, ...] = ()


class WorkOnData(Struct, frozen=True):
    """Functions of the batch in which no weight takes part, nor anything drawn at random.

    Args:
        taken_ns: Host time per batch of those that a function of the program calls.
        places: Its lines, that with the most time first.
    """

    taken_ns: int
    places: tuple[CallPlace, ...]


class FunctionNotes(Struct, frozen=True):
    """What was seen; None and empty where nothing was."""

    constants: tuple[ConstantWork, ...] = ()
    penalty: Penalty | None = None
    built: BuiltWeight | None = None
    rebuilt: RebuiltWeights | None = None
    separate: tuple[SeparateLayers, ...] = ()
    unread: UnreadWeights | None = None
    lengths: tuple[int, ...] = ()
    """Sizes of what layers were given, but for their last dimension."""
    packs: bool = False
    """Padding was taken out again (`pack_padded_sequence`)."""
    checkpointed: Checkpointed | None = None
    busy: tuple[BusyFunction, ...] = ()
    """Those that call most, the first of all first."""
    reading: tuple[BusyFunction, ...] = ()
    """The same of calls that read a value (`item`, `tolist`, `float(x)`)."""
    broadcast: tuple[Broadcast, ...] = ()
    cells: tuple[CellLoop, ...] = ()
    """The one with most turns first."""
    lookups: tuple[OneHotLookup, ...] = ()
    scores: tuple[UnusedScores, ...] = ()
    repeated: tuple[RepeatedWork, ...] = ()
    """The longest first."""
    compared: tuple[Compared, ...] = ()
    on_data: tuple[WorkOnData, ...] = ()
    """The longest first."""
    indexed: tuple[IndexedLookup, ...] = ()
    """The one of most numbers first."""
    attention: tuple[WrittenAttention, ...] | None = None
    """None in older files."""
    sums: tuple[OneHotSum, ...] = ()
    apart: tuple[TakenApart, ...] = ()
    """The dearest first."""
    windows: tuple[SeparableWindow, ...] = ()
    activations: tuple[WrittenActivation, ...] = ()
    """The dearest first."""
    products: tuple[SparseProduct, ...] = ()
    """The dearest first."""


def function_notes(notes: Iterable[Note]) -> FunctionNotes | None:
    """Return what was noted of functions; None where there was no look."""
    return last_noted(notes, FUNCTIONS_NOTE, FunctionNotes)
