import pytest
from msgspec.structs import replace
from rule_cases import MS, span

from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.function_calls import FUNCTIONS_NOTE, FunctionNotes
from lightning_gpuprof.records.module_calls import CallPlace
from lightning_gpuprof.records.schema import Device, Note
from lightning_gpuprof.records.slices import TakenApart

PHASES = {"forward": 4 * MS, "backward": 6 * MS}
PLACE = CallPlace("train.py", 27, "forward", "h = self.cell(x[:, t], h)")
APART = TakenApart(72, 1, 700_000, 1, single=True, with_ns=4 * MS, without_ns=MS, places=(PLACE,))
NODES = [
    {
        "name": f"autograd::engine::evaluate_function: {name}Backward0",
        "count": 144,
        "device_total_ns": 3 * MS,
    }
    for name in ("Select", "Slice")
]


@pytest.fixture
def told(judge):
    def told(*apart, **options):
        note = Note(step=1, name=FUNCTIONS_NOTE, value=FunctionNotes(apart=apart))
        return judge("slow-slice-backward", PHASES, records=[note], **options)

    return told


def test_slices_are_told_by_what_the_trial_showed(told):
    (finding,) = told(APART)
    assert "72 slices are taken of a tensor one by one" in finding.title
    assert "3.00 ms (30.0% of the step)" in finding.title
    assert span(finding) == (1_050_000, 4_200_000)
    assert finding.severity is Severity.CRITICAL
    assert finding.where[0].line == 27
    assert finding.change == "for part in x.unbind(1):  # in place of x[:, i], for each i"


def test_wider_ones_are_split(told):
    (finding,) = told(replace(APART, single=False, tensors=3, dim=2))
    assert "of 3 tensors" in finding.title
    assert finding.change.startswith("parts = x.split(sizes, 2)  # in place of x[:, :, i:j]")


def test_what_costs_little_is_not(told):
    assert told(replace(APART, with_ns=1_090_000)) == ()
    assert told(replace(APART, with_ns=MS - 1)) == ()


def test_on_a_gpu_their_nodes_time_is_shared_out(told):
    document = {"operators": NODES, "gpu": {}, "steps": [{"dur_ns": 10 * MS}] * 2}
    here = replace(APART, with_ns=None, without_ns=None)
    small = replace(here, slices=24)
    found = told(here, small, device=Device(type="cuda"), trace=document)
    # 3 ms a step, of which the line with three times as many slices has three quarters.
    assert [one.evidence["slice_backward_ns"] for one in found] == [2_250_000, 750_000]


def test_on_a_gpu_without_a_trace_nothing_is_known(told):
    assert told(replace(APART, with_ns=None, without_ns=None), device=Device(type="cuda")) == ()
