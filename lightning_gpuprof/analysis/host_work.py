"""How much of a step is the host's own work: Python, dispatch and operators too small to matter."""

from dataclasses import dataclass

from lightning_gpuprof.analysis.run import RunResults, TraceView
from lightning_gpuprof.records.phases import Phase

COMPUTE = (
    Phase.FORWARD,
    Phase.ZERO_GRAD,
    Phase.BACKWARD,
    Phase.CLIP_GRADIENTS,
    Phase.OPTIMIZER_STEP,
)
THIN_NS = 10_000
"""An operator below this is about as long as dispatching it from Python: "thin"."""


@dataclass(frozen=True)
class HostWork:
    """Compute phases of a steady step against the time that operators of some length took."""

    compute_ns: int
    heavy_ns: int
    """Self time of operators that take `THIN_NS` or more per call."""
    thin_calls: int
    """Calls per step of shorter ones."""
    worst: str | None
    """The thin operator called most."""
    worst_calls: int

    @property
    def overhead_ns(self) -> int:
        """What is left: Python, dispatch and thin operators."""
        return max(0, self.compute_ns - self.heavy_ns)


def host_work(run: RunResults) -> HostWork | None:
    """Split the compute phases by the last analysed trace, or return None where there is none."""
    trace = last_analysed(run)
    per_step = [stats for phase in COMPUTE if (stats := run.per_step(phase)) is not None]
    if trace is None or trace.analysis is None or not per_step:
        return None
    operators = trace.analysis.get("operators") or []
    steps = len(trace.analysis.get("steps") or [])
    if not operators or not steps:
        return None
    heavy_ns, thin_calls, calls = 0, 0, {}
    for operator in operators:
        if operator["self_ns"] >= THIN_NS * operator["count"]:
            heavy_ns += operator["self_ns"]
        else:
            thin_calls += operator["count"]
            calls[operator["name"]] = operator["count"]
    worst = max(calls, key=lambda name: calls[name], default=None)
    return HostWork(
        compute_ns=sum(stats.mean_ns for stats in per_step),
        heavy_ns=heavy_ns // steps,
        thin_calls=thin_calls // steps,
        worst=worst,
        worst_calls=calls[worst] // steps if worst is not None else 0,
    )


def last_analysed(run: RunResults) -> TraceView | None:
    """Return the last cycle of the lowest rank whose analysis is there."""
    done = [t for t in run.traces if t.analysis is not None and t.rank == run.start.rank]
    return done[-1] if done else None
