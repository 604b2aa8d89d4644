import numpy as np

from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import StepFlag
from lightning_gpuprof.timing.phase_clock import Slot
from lightning_gpuprof.timing.windows import untimed_span


def facts(durations, flags=None):
    ends = np.cumsum(durations)
    rows = [
        [step, 0, step, 8, 64, (flags or {}).get(step, 0), end - took, end]
        for step, (took, end) in enumerate(zip(durations, ends, strict=True))
    ]
    return np.array(rows, dtype=np.int64)


def span(durations, **options):
    charged = np.zeros((len(durations), 1), dtype=np.int64)
    return untimed_span(facts(durations, options.pop("flags", None)), charged,
                        [Slot(Phase.OTHER)], origin_ns=0, **options)  # fmt: skip


def test_long_steps_that_are_not_timed_by_phase_are_recorded():
    recorded = span([100, 100, 900, 100, 110, 800, 100])
    assert (recorded.long_steps, recorded.long_ns) == ([2, 5], [900, 800])


def test_steps_that_are_long_for_a_known_reason_are_not():
    flags = {2: int(StepFlag.VALIDATION), 5: int(StepFlag.PROFILED)}
    assert not span([100, 100, 900, 100, 110, 800, 100], flags=flags).long_steps


def test_the_step_in_which_windows_were_written_is_not():
    assert span([500, 100, 100, 900, 100], written_step=0).long_steps == [3]
