"""Activations that are written out, and what one function for all of it took."""

from msgspec import Struct

from lightning_gpuprof.records.module_calls import CallPlace


class WrittenActivation(Struct, frozen=True):
    """Elementwise functions of one tensor that together are one of `torch.nn.functional`.

    Args:
        call: That one, as it is written: `gelu(x, approximate="tanh")`.
        calls: How often per batch.
        functions: How many are called in its place, each time.
        numbers: Numbers in one such tensor.
        taken_ns: Host time per batch of the functions, forward.
        written_ns: What they took in a trial in the usual form, forward and, where gradients go
            back through them, backward.
        fused_ns: The same of the one function.
        places: The lines.
    """

    call: str
    calls: int
    functions: int
    numbers: int
    taken_ns: int
    written_ns: int
    fused_ns: int
    places: tuple[CallPlace, ...]
