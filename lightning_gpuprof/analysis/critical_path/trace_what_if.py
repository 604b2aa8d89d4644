"""What a part of the work would save if it were gone, found by replaying the trace without it.

The critical path's share of a part is only the most that could be saved: once it is shorter,
something else holds the trace up. The replay counts that in.
"""

from dataclasses import dataclass

from lightning_gpuprof.analysis.critical_path.replay import Left, Replay
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace


@dataclass(frozen=True)
class Saving:
    """What a trace would last without one part of it."""

    part: str
    part_ns: int
    span_ns: int
    saved_ns: int


@dataclass(frozen=True)
class WhatIf:
    """Savings by part, largest first."""

    span_ns: int
    savings: tuple[Saving, ...]

    def of(self, part: str) -> Saving | None:
        """Return a part's saving; None where the trace holds none of it."""
        return next((saving for saving in self.savings if saving.part == part), None)


def what_if(trace: LinkedTrace) -> WhatIf:
    """Replay a trace without each of its parts in turn."""
    replay = Replay(trace)
    held = replay.part_ns
    host, device, delay = held["host"], held["device"], held["delay"]
    cases = {
        "host": (sum(host.values()), Left(activity=dict.fromkeys(host, 0.0))),
        "device": (sum(device.values()), Left(category=dict.fromkeys(device, 0.0))),
        "launch_latency": (delay["launch_latency"], Left(launch_latency=0.0)),
        "queue": (delay["queue"], Left(queue=0.0)),
        "sync": (delay["sync"], Left(waits=False)),
        **{f"host/{name}": (ns, Left(activity={name: 0.0})) for name, ns in host.items()},
        **{f"device/{name}": (ns, Left(category={name: 0.0})) for name, ns in device.items()},
    }
    savings = []
    for part, (part_ns, left) in cases.items():
        if part_ns:
            span = replay.run(left)
            savings.append(Saving(part, part_ns, span, replay.span_ns - span))
    savings.sort(key=lambda saving: (-saving.saved_ns, saving.part))
    return WhatIf(replay.span_ns, tuple(savings))
