from types import SimpleNamespace

import pytest

from lightning_gpuprof.callbacks import own_cost
from lightning_gpuprof.callbacks.own_cost import OwnCost


@pytest.fixture(autouse=True)
def boundary_ns(monkeypatch):
    monkeypatch.setattr(own_cost, "boundary_cost_ns", lambda: 100.0)


def window(*, own_ns, steps=200, step_ns=1_000_000, stall_ns=0):
    return SimpleNamespace(
        own_ns=own_ns, plain_count=steps, plain_ns=steps * step_ns, profiled_own_ns=stall_ns
    )


def test_the_cost_is_windows_and_boundaries_without_the_profilers_stalls():
    cost = OwnCost(0.005)
    cost.add(window(own_ns=200 * 3_000, stall_ns=9_000_000))

    assert cost.ns_per_step(20.0) == 3_000 + 20 * 100
    assert cost.profiler_stall_ns == 9_000_000


def test_nothing_is_claimed_where_every_step_was_profiled():
    cost = OwnCost(0.005)
    cost.add(window(own_ns=0, steps=0, stall_ns=5))

    assert cost.ns_per_step(20.0) is None
    assert cost.over_budget(20.0) is None


def test_a_cost_over_budget_is_said_once():
    cost = OwnCost(0.005)
    cost.add(window(own_ns=200 * 3_001))

    message = cost.over_budget(20.0)

    assert message is not None
    assert "overhead_budget=0.5%" in message
    assert cost.over_budget(20.0) is None


@pytest.mark.parametrize(("own_ns", "steps"), [(200 * 3_000, 200), (199 * 90_000, 199)])
def test_a_cost_within_budget_or_of_few_steps_is_not_spoken_of(own_ns, steps):
    cost = OwnCost(0.005)
    cost.add(window(own_ns=own_ns, steps=steps))

    assert cost.over_budget(20.0) is None
