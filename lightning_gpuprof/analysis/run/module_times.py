"""The table of named modules: how often each is called in a step, and how long it takes."""

from typing import Any

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.lines import ModuleCalls
from lightning_gpuprof.records.phases import Phase


def module_times(run: RunResults) -> list[dict[str, Any]]:
    """Return a row per module or region, the longest first; none where no module was named.

    Times are mean self times per step, of forward and of backward, None where not measured;
    `advice` says how to make one call of several, where that can be.
    """
    calls = run.facts.module_calls
    if calls is None:
        return []
    host = {(p.phase, p.name): p.per_step.mean_ns for p in run.parts if p.per_step is not None}
    marked = run.device.time.parts if run.device.time else ()
    device = {(part.phase, part.name): part.mean_ns for part in marked}
    passes = (Phase.FORWARD, Phase.BACKWARD)
    rows = [
        {
            "name": name,
            "calls_per_step": calls.per_step.get(name),
            **{f"{phase.value}_ns": host.get((phase, name)) for phase in passes},
            **{f"device_{phase.value}_ns": device.get((phase, name)) for phase in passes},
            "advice": _advice(name, calls),
        }
        for name in dict.fromkeys((*calls.per_step, *(name for at, name in host if at in passes)))
    ]
    return sorted(rows, key=lambda row: -(row["forward_ns"] or 0) - (row["backward_ns"] or 0))


def _advice(name: str, calls: ModuleCalls) -> str | None:
    at = calls.loops.get(name)
    if at is None:
        return None
    return (
        f"called {calls.per_step[name]:.3g} times per step with the same weights, at "
        f"{at.file}:{at.line} `{at.source}`; fold time into the batch: `{name}(x.flatten(0, 1))`"
    )
