import pytest
from rule_cases import H100, MS, US, WORK, span

from lightning_gpuprof.analysis.run.host_lines import HostLines, LineCount
from lightning_gpuprof.findings.model import Abstained, Finding, Range, Severity, Where
from lightning_gpuprof.findings.overlap import without_overlap
from lightning_gpuprof.records.schema import ProfilerCycle

GPU = {"span_ns": 20 * MS}
SOURCE, CALLEE = "torch.cuda.empty_cache()", "torch.empty_cache"
LINE = LineCount("other", "train.py", 63, "on_train_batch_end", SOURCE, CALLEE, "torch", 9)
EMPTIED = [HostLines(56, (LINE,), {"other": 12})]


def calls(*rows, **more):
    every = [{"name": name, "count": count, "total_ns": ns} for name, count, ns in rows]
    return {"gpu": GPU, "launches": {"calls": every, **more}}


CHURN = calls(("cudaMalloc", 60, 4 * MS), ("cudaFree", 60, 2 * MS), ("cudaHostAlloc", 9, 9 * MS))
"""Two steps, each with 30 of both, which take 3 ms together."""


@pytest.fixture
def churn(judge):
    def judged(trace, records=EMPTIED, **options):
        options |= {"trace": trace, "records": records, "device": H100}
        return judge("allocator-churn", WORK, **options)

    return judged


def test_what_is_freed_and_asked_for_again_in_each_step_goes(churn):
    found = churn(CHURN)
    assert span(found) == (3 * MS, 3 * MS)
    assert found.title == ("Each step frees and requests device memory: 3.00 ms (30.0%)")
    assert (found.where[0].file, found.where[0].line) == ("train.py", 63)
    assert found.severity is Severity.CRITICAL


def test_of_steps_that_the_profiler_slowed_the_calls_are_as_much_shorter_at_least(churn):
    assert span(churn(CHURN | {"steps": [{"dur_ns": 20 * MS}] * 2})) == (1_500 * US, 3 * MS)


def test_where_no_line_was_seen_it_says_what_may_empty_the_cache(churn):
    found = churn(CHURN, records=())
    assert "look for torch.cuda.empty_cache()" in found.advice
    assert found.explains == ()


@pytest.mark.parametrize(("first", "told"), [(3, False), (50, True)])
def test_memory_that_is_only_asked_for_counts_once_the_cache_is_full(churn, first, told):
    cycle = ProfilerCycle(
        cycle=0, first_step=first, last_step=first + 1, trace_file="t.gz", trace_bytes=1
    )
    found = churn(calls(("cudaMalloc", 60, 4 * MS)), records=(), cycle=cycle)
    assert isinstance(found, Finding) == told
    if told:
        assert "expandable_segments" in found.change


@pytest.mark.parametrize(
    "rows",
    [
        (("cudaMalloc", 1, MS), ("cudaFree", 2, MS)),
        (("cudaMallocAsync", 600, MS), ("cudaFreeAsync", 600, MS)),
        (("cudaHostAlloc", 60, MS), ("cudaFreeHost", 60, MS)),
    ],
)
def test_few_calls_the_drivers_pool_and_the_hosts_memory_are_well(churn, rows):
    assert churn(calls(*rows)) is None


def test_without_a_trace_of_a_gpu_it_says_what_it_lacks(judge):
    assert isinstance(judge("allocator-churn", WORK), Abstained)


def test_the_hook_that_empties_the_cache_is_told_once(churn):
    slow = Finding(
        id="slow-callback", severity=Severity.WARNING, title="", advice="", evidence={},
        saving_ns=Range(low=MS, high=4 * MS), confidence=0.9,
        where=(Where(phase="other", name="on_train_batch_end"),),
    )  # fmt: skip
    found = churn(CHURN)
    assert [one.id for one in without_overlap([slow, found])[0]] == ["allocator-churn"]
    elsewhere = Where(phase="callbacks", name="EMA")
    other = Finding(**{**slow.__dict__, "where": (elsewhere,)})
    assert len(without_overlap([other, found])[0]) == 2
