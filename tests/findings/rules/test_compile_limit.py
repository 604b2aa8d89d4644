import pytest
from rule_cases import MS, WORK

from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.compiling import LIMIT_NOTE, CompileLimit
from lightning_gpuprof.records.module_calls import CallPlace
from lightning_gpuprof.records.schema import Note, StepFlag

PLACE = CallPlace("net.py", 12, "forward", "def forward(self, x):")
SIZE = "tensor 'x' size mismatch at index 1. expected 40, actual 41"


def noted(reason, times=1):
    limit = CompileLimit("recompile_limit", 8, reason, PLACE)
    return [Note(step=9, name=LIMIT_NOTE, value=limit)] * times


def test_a_function_that_torch_gave_up_is_told_with_its_place_and_guard(judge):
    (finding,) = judge("compile-limit", WORK, records=noted(SIZE))
    assert finding.title.startswith("torch.compile gave forward up after 8 compilations")
    assert f"What failed last: {SIZE}." in finding.advice
    assert finding.change == "torch._dynamo.mark_dynamic(x, 1)  # before the call"
    assert (finding.where[0].file, finding.where[0].line) == ("net.py", 12)
    assert finding.severity is Severity.WARNING
    assert finding.saving_ns.high == 0


@pytest.mark.parametrize(("name", "written"), [
    ("L['batch'][0]", "batch[0]"),
    ("batch[1]['y']", "batch[1]['y']"),
    ("L['self'].scale", "self.scale"),
    ("L['fn'].__closure__[0].cell_contents", None),
    ("___stack0", None),
])  # fmt: skip
def test_what_changes_is_named_as_the_program_has_it(judge, name, written):
    reason = f"tensor '{name}' size mismatch at index 0. expected 5, actual 6"
    (finding,) = judge("compile-limit", WORK, records=noted(reason))
    wanted = written and f"torch._dynamo.mark_dynamic({written}, 0)  # before the call"
    assert finding.change == wanted


@pytest.mark.parametrize(("reason", "says"), [
    ("s.n == 7", "keep it in a tensor"),
    ("tensor 'x' rank mismatch. expected 2, actual 3", "pad lengths to a few"),
    ("", "pad lengths to a few"),
])  # fmt: skip
def test_other_guards_have_advice_of_their_own(judge, reason, says):
    (finding,) = judge("compile-limit", WORK, records=noted(reason))
    assert says in finding.advice
    assert finding.change is None


def test_each_function_is_told_once(judge):
    assert len(judge("compile-limit", WORK, records=noted(SIZE, times=2))) == 1


def test_a_run_that_reaches_no_limit_has_nothing_to_report(judge):
    assert judge("compile-limit", WORK) == ()


def test_what_the_compilations_took_is_told_with_the_function(judge):
    flags = [StepFlag.WARMUP | StepFlag.COMPILED] * 8 + [0] * 92
    took = [Note(step=at, name="compile_ns", value=1_000 * MS) for at in range(8)]
    finding = judge("recompilation", WORK, flags=flags, records=[*took, *noted(SIZE)])
    assert SIZE in finding.advice
    assert finding.where[0].line == 12
