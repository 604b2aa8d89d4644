"""How much of a profiler window was no training: validation, checkpoints, other callbacks."""

from lightning_gpuprof.records.phases import OWN_CALLBACKS, Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import OutsideSpan, ProfilerCycle

OTHERS = (Phase.VALIDATION, Phase.CHECKPOINT, Phase.CALLBACKS)
MIN_FRAC = 0.01
"""Less of the window is not worth a word."""
_OWN = [f"{Phase.CALLBACKS.value}/{name}" for name in OWN_CALLBACKS]


def others_ns(session: Session, cycle: ProfilerCycle) -> dict[Phase, int]:
    """Return the time of each that took a share worth a word, between its first and last step."""
    columns = session.columns
    if "step" not in columns:
        return {}
    inside = (columns["step"] >= cycle.first_step) & (columns["step"] <= cycle.last_step)
    if not inside.any():
        return {}
    start, dur = columns["start_ns"][inside], columns["dur_ns"][inside]
    begin_ns, end_ns = int(start[0]), int(start[-1] + dur[-1])
    between = [
        one
        for one in session.all(OutsideSpan)
        if not one.steps and begin_ns <= one.start_ns < end_ns
    ]

    def spent_ns(name: str) -> int:
        phase, part = columns.get(f"phase/{name}"), columns.get(f"part/{name}")
        in_steps = sum(int(each[inside].sum()) for each in (phase, part) if each is not None)
        return in_steps + sum(one.phase_ns.get(name, one.part_ns.get(name, 0)) for one in between)

    found = {phase: spent_ns(phase.value) for phase in OTHERS}
    found[Phase.CALLBACKS] -= sum(map(spent_ns, _OWN))
    return {phase: ns for phase, ns in found.items() if ns >= MIN_FRAC * (end_ns - begin_ns)}
