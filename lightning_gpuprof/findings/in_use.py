"""What makes steps faster that wait for one side, without proposing what is in use already."""

from lightning_gpuprof.analysis.run.trace_facts import CUDA_GRAPHS
from lightning_gpuprof.analysis.trace_tables import TraceAnalysis
from lightning_gpuprof.records.device_marks import StepState

GRAPHED = (
    "CUDA graphs are in use, so what is left is the host's work between their replays, such as the "
    "loss and logging: do less there, or capture the rest of the step too."
)
GRAPHED_INFERENCE = (
    "CUDA graphs are in use, so what is left is the host's work between their replays, such as "
    "scheduling, sampling and the preparation of inputs: do it while the device works on the step "
    "before, or raise the batch size."
)
TRAINING = {
    StepState.SYNC_BOUND: "Something reads values off the device; `lightning-gpuprof inspect "
    "SCRIPT` names the line.",
    StepState.DATA_BOUND: "Batches that come sooner make it faster: more workers, or less work per "
    "sample.",
}
INFERENCE = {
    StepState.SYNC_BOUND: "Something reads values off the device, such as sampled tokens: copy "
    "them without blocking, and read them after the next step was queued.",
    StepState.DATA_BOUND: "Inputs that come sooner make it faster: prepare them while the device "
    "works on the step before.",
}


def between_replays(*, trains: bool) -> str:
    """Return what makes steps faster in which the device waits between replays of graphs."""
    return GRAPHED if trains else GRAPHED_INFERENCE


def faster(state: StepState, trace: TraceAnalysis | None, *, trains: bool = True) -> str:
    """Return what makes steps of a state faster.

    Args:
        state: What most steps wait for.
        trace: The analysis of a trace, which shows what is in use; None without one.
        trains: Whether the program trains.
    """
    if state is StepState.HOST_BOUND:
        return _less_host_work(trace, trains=trains)
    if state is StepState.DEVICE_BOUND:
        lower = "Lower precision" if trains else "Lower precision, quantized weights"
        fused = "" if trace is not None and trace.compiled else " (torch.compile)"
        return (
            f"{lower}, larger fused operators{fused} or a smaller model make it faster; nothing on "
            "the host does."
        )
    return (TRAINING if trains else INFERENCE)[state]


def _less_host_work(trace: TraceAnalysis | None, *, trains: bool) -> str:
    launches = trace.launches if trace is not None else None
    if launches is not None and launches.graph_count:
        return between_replays(trains=trains)
    compiled = trace is not None and trace.compiled
    device = trace.device if trace is not None else None
    has_graphs = device is None or device.vendor in CUDA_GRAPHS
    if compiled and has_graphs:
        return (
            "torch.compile is in use: replay its kernels as CUDA graphs "
            '(mode="reduce-overhead"), mend graph breaks, or take a larger batch.'
        )
    ways = [
        way
        for way, is_new in (("torch.compile", not compiled), ("CUDA graphs", has_graphs))
        if is_new
    ]
    proposed = f"{' or '.join(ways)}, " if ways else ""
    return (
        "Less host work per step makes it faster: fewer and larger operators, "
        f"{proposed}a larger batch."
    )
