"""Rows that are looked up: by indices, by rows of zeros with a one, by comparing with all."""

from msgspec import Struct

from lightning_gpuprof.records.module_calls import CallPlace


class OneHotLookup(Struct, frozen=True):
    """Rows of zeros with a one that a layer multiplies by its weights.

    Args:
        classes: Numbers in each row.
        width: Numbers that the layer makes of it.
        indices: Rows per batch.
        made_ns: Host time per batch of making the rows; 0 where something else needs them, too.
        layer_ns: The same of the layer, forward.
        places: The lines.
    """

    classes: int
    width: int
    indices: int
    made_ns: int
    layer_ns: int
    places: tuple[CallPlace, ...]


class OneHotSum(Struct, frozen=True):
    """Rows of zeros with a one by which a product sums what belongs together.

    Args:
        classes: Numbers in each row: how many sums.
        summed: Rows per batch.
        made_ns: Host time per batch of making the rows; 0 where something else needs them, too.
        sum_ns: The same of the products, forward.
        trained: What is summed has a gradient.
        places: The lines.
    """

    classes: int
    summed: int
    made_ns: int
    sum_ns: int
    trained: bool
    places: tuple[CallPlace, ...]


class IndexedLookup(Struct, frozen=True):
    """Rows of a tensor that are picked by indexing it, and get a gradient.

    Args:
        rows: Rows that it has.
        indices: Rows that are picked per batch, the same one as often as it is named.
        width: Numbers in each.
        places: The line.
    """

    rows: int
    indices: int
    width: int
    places: tuple[CallPlace, ...]


class Compared(Struct, frozen=True):
    """Each value of one tensor is compared with all of another, and little is made of it.

    Args:
        kind: What is made of it: "any" (it is among them), "which" (its place) or "count" (how many
            are, or are smaller).
        orders: They are compared by size.
        taken_ns: Host time per batch of the functions on what is written out.
        calls: How often this is done.
        compared: Pairs that are compared, per batch.
        among: Values of the other tensor that each is compared with.
        places: The lines.
    """

    kind: str
    orders: bool
    taken_ns: int
    calls: int
    compared: int
    among: int
    places: tuple[CallPlace, ...]
