"""Rows of facts.toml as rules, and what is refused in them."""

import ast
import inspect
import sys
from string import Formatter
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from rule_cases import WORK

from lightning_gpuprof.findings.facts import UNITS, Condition, Fact, FactSource, facts
from lightning_gpuprof.findings.needs import NEEDS
from lightning_gpuprof.records.schema import DeviceSample

ROW = {
    "id": "busy-device",
    "effort": {"horizon": "quick", "difficulty": "", "risk": ""},
    "confidence": 0.9,
    "page": "",
    "case": [{"severity": "info", "title": "", "advice": ""}],
}


def type_of(owner, name):
    """Return the type of an attribute, with the imports that its module makes for types alone."""
    declared = getattr(owner, name, None)
    of_property = isinstance(declared, property)
    where = declared.fget if of_property else owner
    module = sys.modules[where.__module__]
    names = dict(vars(module))
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), "types", "exec"), names)
    hints = get_type_hints(where, globalns=names)
    return hints["return" if of_property else name]


def resolve(path):
    """Return the type of an attribute path, None if some attribute of it does not exist."""
    kind = FactSource
    for name in path.split("."):
        try:
            kind = type_of(kind, name)
        except KeyError:
            return None
        if get_origin(kind) in (Union, UnionType):
            kind = next(one for one in get_args(kind) if one is not type(None))
    return kind


def paths(fact):
    """Yield every attribute path of a row."""
    yield from fact.unless
    yield from (path for path in fact.evidence.values() if isinstance(path, str))
    for case in fact.case:
        yield from case.when
        yield from (path for path in (case.evidence or {}).values() if isinstance(path, str))
        for template in (case.title, case.advice, case.change or ""):
            yield from (path for _, path, _, _ in Formatter().parse(template) if path is not None)


@pytest.mark.parametrize("fact", facts(), ids=lambda fact: fact.id)
class TestEveryRow:
    def test_reads_attributes_that_exist_and_hold_single_values(self, fact):
        kinds = {path: resolve(path) for path in paths(fact)}
        assert kinds
        assert {
            path for path, kind in kinds.items() if kind not in (int, float, str, bool)
        } == set()

    def test_formats_values_in_units_that_exist(self, fact):
        templates = [text for case in fact.case for text in (case.title, case.advice, case.change)]
        parsed = [field for text in templates if text for field in Formatter().parse(text)]
        assert {unit for _, path, unit, _ in parsed if path is not None} <= set(UNITS)

    def test_needs_what_needs_define(self, fact):
        assert set(fact.needs) <= set(NEEDS)

    def test_has_no_case_that_another_one_always_comes_before(self, fact):
        assert all(case.when for case in fact.case[:-1])


def test_an_attribute_that_does_not_exist_is_noticed():
    assert resolve("run.memory.use.peak_frac") is float
    assert resolve("run.memory.use.peak_fraction") is None
    assert resolve("run.moonlight") is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"need": ["steps"]},
        {"confidence": "high"},
        {"case": [{"severity": "grave", "title": "", "advice": ""}]},
        {"case": [{**ROW["case"][0], "when": {"run.on_gpu": {"equal": True}}}]},
    ],
)
def test_a_key_or_value_that_no_row_has_is_refused(wrong):
    msgspec.convert(ROW, Fact)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(ROW | wrong, Fact)


@pytest.mark.parametrize(
    ("condition", "values", "other_values"),
    [
        (Condition(above=1), (2, 1.5), (1, 0, None)),
        (Condition(below=1), (0, 0.5), (1, 2, None)),
        (Condition(at_least=1), (1, 2), (0, None)),
        (Condition(at_least=1, below=3), (1, 2), (0, 3, None)),
        (Condition(equals="heat"), ("heat",), ("power", None)),
        (Condition(equals=False), (False,), (True, None)),
        (Condition(measured=True), (0, False), (None,)),
        (Condition(measured=False), (None,), (0, False)),
    ],
)
def test_a_condition_holds_of_some_values_and_not_of_others(condition, values, other_values):
    assert all(condition.holds(value) for value in values)
    assert not any(condition.holds(value) for value in other_values)


def test_the_first_case_that_applies_makes_the_finding(analyze):
    def case(title: str, **when: Any) -> dict[str, Any]:
        return {"severity": "info", "title": title, "advice": "", "when": when}

    busy = {"run.device.use.busy_frac": {"at_least": 0.5}}
    row = {
        **ROW,
        "evidence": {
            "busy_frac": "run.device.use.busy_frac",
            "power_count": "run.facts.cpu_quota.cores",
        },
        "unless": {"run.device.use.max_temperature_c": {"above": 90}},
        "case": [case("busy {run.device.use.busy_frac:percent}", **busy), case("idle")],
    }
    judge = msgspec.convert(row, Fact).judge

    def judged(**fields):
        sample = DeviceSample(step=1, start_ns=0, end_ns=1, samples=1, **fields)
        return judge(analyze(WORK, records=[sample]))

    assert judged(busy_frac=0.75).title == "busy 75%"
    assert judged(busy_frac=0.75).evidence == {"busy_frac": 0.75}, "without what was not measured"
    assert judged(busy_frac=0.25).title == "idle"
    assert judged().title == "idle"
    assert judged(busy_frac=0.75, max_temperature_c=95) is None
    assert judge(analyze(WORK)).title == "idle", "nothing below what was not measured is"
