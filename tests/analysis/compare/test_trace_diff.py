import gzip
import json
from collections import Counter
from dataclasses import replace

import pytest
from synthetic import SyntheticSpec, write_synthetic

from lightning_gpuprof.analysis.compare.trace_diff import compare_traces
from lightning_gpuprof.analysis.trace_analysis import analyze_file

SPEC = SyntheticSpec(steps=3)


@pytest.fixture
def analyzed(tmp_path):
    def analyze(spec):
        path = tmp_path / "trace.json"
        write_synthetic(path, spec)
        return analyze_file(str(path))

    return analyze


def by_name(rows, part):
    return next(row for row in rows if part in row.name)


def test_a_trace_does_not_differ_from_itself(analyzed):
    analysis = analyzed(SPEC)
    diff = compare_traces(analysis, analysis)

    for table in ("kernels", "operators", "categories", "copies", "gpu"):
        assert getattr(diff, table)
        assert all(row.change == "same" and row.delta_ns == 0 for row in getattr(diff, table))


def test_more_steps_of_the_same_are_no_change(analyzed):
    diff = compare_traces(analyzed(SPEC), analyzed(replace(SPEC, steps=6)))

    assert diff.per_step
    assert (diff.base_steps, diff.test_steps) == (3, 6)
    assert all(row.change == "same" for row in diff.kernels)


def test_slower_kernels_are_found_with_their_time_per_step(analyzed):
    slower = replace(SPEC, kernel_ns=24_000)
    diff = compare_traces(analyzed(SPEC), analyzed(slower))
    gemm = by_name(diff.kernels, "gemm")
    per_step = 2 * 7  # a burst holds two of them, and a step seven bursts

    assert gemm.change == "slower"
    assert gemm.delta_ns == pytest.approx(per_step * 4_000)
    assert gemm.base_count == gemm.test_count == per_step
    assert diff.kernels[0] is gemm
    assert by_name(diff.operators, "aten::mm").delta_ns == pytest.approx(gemm.delta_ns)
    total = sum(row.delta_ns for row in diff.kernels)
    assert by_name(diff.gpu, "compute_ns").delta_ns == pytest.approx(total)
    assert sum(row.delta_ns for row in diff.categories) == pytest.approx(total)


def test_traces_without_steps_are_compared_whole(analyzed, shared_traces):
    path = shared_traces / "kineto/tracelens-misc/gpu_only_trace/gpu_only_trace.json.gz"
    whole = analyze_file(str(path))
    diff = compare_traces(analyzed(SPEC), whole)

    assert not diff.per_step
    assert diff.base_step_ns is diff.test_step_ns is None
    assert "no step marks" in diff.notes[0]


def test_operator_counts_of_two_real_traces_are_those_in_their_files(shared_traces):
    folder = shared_traces / "kineto/hta/trace_compare"
    counts, analyses = [], []
    for name in ("base", "test"):
        path = folder / name / f"{name}.json.gz"
        events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        counts.append(
            Counter(
                e["name"] for e in events if str(e.get("cat")).lower() in ("cpu_op", "operator")
            )
        )
        analyses.append(analyze_file(str(path)))
    diff = compare_traces(*analyses)
    steps = (diff.base_steps, diff.test_steps) if diff.per_step else (1, 1)
    counted = {
        row.name: (row.base_count * steps[0], row.test_count * steps[1]) for row in diff.operators
    }

    names = {name for name in counts[0] | counts[1] if not name.startswith("ProfilerStep")}
    assert {name: value for name, value in counted.items() if name in names} == {
        name: (counts[0][name], counts[1][name]) for name in names
    }
