"""How often named modules are called in a step, and how long they take."""

from dataclasses import dataclass

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.paths import short_path
from lightning_gpuprof.records.lines import ModuleCalls
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import times


@dataclass(frozen=True, kw_only=True)
class ModuleTime:
    """A named module or region: mean self times per step, None where not measured."""

    name: str
    calls_per_step: float | None
    """None for a region."""
    forward_ns: int | None
    backward_ns: int | None
    device_forward_ns: int | None
    device_backward_ns: int | None
    advice: str | None
    """How several calls become a single call; None if the module is not called in such a loop."""


def module_times(run: RunResults) -> tuple[ModuleTime, ...]:
    """Return the named modules and regions, the longest first; empty if no module was named."""
    calls = run.facts.module_calls
    if calls is None:
        return ()
    host = {
        (part.phase, part.name): part.per_step.mean_ns
        for part in run.parts
        if part.per_step is not None
    }
    device_parts = run.device.time.parts if run.device.time else ()
    device = {(part.phase, part.name): part.mean_ns for part in device_parts}
    regions = [name for phase, name in host if phase in (Phase.FORWARD, Phase.BACKWARD)]
    modules = [
        ModuleTime(
            name=name,
            calls_per_step=calls.per_step.get(name),
            forward_ns=host.get((Phase.FORWARD, name)),
            backward_ns=host.get((Phase.BACKWARD, name)),
            device_forward_ns=device.get((Phase.FORWARD, name)),
            device_backward_ns=device.get((Phase.BACKWARD, name)),
            advice=_advice(name, calls),
        )
        for name in dict.fromkeys((*calls.per_step, *regions))
    ]
    return tuple(
        sorted(modules, key=lambda module: -(module.forward_ns or 0) - (module.backward_ns or 0))
    )


def _advice(name: str, calls: ModuleCalls) -> str | None:
    place = calls.loops.get(name)
    if place is None:
        return None
    return (
        f"called {times(calls.per_step[name])} per step with the same weights, at "
        f"{short_path(place.file)}:{place.line} `{place.source}`; fold time into the batch: "
        f"`{name}(x.flatten(0, 1))`"
    )
