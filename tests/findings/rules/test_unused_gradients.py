import pytest
from rule_cases import MS, span

from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.facts import UnusedGradients

PHASES = {"forward": 5 * MS, "backward": 10 * MS}


@pytest.fixture
def unused(evaluate):
    """Return the finding of an inspection that found so many of 400 parameters unused."""

    def judged(*modules, parameters=300):
        value = UnusedGradients(4, parameters, 400, modules)
        return evaluate(PHASES, records=[value])

    return judged


def test_a_teacher_that_no_optimizer_holds_saves_its_share_of_backward_at_most(unused):
    finding = unused("teacher.0")
    assert finding.severity is Severity.INFO
    assert finding.title == "Gradients of self.teacher[0] are computed, but no optimizer uses them"
    assert finding.change == "self.teacher[0].requires_grad_(False)"
    assert span(finding) == (0, 7_500_000)


def test_only_the_untrained_parts_of_a_module_are_frozen(unused):
    parts = tuple(f"net.layer{i}" for i in range(10))
    assert unused(*parts[:2]).change == (
        "for part in (self.net.layer0, self.net.layer1):\n    part.requires_grad_(False)"
    )
    assert "# and 2 more\n" in unused(*parts).change


def test_is_silent_without_unused_gradients(evaluate):
    assert evaluate(PHASES) is None
