import pytest
from read_documents import rows

from lightning_gpuprof.analysis.trace_analysis import analyze_file
from lightning_gpuprof.report.build_trace import trace_document


@pytest.fixture
def analysis(write_trace, op):
    """A trace with allocations in an operator, in one inside it, and outside of both."""

    def mark(ts, changed, device=1, tid=1):
        args = {"Device Id": 0, "Device Type": device, "Bytes": changed}
        event = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": tid}
        return {**event, "ts": ts, "args": args}

    ops = (op("aten::linear", 0, 100), op("aten::addmm", 10, 40), op("aten::relu", 200, 10))
    marks = [mark(15, 4096), mark(20, 512, device=0), mark(60, 1024), mark(70, -4096)]
    marks += [mark(150, 8), mark(205, 16, tid=7)]
    return analyze_file(write_trace([*ops, *marks]))


def test_memory_counts_for_the_innermost_operator_of_its_thread(analysis):
    found = {
        (row.name, row.device): (row.allocated_bytes, row.freed_bytes, row.self_bytes)
        for row in analysis.operator_memory
    }
    assert found == {
        ("aten::addmm", 0): (4096, 0, 4096),
        ("aten::addmm", None): (512, 0, 512),
        ("aten::linear", 0): (1024, 4096, -3072),
        (None, 0): (24, 0, 24),
    }


def test_the_page_has_memory_by_operator(analysis):
    table = rows(trace_document(analysis), "operator_memory", "name")
    assert table["aten::linear"]["freed_bytes"] == 4096
    assert table["aten::linear"]["self_bytes"] == -3072
