import pytest
from rule_cases import MS, span

from lightning_gpuprof.findings.model import Abstained, Severity
from lightning_gpuprof.records.debugging import DEBUGGING_NOTE, Debugging, Tool
from lightning_gpuprof.records.module_calls import CallPlace
from lightning_gpuprof.records.schema import Device, Note

PHASES = {"data_wait": 4 * MS, "forward": 6 * MS}
PLACE = CallPlace("train.py", 74, "", "tracemalloc.start()")
TRACE = {"operators": [{"name": "aten::mm", "count": 20, "total_ns": 4 * MS, "self_ns": 4 * MS}]}
"""2 ms per step are in operators, so 8 ms are Python's."""


@pytest.fixture
def look(judge):
    def looked(*found, **options):
        notes = [Note(step=1, name=DEBUGGING_NOTE, value=found)]
        return judge("debugging-left-on", PHASES, records=notes, **options)

    return looked


def test_tracing_of_allocations_is_named_with_its_line(look):
    (finding,) = look(Debugging(Tool.TRACEMALLOC, "1", PLACE), trace=TRACE)
    assert finding.title == "tracemalloc traces every allocation: up to 6.80 ms of each step"
    assert (finding.where[0].file, finding.where[0].line) == ("train.py", 74)
    assert finding.severity is Severity.CRITICAL
    assert span(finding) == (4 * MS, 6_800_000)


def test_whole_stacks_of_allocations_cost_more(look):
    (finding,) = look(Debugging(Tool.TRACEMALLOC, "25"), trace=TRACE)
    assert span(finding) == (6 * MS, 7_600_000)


def test_without_a_trace_the_share_of_python_is_not_known(look):
    (finding,) = look(Debugging(Tool.PROFILE, "cProfile"))
    assert span(finding) == (0, 6 * MS)
    assert "python_ns" not in finding.evidence


def test_lightnings_own_profiler_is_named_as_it_was_asked_for(look):
    found = Debugging(Tool.PROFILE, "cProfile")
    (finding,) = look(found, trainer={"profiler": "AdvancedProfiler"})
    assert finding.change == 'Trainer(..., profiler=None)  # not "advanced"'


def test_it_is_named_where_the_look_fell_between_two_of_its_actions(look):
    (finding,) = look(trainer={"profiler": "AdvancedProfiler"}, trace=TRACE)
    assert finding.title.startswith("AdvancedProfiler is called for every call and return")
    assert finding.change == 'Trainer(..., profiler=None)  # not "advanced"'
    assert look(trainer={"profiler": "SimpleProfiler"}, trace=TRACE) == ()


def test_blocking_launches_count_on_a_gpu_only(look):
    found = Debugging(Tool.LAUNCH_BLOCKING, "CUDA_LAUNCH_BLOCKING=1")
    assert look(found) == ()
    (finding,) = look(found, device=Device(type="cuda"))
    assert finding.change == "unset CUDA_LAUNCH_BLOCKING"
    assert span(finding) == (0, 5 * MS)


def test_checked_collectives_count_with_several_ranks_only(look):
    found = Debugging(Tool.DISTRIBUTED, "TORCH_DISTRIBUTED_DEBUG=DETAIL")
    assert look(found) == ()


def test_a_cost_that_is_not_known_is_a_warning_without_a_saving(look):
    (finding,) = look(Debugging(Tool.GC, "32"), trace=TRACE)
    assert finding.severity is Severity.WARNING
    assert span(finding) == (0, 0)


def test_a_run_without_such_a_tool_has_nothing_to_report(judge):
    assert judge("debugging-left-on", PHASES) == ()


def test_without_steps_it_abstains(judge):
    assert isinstance(judge("debugging-left-on", {}, steps=0), Abstained)
