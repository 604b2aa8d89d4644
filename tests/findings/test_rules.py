"""What holds of every rule, and how the engine evaluates them."""

import re
import sys
from math import hypot
from pathlib import Path

import pytest
from rule_cases import MS, made, outcome

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.engine import evaluate_rules
from lightning_gpuprof.findings.facts import facts
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Severity
from lightning_gpuprof.findings.registry import rules, rules_in
from lightning_gpuprof.findings.rule import Rule
from lightning_gpuprof.records.schema import Loader

UNIT = re.compile(r"_(ns|bytes|frac|per_s|count)$")
HEADINGS = ["Symptom", "Why", "Fix", "How it is measured", "Limits"]
TESTS = Path(__file__).parent / "rules"
FACTS = {fact.id: fact for fact in facts()}
EFFORT = Effort(Horizon.QUICK, "", "")


UNSTEADY = [(12 if step // 16 % 2 else 8) * MS for step in range(192)]


@pytest.mark.parametrize("checked", rules().values(), ids=rules())
class TestEveryRule:
    def test_is_named_like_its_file_or_is_a_row_of_facts(self, checked):
        file = checked.judge.__module__.rpartition(".")[2]
        named = "facts" if checked.id in FACTS else checked.id.replace("-", "_")
        assert file == named, "a rule's id is its file's name with hyphens"

    def test_has_a_test_file_of_its_own_name(self, checked):
        assert (TESTS / f"test_{checked.id.replace('-', '_')}.py").exists()

    def test_documents_itself_under_the_same_headings_with_code(self, checked):
        assert re.findall(r"^## (.+)$", checked.page, re.MULTILINE) == HEADINGS
        assert "```" in checked.page.split("## Fix")[1].split("## How")[0]

    def test_says_of_an_empty_run_what_it_lacks(self, checked, analyze):
        evaluation = evaluate_rules(analyze({}, steps=0), [checked])
        assert evaluation.findings == ()
        assert "steps" not in checked.needs or len(evaluation.abstained[0].reason) > 15

    def test_gives_evidence_whose_names_end_in_a_unit(self, checked):
        if checked.id in FACTS:
            of_cases = [case.evidence or {} for case in FACTS[checked.id].case]
            names = [
                *FACTS[checked.id].evidence,
                *(name for evidence in of_cases for name in evidence),
            ]
            assert [name for name in names if not UNIT.search(name)] == []
            return
        with open(sys.modules[checked.judge.__module__].__file__) as file:
            named = re.findall(r'"([a-z0-9]+_[a-z_0-9]+)": |evidence\["(\w+)"\]', file.read())
        names = filter(None, (key for pair in named for key in pair))
        assert [name for name in names if not UNIT.search(name)] == []


def test_adding_a_rule_is_adding_its_file(tmp_path, monkeypatch, analyze):
    folder = tmp_path / "more_rules"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "always_slow.py").write_text('''"""Every step takes too long."""
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Range, Severity
from lightning_gpuprof.findings.rule import measured, rule

@rule(id="always-slow", needs=("steps",), effort=Effort(Horizon.LONG, "", ""))
def judge(run):
    half = measured(run.step_ns) // 2
    return Finding(severity=Severity.WARNING, title="", advice="", evidence={"step_ns": half},
                   saving_ns=Range(half, half), confidence=1.0)
''')
    monkeypatch.syspath_prepend(tmp_path)
    (added,) = rules_in("more_rules")
    assert (added.id, added.page) == ("always-slow", "Every step takes too long.")
    findings = evaluate_rules(analyze({"forward": 10 * MS}), [added]).findings
    assert [(finding.id, finding.saving_ns.low) for finding in findings] == [
        ("always-slow", 5 * MS)
    ]


def test_a_rule_abstains_with_the_sentence_on_what_it_needs(analyze):
    asked = []
    needy = Rule("needy", ("kernels",), EFFORT, asked.append, "")
    evaluation = evaluate_rules(analyze({"forward": MS}), [needy])
    assert [rule.reason for rule in evaluation.abstained] == [
        "it needs an analysed trace with kernels of a GPU"
    ]
    assert asked == []


@pytest.mark.parametrize(
    ("finding_id", "known"),
    [
        *((name, {}) for name in ("costly-line", "host-sync", "slow-python", "thread-contention")),
        *((name, {}) for name in ("throttled-clocks", "shared-device", "unused-vram")),
        *((name, {}) for name in ("small-kernels", "memory-bound-kernels", "vram-pressure")),
        *((name, {}) for name in ("low-precision-unused", "opaque-compiled-regions")),
        *((name, {}) for name in ("non-contiguous-layout", "lost-kernels")),
        *((name, {}) for name in ("slow-epoch-start", "unfused-optimizer")),
        ("double-precision", {"model": {"dtypes": {"float64": 6}}}),
        ("double-precision", {"trace": {"operators": []}}),
    ],
)
def test_without_what_it_takes_a_rule_abstains(judge, finding_id, known):
    assert isinstance(judge(finding_id, {"forward": MS}, **known), Abstained)


def test_a_need_that_nothing_names_is_refused():
    with pytest.raises(ValueError, match="moonlight"):
        Rule("night", ("moonlight",), EFFORT, lambda run: None, "")


def test_some_rules_need_nothing_but_a_trace():
    of_trace = {rule.id for rule in rules().values() if rule.of_trace}
    assert {"small-kernels", "memory-bound-kernels", "costly-line"} <= of_trace
    assert not of_trace & {"data-wait", "slow-logging", "gpu-left-unused", "unused-vram"}


def test_a_saving_is_no_surer_than_two_equal_runs_are_alike(analyze):
    phases = {"callbacks": 4 * MS}
    for forward in (10 * MS, UNSTEADY):
        run = analyze({**phases, "forward": forward}, parts={"callbacks/A": 4 * MS}, steps=192)
        alone = outcome("slow-callback", run)[0].saving_ns
        (finding,) = evaluate_rules(run).findings
        # The callback takes 4 ms: no more can go with it, however unsteady the steps.
        half = hypot((4 * MS - alone.low) / 2, run.variation.noise_ns)
        assert finding.saving_ns.low == pytest.approx((4 * MS + alone.low) / 2 - half, abs=2)
        assert finding.saving_ns.high == finding.cause_ns.high == 4 * MS
        assert finding.saving_ns.low < finding.likely_ns <= 4 * MS
        assert finding.indirect_ns == alone.high - 4 * MS
    assert run.variation.noise_ns > 1.5 * MS


def test_a_saving_within_the_noise_begins_at_nothing(analyze):
    parts = {"callbacks/A": MS // 5}
    run = analyze({"callbacks": MS // 5, "forward": UNSTEADY}, parts=parts, steps=192)
    (finding,) = evaluate_rules(run).findings
    assert finding.saving_ns.low == 0
    assert finding.saving_ns.middle < MS / 4


@pytest.mark.parametrize(
    ("savings_ns", "ranked"),
    [
        # What may save nothing comes after what surely saves nearly as much as it does on average.
        ({"maybe": (0, 1_750), "surely": (450, 800)}, ["surely", "maybe"]),
        ({"maybe": (0, 1_750), "hardly": (20, 40)}, ["maybe", "hardly"]),
        ({"wide": (100, 900), "narrow": (450, 550)}, ["narrow", "wide"]),
    ],
)
def test_findings_are_ranked_by_what_can_be_counted_on(analyze, savings_ns, ranked):
    def made_rule(finding_id):
        def judge(run: RunResults) -> Finding:
            return made(finding_id, *savings_ns[finding_id])

        return Rule(finding_id, (), EFFORT, judge, "")

    chosen = [made_rule(finding_id) for finding_id in savings_ns]
    findings = evaluate_rules(analyze({"forward": 5_000}), chosen).findings
    assert [finding.id for finding in findings] == ranked


@pytest.mark.parametrize(("steps", "sure"), [(8, False), (60, True)])
def test_a_run_of_a_few_steps_makes_no_finding_sure(analyze, steps, sure):
    phases = {"data_wait": 8_000_000, "forward": 10_000_000}
    run = analyze(phases, steps=steps, loader=Loader(num_workers=0), cpu_count=8)
    (finding,) = evaluate_rules(run, [rules()["data-wait"]]).findings
    assert (finding.confidence > 0.5) == sure
    assert finding.severity is (Severity.CRITICAL if sure else Severity.WARNING)
