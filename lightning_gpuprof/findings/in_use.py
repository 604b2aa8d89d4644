"""Advice where CUDA graphs are in use already."""

GRAPHED = (
    "CUDA graphs are in use, so what is left is the host's work between their replays, such as the "
    "loss and logging: do less there, or capture the rest of the step too."
)
GRAPHED_INFERENCE = (
    "CUDA graphs are in use, so what is left is the host's work between their replays, such as "
    "scheduling, sampling and the preparation of inputs: do it while the device works on the step "
    "before, or raise the batch size."
)


def between_replays(*, trains: bool) -> str:
    """Return what makes steps faster in which the device waits between replays of graphs."""
    return GRAPHED if trains else GRAPHED_INFERENCE
