"""What shortening a part of the work would save, found by replaying the trace without it.

The critical path's share of a part is only the most that could be saved: once it is shorter,
something else holds the trace up. The replay counts that in.
"""

from dataclasses import dataclass

from lightning_gpuprof.analysis.critical_path.replay import Left, Replay
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace


@dataclass(frozen=True)
class Saving:
    """What a trace would last with one part of it shortened.

    Args:
        part: `host` or `device` (all of it), `host/<activity>`, `device/<category>`,
            `launch_latency` (launch to start, where the device waited for it), `queue` (between
            device events that follow each other) or `sync` (the host never waits).
        part_ns: How much of it the trace holds.
        span_ns: How long the trace would last.
        saved_ns: By how much that is shorter.
    """

    part: str
    part_ns: int
    span_ns: int
    saved_ns: int


@dataclass(frozen=True)
class WhatIf:
    """Savings by part, largest first.

    Args:
        span_ns: How long the trace lasts.
        share: The share of each part that is taken away, 1 for all of it.
        savings: By part; `host` alone gone shows the time that the device takes at least,
            `device` alone gone that of the host.
    """

    span_ns: int
    share: float
    savings: tuple[Saving, ...]

    def of(self, part: str) -> Saving | None:
        """Return a part's saving; None where the trace holds none of it."""
        return next((saving for saving in self.savings if saving.part == part), None)


def what_if(trace: LinkedTrace, *, share: float = 1.0) -> WhatIf:
    """Replay a trace with each of its parts shortened in turn.

    Args:
        trace: The trace.
        share: Share of the part that is taken away, above 0, at most 1. Waits are taken away
            wholly or not at all.
    """
    if not 0 < share <= 1:
        raise ValueError(f"what_if(share={share}) must lie above 0 and be at most 1.")
    replay = Replay(trace)
    left = 1.0 - share
    held = replay.part_ns
    host, device, delay = held["host"], held["device"], held["delay"]
    cases = {
        "host": (sum(host.values()), Left(activity=dict.fromkeys(host, left))),
        "device": (sum(device.values()), Left(category=dict.fromkeys(device, left))),
        "launch_latency": (delay["launch_latency"], Left(launch_latency=left)),
        "queue": (delay["queue"], Left(queue=left)),
        "sync": (delay["sync"], Left(waits=False)),
        **{f"host/{name}": (ns, Left(activity={name: left})) for name, ns in host.items()},
        **{f"device/{name}": (ns, Left(category={name: left})) for name, ns in device.items()},
    }
    savings = []
    for part, (part_ns, shortened) in cases.items():
        if part_ns:
            span = replay.run(shortened)
            savings.append(Saving(part, part_ns, span, replay.span_ns - span))
    savings.sort(key=lambda saving: (-saving.saved_ns, saving.part))
    return WhatIf(replay.span_ns, share, tuple(savings))
