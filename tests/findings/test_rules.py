import inspect
import re
from math import hypot
from pathlib import Path
from types import SimpleNamespace

import pytest

from lightning_gpuprof.findings import RULES, runner
from lightning_gpuprof.findings.model import Finding, Range, Severity
from lightning_gpuprof.findings.runner import evaluate_rules, load_rule
from lightning_gpuprof.records.schema import Loader, Note, StepFlag

HEADINGS = ["What it measures", "Why it matters", "What to do", "Thresholds"]


@pytest.mark.parametrize("finding_id", RULES)
class TestEveryRule:
    def test_is_named_like_its_file(self, finding_id):
        rule = load_rule(finding_id)
        assert finding_id == rule.ID == Path(rule.__file__).stem.replace("_", "-")

    def test_documents_itself_under_the_same_headings_in_order(self, finding_id):
        assert re.findall(r"^## (.+)$", load_rule(finding_id).__doc__, re.MULTILINE) == HEADINGS

    def test_explains_others_that_there_are(self, finding_id):
        assert set(getattr(load_rule(finding_id), "EXPLAINS", ())) <= set(RULES) - {finding_id}

    def test_is_silent_on_an_empty_run(self, finding_id, analyze):
        assert evaluate_rules(analyze({}, steps=0), [finding_id]).found == ()

    def test_gives_evidence_whose_names_end_in_a_unit(self, finding_id):
        source = inspect.getsource(load_rule(finding_id))
        evidence = re.findall(r'"([a-z_0-9]+)": |evidence\["(\w+)"\]', source)
        for name in filter(None, (key for pair in evidence for key in pair)):
            assert re.search(r"_(ns|bytes|frac|per_s|count)$", name), name


def test_a_saving_is_no_surer_than_two_equal_runs_are_alike(analyze):
    ms = 1_000_000
    unsteady = [(12 if step // 16 % 2 else 8) * ms for step in range(192)]
    phases = {"callbacks": 4 * ms}
    for forward in (10 * ms, unsteady):
        run = analyze({**phases, "forward": forward}, parts={"callbacks/A": 4 * ms}, steps=192)
        alone = load_rule("slow-callback").evaluate(run)[0].saving_ns
        (said,) = evaluate_rules(run).found
        wider = said.saving_ns
        half = hypot((alone.high - alone.low) / 2, run.step_noise_ns)
        assert (wider.high - wider.low) / 2 == pytest.approx(half, abs=2)
        assert wider.middle == pytest.approx(alone.middle, abs=1)
    assert run.step_noise_ns > 1.5 * ms


def test_a_saving_within_the_noise_begins_at_nothing(analyze):
    ms = 1_000_000
    unsteady = [(12 if step // 16 % 2 else 8) * ms for step in range(192)]
    parts = {"callbacks/A": ms // 5}
    run = analyze({"callbacks": ms // 5, "forward": unsteady}, parts=parts, steps=192)
    (said,) = evaluate_rules(run).found
    assert said.saving_ns.low == 0
    assert said.saving_ns.middle < ms / 4


@pytest.mark.parametrize("phase", ["data_wait", "validation"])
def test_no_finding_makes_a_step_shorter_than_nothing(analyze, phase):
    ms = 1_000_000
    unsteady = [(120 if step // 16 % 2 else 60) * ms for step in range(192)]
    flags = int(StepFlag.VALIDATION) if phase == "validation" else None
    for cost in (95 * ms, unsteady):
        run = analyze(
            {phase: cost, "forward": 5 * ms},
            steps=192,
            flags=flags,
            samples=8,
            loader=Loader(num_workers=0),
        )
        first = evaluate_rules(run).found[0]
        assert first.where[0].phase == phase
        assert run.step_ns - first.saving_ns.high >= 0


def test_findings_are_ranked_by_expected_saving_and_facts_come_last(analyze):
    ms = 1_000_000
    run = analyze(
        {"forward": 5 * ms, "data_wait": 3 * ms, "callbacks": 4 * ms},
        parts={"callbacks/A": 4 * ms},
    )
    found = evaluate_rules(run).found
    assert [finding.id for finding in found] == ["slow-callback", "data-wait"]
    assert all(isinstance(finding, Finding) for finding in found)


@pytest.mark.parametrize(
    ("savings_ns", "ranked"),
    [
        # What may save nothing comes after what surely saves nearly as much as it does on average.
        ({"maybe": (0, 1_750), "surely": (450, 800)}, ["surely", "maybe"]),
        ({"maybe": (0, 1_750), "hardly": (20, 40)}, ["maybe", "hardly"]),
        ({"wide": (100, 900), "narrow": (450, 550)}, ["narrow", "wide"]),
    ],
)
def test_findings_are_ranked_by_what_can_be_counted_on(analyze, monkeypatch, savings_ns, ranked):
    def rule(finding_id):
        low, high = savings_ns[finding_id]
        found = Finding(
            id=finding_id, severity=Severity.WARNING, title="", advice="", evidence={},
            saving_ns=Range(low=low, high=high), confidence=0.9,
        )  # fmt: skip
        return SimpleNamespace(evaluate=lambda run: found)

    monkeypatch.setattr(runner, "load_rule", rule)
    found = evaluate_rules(analyze({"forward": 5_000}), list(savings_ns)).found
    assert [finding.id for finding in found] == ranked


def test_a_warning_that_saves_no_time_comes_before_what_is_only_info(analyze):
    ms = 1_000_000
    kept = Note(step=3, name="kept_graphs", value=True)
    run = analyze(
        {"forward": 90 * ms, "callbacks": 2 * ms}, parts={"callbacks/A": 2 * ms}, records=[kept]
    )
    found = evaluate_rules(run).found
    assert [finding.id for finding in found] == ["memory-growth", "slow-callback"]


@pytest.mark.parametrize(("steps", "sure"), [(8, False), (60, True)])
def test_a_run_of_a_few_steps_makes_no_finding_sure(analyze, steps, sure):
    run = analyze({"data_wait": 8_000_000, "forward": 10_000_000}, steps=steps)
    (found,) = evaluate_rules(run, ["data-wait"]).found
    assert (found.confidence > 0.5) == sure
    assert found.severity is (Severity.CRITICAL if sure else Severity.WARNING)
