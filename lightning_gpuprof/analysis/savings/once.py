"""What it saves to do once what a forward pass does again, with its part of the backward pass."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.analysis.savings.host_work import host_work
from lightning_gpuprof.records.phases import Phase


def once(
    run: RunResults, forward_ns: int, again_ns: int, *, backward_frac: float, most_frac: float
) -> tuple[int, int]:
    """Return the least and the most that goes, per step.

    The backward pass of what is done again is taken to have the share of the backward pass that
    `again_ns` has of the forward pass: of all of it at least, of what is spent in operators at
    most.

    Args:
        run: The run.
        forward_ns: Its mean forward pass.
        again_ns: Host time of what is done again.
        backward_frac: The share of `again_ns` that gradients go back through in one pass.
        most_frac: No larger share of the forward pass is taken to be done again.
    """
    backward, work = run.per_step(Phase.BACKWARD), host_work(run)
    backward_ns = backward_frac * backward.mean_ns if backward else 0.0
    least_frac = min(most_frac, again_ns / forward_ns)
    operators_ns = work.forward_operators_ns if work is not None else 0
    if operators_ns:
        most_frac = min(most_frac, max(least_frac, again_ns / operators_ns))
    low, _ = around(round(least_frac * (forward_ns + backward_ns)))
    _, high = around(round(least_frac * forward_ns + most_frac * backward_ns))
    return low, high
