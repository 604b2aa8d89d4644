import pytest
from rule_cases import MS, US, WORK, op, span

from lightning_gpuprof.findings.model import Abstained, Severity
from lightning_gpuprof.records.backend import BACKEND_NOTE, BackendOff
from lightning_gpuprof.records.module_calls import CallPlace
from lightning_gpuprof.records.schema import Device, Note

PLACE = CallPlace("train.py", 7, "", "torch.backends.mkldnn.enabled = False")
TRACE = {
    "operators": [op("aten::convolution", 6, 2 * MS), op("aten::convolution_backward", 6, 4 * MS)]
}
"""3 ms per step are convolutions."""


@pytest.fixture
def look(judge):
    def looked(*found, **options):
        notes = [Note(step=1, name=BACKEND_NOTE, value=one) for one in found]
        return judge("backend-disabled", WORK, records=notes, **options)

    return looked


def test_layers_that_were_tried_both_ways_save_what_the_trial_says(look):
    tried = BackendOff("mkldnn", PLACE, calls=3, as_set_ns=4 * MS, enabled_ns=1 * MS)
    finding = look(BackendOff("mkldnn", PLACE), tried)
    assert finding.title == (
        "torch.backends.mkldnn.enabled is False: 3 layers of a step take 4.00 ms without oneDNN, "
        "and 1.00 ms with it"
    )
    assert (finding.where[0].file, finding.where[0].line) == ("train.py", 7)
    assert span(finding) == (2_100 * US, 4_200 * US)
    assert finding.severity is Severity.CRITICAL


def test_layers_that_are_no_faster_with_it_are_left_as_they_are(look):
    assert look(BackendOff("mkldnn", PLACE, 3, as_set_ns=1 * MS, enabled_ns=2 * MS)) is None


def test_without_a_trial_all_that_convolutions_take_is_the_most(look):
    finding = look(BackendOff("mkldnn"), trace=TRACE)
    assert finding.title == (
        "torch.backends.mkldnn.enabled is False: convolutions take 3.00 ms of each step without "
        "oneDNN"
    )
    assert span(finding) == (0, 3 * MS)
    assert finding.where[0].name == "torch.backends.mkldnn.enabled"


def test_on_a_gpu_it_is_the_devices_time_that_counts(look):
    rows = [{**row, "device_total_ns": 1 * MS} for row in TRACE["operators"]]
    finding = look(BackendOff("cudnn"), trace={"operators": rows}, device=Device(type="cuda"))
    assert span(finding) == (0, 1 * MS)
    assert "cuDNN" in finding.title


def test_without_convolutions_there_is_nothing_to_tell(look):
    assert look(BackendOff("mkldnn"), trace={"operators": [op("aten::mm", 2, 1 * MS)]}) is None
    assert isinstance(look(BackendOff("mkldnn")), Abstained)


def test_a_backend_that_is_on_is_no_finding(judge):
    assert judge("backend-disabled", WORK, trace=TRACE) is None


def test_without_steps_it_abstains(judge):
    assert isinstance(judge("backend-disabled", {}, steps=0), Abstained)
