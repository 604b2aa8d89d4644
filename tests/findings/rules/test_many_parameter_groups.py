"""Optimizers with a group for each parameter."""

import pytest
from rule_cases import MS, span

from lightning_gpuprof.findings.model import Abstained, Severity
from lightning_gpuprof.records.schema import Device

PHASES = {"forward": 4 * MS, "optimizer_step": 6 * MS}


@pytest.fixture
def look(judge):
    def looked(groups, settings, *, device=None, phases=PHASES, **more):
        model = {"optimizers": [{"class": "AdamW", "groups": groups, "settings": settings} | more]}
        options = {} if device is None else {"device": device}
        return judge("many-parameter-groups", phases, model=model, **options)

    return looked


def test_a_group_for_each_parameter_is_told_with_how_many_would_do(look):
    (finding,) = look(110, 10, fused=True)
    assert finding.title == (
        "AdamW updates 110 parameter groups one after the other, though they have only 10 "
        "different settings"
    )
    assert span(finding) == (800_000, 2_600_000)
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize(
    ("how", "saved"), [({}, (300_000, 1_300_000)), ({"foreach": True}, (3_000_000, 4_500_000))]
)
def test_what_a_group_costs_depends_on_how_it_is_updated(look, how, saved):
    (finding,) = look(110, 10, **how)
    assert span(finding) == saved


def test_on_a_gpu_launches_may_be_hidden(look):
    (finding,) = look(110, 10, device=Device(type="cuda"))
    assert span(finding) == (0, 4_500_000)


def test_batches_without_an_optimizers_step_save_nothing(look):
    fourth = [6 * MS if step % 4 == 3 else 0 for step in range(100)]
    (finding,) = look(110, 10, fused=True, phases=PHASES | {"optimizer_step": fourth})
    assert span(finding) == (200_000, 650_000)


def test_no_more_goes_than_the_optimizers_step_takes(look):
    (finding,) = look(310, 10, fused=True)
    assert span(finding) == (2_400_000, 6 * MS)


@pytest.mark.parametrize(("groups", "settings"), [(7, 1), (30, 16), (2, 2)])
def test_a_few_groups_or_ones_that_differ_are_as_they_should_be(look, groups, settings):
    assert look(groups, settings) == ()


def test_abstains_where_groups_are_not_known(judge):
    assert isinstance(judge("many-parameter-groups", PHASES), Abstained)
