from types import SimpleNamespace

import numpy as np
import pytest

from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import StepFlag
from lightning_gpuprof.timing.overhead import MOST_APART, Overhead
from lightning_gpuprof.timing.phase_clock import Slot
from lightning_gpuprof.timing.windows import SlotTable, Window


def window(*, hooks_ns, inside_ns=0, steps=200, step_ns=1_000_000):
    own_ns = [hooks_ns] * steps
    return SimpleNamespace(
        own_ns=[*own_ns[1:], hooks_ns + inside_ns] if steps else [],
        count=200,
        plain_count=steps,
        plain_ns=steps * step_ns,
    )


def cost_of(*, hooks_ns, boundaries=20, budget=0.005, **options):
    cost = Overhead(budget)
    cost.add(window(hooks_ns=hooks_ns, **options))
    cost.boundaries = 200 * boundaries
    return cost


def test_the_cost_is_hooks_and_boundaries():
    assert cost_of(hooks_ns=3_000).ns_per_step() == 3_000 + 20 * 100


def test_what_marks_cost_is_spread_over_the_steps_without_them():
    cost = cost_of(hooks_ns=3_000)
    cost.add_untimed(600)

    assert cost.ns_per_step() == 3_000 + 20 * 100 / 4


def test_a_write_is_a_price_of_marks():
    cost = Overhead(0.005)
    for _ in range(3):
        cost.add(window(hooks_ns=3_000, inside_ns=200_000))
        cost.add_write(200_000)
    cost.add_untimed(600)

    assert cost.ns_per_step() == 3_000 + 1_000 / 2


def test_what_opens_files_once_or_a_neighbour_takes_is_no_steady_cost():
    cost = Overhead(0.005)
    for hooks_ns, took_ns in ((90_000, 30_000_000), (3_000, 200_000), (3_500, 300_000)):
        cost.add(window(hooks_ns=hooks_ns))
        cost.add_write(took_ns)

    assert cost.ns_per_step() == 3_500 + 200_000 / 200


def test_nothing_is_claimed_where_every_step_was_profiled():
    cost = cost_of(hooks_ns=0, steps=0)

    assert cost.ns_per_step() is None
    assert cost.spacing() is None


@pytest.mark.parametrize(
    ("hooks_ns", "boundaries", "every"),
    [(3_000, 20, 1), (3_001, 20, 2), (3_000, 60, 3), (0, 60, 2), (5_000, 20, MOST_APART)],
)
def test_steps_are_marked_as_often_as_the_budget_allows(hooks_ns, boundaries, every):
    assert cost_of(hooks_ns=hooks_ns, boundaries=boundaries).spacing() == every


def test_what_is_looked_at_once_or_profiled_is_no_steady_cost():
    flags = [StepFlag.WARMUP, StepFlag.WATCHED, StepFlag.PROFILED, 0, StepFlag.VALIDATION]
    facts = [[step, 0, step, 1, 8, int(flag), 0, 1_000] for step, flag in enumerate(flags)]
    charged = [[100, 900], [100, 900], [300, 700], [990, 10], [980, 20]]
    slots = [Slot(Phase.OTHER), Slot(Phase.CALLBACKS, "Ours")]

    window = Window(np.array(facts), np.array(charged), SlotTable(slots, {"Ours"}), origin_ns=0)

    assert (window.plain_count, window.plain_ns, window.own_ns) == (2, 2_000, [10, 20])


def test_what_lies_in_other_phases_is_the_logging_of_boundaries():
    cost = cost_of(hooks_ns=3_000)
    assert cost.timing_ns_per_step() == 20 * 100
    cost.add_untimed(600)
    assert cost.timing_ns_per_step() == 20 * 100 / 4
    assert cost_of(hooks_ns=0, steps=0).timing_ns_per_step() is None


def test_all_of_this_packages_callbacks_are_one_part_of_a_record_however_short():
    slots = [
        Slot(Phase.OTHER),
        Slot(Phase.CALLBACKS, "PhaseTimer"),
        Slot(Phase.CALLBACKS, "ProfilerSchedule"),
        Slot(Phase.CALLBACKS, "EMA"),
    ]
    facts = np.array(
        [[step, 0, step, 1, 8, 0, step * 10**6, (step + 1) * 10**6] for step in (0, 1)]
    )
    charged = np.array([[10**6 - 305, 3, 2, 300]] * 2)
    table = SlotTable(slots, ("PhaseTimer", "ProfilerSchedule"))
    columns = Window(facts, charged, table, origin_ns=0).record().columns
    assert [name for name in columns if name.startswith("part/")] == [
        "part/callbacks/GpuProfCallback"
    ]
    assert columns["part/callbacks/GpuProfCallback"].unpack().tolist() == [5, 5]
