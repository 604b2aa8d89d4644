"""Convolutions with a fixed window that is a product of one along each side."""

from msgspec import Struct

from lightning_gpuprof.records.module_calls import CallPlace


class SeparableWindow(Struct, frozen=True):
    """Such convolutions of one function, and what a trial of both forms took.

    Args:
        calls: How often per batch.
        size: Weights along each side of the window; of the convolution that takes longest.
        channels: Channels of its result, each with a window of its own.
        groups: Channels of its images.
        taken_ns: Host time per batch of these convolutions, forward.
        whole_ns: What they took in a trial of their sizes, forward and, where gradients go back
            through them, backward.
        split_ns: The same of a convolution along each side, one after the other.
        between_bytes: Memory of what is between those, forward, and of its gradients.
        trained: Gradients go back through one of them.
        places: The lines, that with the most time first.
    """

    calls: int
    size: tuple[int, ...]
    channels: int
    groups: int
    taken_ns: int
    whole_ns: int
    split_ns: int
    between_bytes: int
    trained: bool
    places: tuple[CallPlace, ...]
