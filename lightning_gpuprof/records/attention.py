"""Attention that a program writes out, or whose weights it drops."""

from msgspec import Struct

from lightning_gpuprof.records.module_calls import CallPlace


class UnreadWeights(Struct, frozen=True):
    """Attention that was asked for its weights, which the calling line drops.

    Args:
        calls: Such calls per batch.
        weight_bytes: Memory of all their weights.
        with_ns: Forward and backward pass of these calls as they are, tried with random values;
            None where that was not tried.
        without_ns: The same without weights.
        places: The lines.
    """

    calls: int
    weight_bytes: int
    with_ns: int | None
    without_ns: int | None
    places: tuple[CallPlace, ...]


class WrittenAttention(Struct, frozen=True):
    """Attention of a product, a softmax and a product, whose weights nothing else needs.

    Args:
        calls: How often per batch.
        scores: Pairs of positions in one call, of all heads and samples.
        score_bytes: Their memory.
        between_ns: Host time per batch of what is done to the scores between the products, forward.
        product_ns: The same of the two products.
        masked: Something is added to the scores, or some are filled.
        drops: Dropout on the weights.
        trained: Gradients go back through it.
        places: The lines, the first product's first.
    """

    calls: int
    scores: int
    score_bytes: int
    between_ns: int
    product_ns: int
    masked: bool
    drops: bool
    trained: bool
    places: tuple[CallPlace, ...]
