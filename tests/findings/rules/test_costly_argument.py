import pytest
from rule_cases import MS, US, WORK, span

from lightning_gpuprof.adapters.arguments import ASKED_FOR
from lightning_gpuprof.findings.rules.costly_argument import BY_NAME
from lightning_gpuprof.records.lines import ArgumentCount, HostLines, LineCount

CLIPPING = {**WORK, "clip_gradients": 2 * MS}
OWN = LineCount("clip_gradients", "train.py", 9, "clip", "norm = g.norm()", None, "torch", 20)


def sampled(argument, count, phase="forward", *, whole=100):
    return HostLines(200, (), {phase: whole}, arguments=(ArgumentCount(phase, argument, count),))


def test_clipping_that_the_trainer_was_asked_for_names_its_argument(evaluate):
    [finding] = evaluate(CLIPPING, trainer={"gradient_clip_val": 0.5})
    assert finding.title == ("Trainer(gradient_clip_val=0.5) takes 2.00 ms of each step (17%)")
    assert span(finding) == (0, 2 * MS)
    assert finding.places[0].name == "gradient_clip_val"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {
            "trainer": {"gradient_clip_val": 0.5},
            "records": [HostLines(50, (OWN,), {"clip_gradients": 20})],
        },
    ],
)
def test_clipping_by_the_programs_own_hook_is_not_the_arguments(evaluate, options):
    assert evaluate(CLIPPING, **options) == ()


def test_the_walk_for_unused_parameters_is_found_by_its_samples(evaluate):
    asked = {"trainer": {"find_unused_parameters": True}}
    [finding] = evaluate(WORK, records=[sampled("find_unused_parameters", 20)], **asked)
    assert finding.evidence["argument_ns"] == 1200 * US
    assert span(finding)[0] > 0
    assert evaluate(WORK, records=[sampled("find_unused_parameters", 20)]) == ()


def test_a_few_samples_are_not_reported(evaluate):
    assert evaluate(WORK, records=[sampled("pin_memory", 2)]) == ()
    assert evaluate(WORK, records=[sampled("pin_memory", 30)])[0].change.endswith("=False)")


def test_there_is_advice_on_each_argument_that_can_be_sampled():
    assert {asked.argument for asked in ASKED_FOR} == set(BY_NAME)
