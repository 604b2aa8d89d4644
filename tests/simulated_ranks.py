"""Ranks that train together, simulated: what each works, when they meet, and how long each waits.

Every rank works through its phases; the gradients are exchanged when the last rank has its own.
Work scatters, and interruptions strike any phase in proportion to its length, as another process on
the same cores does. Times are in ms here, and in ns in the sessions.
"""

import numpy as np

from lightning_gpuprof.records.phases import EXCHANGE, Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import SCHEMA_VERSION, Device, RunStart

MS = 1_000_000
MEMORY = 0.9
"""The correlation of a rank's pace with that in the step before, where it drifts."""
BEFORE = ("data_wait", "host_to_device", "forward", "backward")
AFTER = ("optimizer_step", "callbacks", "logging", "other")
WORK = {
    "data_wait": 0.8,
    "host_to_device": 0.1,
    "forward": 5.0,
    "backward": 7.0,
    "optimizer_step": 2.0,
    "callbacks": 0.4,
    "logging": 0.1,
    "other": 0.3,
}
"""Mean work by phase, in ms."""


def simulate(
    seed,
    ranks=2,
    steps=300,
    *,
    late=(),
    phase=None,
    more_ms=0.0,
    every=1,
    scatter=0.05,
    interrupted_per_ms=0.02,
    interruption_ms=4.0,
    drift=0.0,
    own_ms=(),
    untold_ms=(),
):
    """Return the sessions of ranks that train together.

    Args:
        seed: Of all that is random.
        ranks: How many there are.
        steps: How many each takes.
        late: Ranks that work longer.
        phase: The phase in which they do.
        more_ms: By how much.
        every: In one step of so many.
        scatter: Standard deviation of a phase's work, as a share of it.
        interrupted_per_ms: How often a rank is interrupted.
        interruption_ms: How long on average.
        drift: Standard deviation of a rank's pace, which changes over some ten steps.
        own_ms: By rank, what `GpuProfCallback` takes within `callbacks`.
        untold_ms: By rank, the mean of a wait in the exchange that no rank's work causes.
    """
    random = np.random.default_rng(seed)
    pace = np.ones((ranks, steps))
    if drift:
        noise = random.normal(0, drift * np.sqrt(1 - MEMORY**2), (ranks, steps))
        level = random.normal(0, drift, ranks)
        for step in range(steps):
            level = MEMORY * level + noise[:, step]
            pace[:, step] = np.exp(level)
    work = {}
    for name, mean_ms in WORK.items():
        times = mean_ms * pace * random.gamma(1 / scatter**2, scatter**2, (ranks, steps))
        hits = random.poisson(interrupted_per_ms * mean_ms, (ranks, steps))
        times += random.gamma(np.maximum(hits, 1e-9), interruption_ms) * (hits > 0)
        work[name] = times
    longer = np.arange(steps) % every == every // 2
    for rank in late:
        work[phase][rank] += more_ms * longer
    own = np.zeros((ranks, steps))
    for rank, own_of_rank in enumerate(own_ms):
        own[rank] = random.gamma(2, own_of_rank / 2, steps)
    after = sum(work[name] for name in AFTER) + own
    before = sum(work[name] for name in BEFORE)
    since_meeting = before + np.roll(after, 1, axis=1)
    since_meeting[:, 0] -= after[:, -1]
    exchange = 1.0 + since_meeting.max(axis=0) - since_meeting
    for rank, wait_ms in enumerate(untold_ms):
        exchange[rank] += random.exponential(wait_ms, steps) if wait_ms else 0.0
    work["backward"] = work["backward"] + exchange
    work["callbacks"] = work["callbacks"] + own
    sessions = {}
    for rank in range(ranks):
        phases = {name: times[rank] for name, times in work.items()}
        parts = {
            f"backward/{EXCHANGE}": exchange[rank],
            "callbacks/GpuProfCallback": own[rank],
        }
        sessions[rank] = _session(rank, ranks, phases, parts)
    return sessions


def _session(rank, ranks, phases, parts):
    columns = {f"phase/{name}": _ns(times) for name, times in phases.items()}
    dur = sum(columns.values())
    columns |= {f"part/{name}": _ns(times) for name, times in parts.items()}
    columns |= {"step": np.arange(len(dur)), "dur_ns": dur, "start_ns": np.cumsum(dur) - dur}
    start = RunStart(
        schema_version=SCHEMA_VERSION,
        session=0,
        stage="fit",
        started_unix_ns=0,
        rank=rank,
        world_size=ranks,
        host="a-host",
        device=Device(type="cpu"),
        phases=[phase.value for phase in Phase],
    )
    return Session(start, (), columns)


def _ns(times_ms):
    return np.round(times_ms * MS).astype(np.int64)
