import pytest
from rule_cases import MS, span

from lightning_gpuprof.findings.model import Abstained, Severity
from lightning_gpuprof.records.notes import UNUSED_NOTE, UnusedGradients
from lightning_gpuprof.records.schema import Device, Note

PHASES = {"forward": 5 * MS, "backward": 10 * MS}


def unused(**changes):
    values = {
        "tensors": 4,
        "parameters": 300,
        "all_parameters": 400,
        "stepped": False,
        "modules": ("teacher",),
        "sure_frac": 0.5,
        "maybe_frac": 0.0,
    }
    return [Note(step=9, name=UNUSED_NOTE, value=UnusedGradients(**{**values, **changes}))]


def test_a_teacher_that_no_optimizer_holds_is_named_with_what_its_gradients_take(judge):
    finding = judge("unused-gradients", PHASES, records=unused())
    assert finding.severity is Severity.CRITICAL
    assert "self.teacher are computed and never stepped on (50.0%" in finding.title
    assert finding.change == "self.teacher.requires_grad_(False)"
    assert span(finding) == (4 * MS, 6 * MS)


def test_gradients_on_the_way_to_used_ones_save_about_one_product_of_two(judge):
    records = unused(sure_frac=0.0, maybe_frac=0.5, stepped=True, modules=("critic",))
    finding = judge("unused-gradients", PHASES, records=records)
    assert span(finding) == (2 * MS, 6 * MS)
    assert "toggle_optimizer" in finding.change


def test_a_frozen_judge_still_hands_the_gradient_on_to_what_is_trained(judge):
    records = unused(sure_frac=0.0, maybe_frac=0.5, through=True, modules=("vgg.0",))
    finding = judge("unused-gradients", PHASES, records=records)
    # Under no_grad the generator would be trained by nothing.
    assert "no_grad" not in finding.advice + finding.change
    assert finding.change == "self.vgg[0].requires_grad_(False)"
    assert "25.0% of backward" in finding.title
    assert span(finding) == (2 * MS, 3 * MS)


def test_of_a_module_that_is_trained_in_part_the_other_parts_are_frozen(judge):
    parts = tuple(f"net.layer{i}" for i in range(10))
    change = judge("unused-gradients", PHASES, records=unused(modules=parts[:2])).change
    assert change == (
        "for part in (self.net.layer0, self.net.layer1):\n    part.requires_grad_(False)"
    )
    assert (
        "# and 2 more\n" in judge("unused-gradients", PHASES, records=unused(modules=parts)).change
    )


def test_a_model_that_the_others_loss_goes_back_into_is_to_be_detached(judge):
    finding = judge("unused-gradients", PHASES, records=unused(stepped=True))
    assert "cleared before a step" in finding.title
    assert finding.change.startswith("self.teacher(...).detach()")


def test_on_a_gpu_the_hosts_clock_gives_no_low_bound(judge):
    finding = judge("unused-gradients", PHASES, records=unused(), device=Device(type="cuda"))
    assert span(finding) == (0, 6 * MS)


def test_without_times_the_parameters_share_is_the_most(judge):
    records = unused(sure_frac=None, maybe_frac=None)
    assert span(judge("unused-gradients", PHASES, records=records)) == (0, 7_500_000)


@pytest.mark.parametrize("records", [[], [Note(step=9, name=UNUSED_NOTE, value="torn")]])
def test_is_silent_where_nothing_was_noted(judge, records):
    assert judge("unused-gradients", PHASES, records=records) is None


def test_abstains_without_a_backward_pass(judge):
    assert isinstance(judge("unused-gradients", {}, steps=0), Abstained)
