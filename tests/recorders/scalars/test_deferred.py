import math
import struct

import pytest
import torch

from lightning_gpuprof.recorders.scalars.deferred import DeferredScalars
from lightning_gpuprof.recorders.scalars.scalar_log import ScalarBatch, ScalarLog
from lightning_gpuprof.recorders.scalars.transfer import HostCopy

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.bool]


class LateCopy:
    """A copy that arrives when the test says so."""

    def __init__(self, values):
        self.values = values.clone()
        self.arrived = False

    def ready(self):
        return self.arrived

    def result(self):
        self.arrived = True
        return self.values


class LateTransfer:
    def __init__(self):
        self.copies = []

    def __call__(self, values):
        self.copies.append(LateCopy(values))
        return self.copies[-1]


def bits(number):
    return struct.pack("<d", number)


def filled(*steps, transfer=HostCopy):
    """Return a log with one closed window of these steps' values."""
    log = ScalarLog(list({name: None for values in steps for name in values}), transfer=transfer)
    for step, values in enumerate(steps):
        log.add(step, values)
    log.close_window()
    return log


def losses(*values):
    (batch,) = filled(*({"loss": value} for value in values)).arrived()
    return batch.values["loss"]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_are_bit_for_bit_what_item_gives(dtype):
    torch.manual_seed(0)
    values = [(torch.randn(()) * 100).to(dtype) for _ in range(20)]
    assert [bits(v) for v in losses(*values)] == [bits(float(v.item())) for v in values]


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf, -0.0, 5e-324])
def test_special_values_survive(special):
    assert bits(losses(torch.tensor(special, dtype=torch.float64))[0]) == bits(special)


def test_steps_without_a_value_stay_absent():
    log = filled({"loss": torch.tensor(1.0)}, {"loss": None, "kl": 2}, {})
    values = {"loss": [1.0, None, None], "kl": [None, 2.0, None]}
    assert log.arrived() == [ScalarBatch(steps=[0, 1, 2], values=values)]


def test_a_window_costs_one_transfer_and_is_read_when_it_and_those_before_it_have_arrived():
    transfer = LateTransfer()
    log = filled({"loss": torch.tensor(0.0), "kl": torch.tensor(10)}, transfer=transfer)
    log.add(1, {"loss": torch.tensor(1.0), "kl": torch.tensor(20)})
    log.close_window()
    assert len(transfer.copies) == 2
    transfer.copies[1].arrived = True
    assert log.arrived() == []
    transfer.copies[0].arrived, transfer.copies[1].arrived = True, False
    assert [batch.steps for batch in log.arrived()] == [[0]]
    assert [batch.values["kl"] for batch in log.drain()] == [[20.0]]
    assert log.drain() == []


def test_values_with_a_graph_in_inference_mode_and_of_any_shape_mix():
    weight = torch.ones(1, requires_grad=True)
    with torch.inference_mode():
        inference = torch.tensor(1.0)
    assert losses((weight * 2).sum(), inference, torch.full((1, 1), 0.5)) == [2.0, 1.0, 0.5]


@pytest.mark.parametrize(
    ("value", "error", "says"),
    [
        (torch.tensor(1j), TypeError, "complex"),
        (1j, TypeError, "neither a number"),
        ("0.5", TypeError, "neither a number"),
        (torch.zeros(3), ValueError, r"shape \(3,\)"),
        (torch.zeros(0), ValueError, "only record a single value"),
    ],
)
def test_what_is_no_single_number_is_refused_by_name(value, error, says):
    with pytest.raises(error, match=f"'kl'.*{says}"):
        ScalarLog(["kl"]).add(0, {"kl": value})
    with pytest.raises(error, match=f"'kl'.*{says}"):
        DeferredScalars()["kl"] = value


def test_a_sum_is_bit_for_bit_the_sum_of_items():
    torch.manual_seed(1)
    values = [torch.randn(()) for _ in range(100)]
    acc, expected = DeferredScalars(), 0.0
    for value in values:
        acc["loss"] += value
        expected += value.item()
    assert bits(acc.result()["loss"]) == bits(expected)


def test_a_dict_of_sums_replaces_a_dict_of_floats():
    acc = DeferredScalars("recon")
    for step in range(3):
        acc["kl"] += torch.tensor(step, dtype=torch.bfloat16)
        acc["beta"] += 0.5
    assert acc.result() == {"recon": 0.0, "kl": 3.0, "beta": 1.5}
    acc.reset()
    assert acc.result() == {"recon": 0.0, "kl": 0.0, "beta": 0.0}
    assert list(acc) == ["recon", "kl", "beta"]


def test_sums_compile_without_a_graph_break():
    torch._dynamo.reset()
    acc = DeferredScalars()

    @torch.compile(fullgraph=True, backend="aot_eager")
    def step(x, weight):
        loss = (x * weight).sum()
        acc["kl"] += loss
        acc["same"] += loss
        return loss

    weight = torch.ones(3, requires_grad=True)
    expected = 0.0
    for _ in range(4):
        loss = step(torch.randn(3), weight)
        loss.backward()
        expected += loss.item()
    assert acc.result() == {"kl": expected, "same": expected}


def test_a_loss_that_every_rank_holds_whole_is_kept_and_parts_of_one_are_refused(mesh):
    from torch.distributed.tensor import DTensor, Partial, Replicate

    whole = DTensor.from_local(torch.tensor(0.5), mesh, [Replicate()])
    part = DTensor.from_local(torch.tensor(0.5), mesh, [Partial()])
    refused = []
    log = ScalarLog(["loss", "norm"], refuse=lambda *why: refused.append(why))

    log.add(0, {"loss": whole, "norm": part})
    log.add(1, {"loss": torch.tensor(2.0)}, {"loss": whole.detach()})

    [batch] = log.drain()
    assert batch.values == {"loss": [0.5, 0.5], "norm": [None, None]}
    [(name, error)] = refused
    assert name == "norm"
    assert "Return its .full_tensor()" in str(error)
