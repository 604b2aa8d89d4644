import json
from pathlib import Path

import pytest
from synthetic import SyntheticSpec, write_synthetic

from lightning_gpuprof.cli import main


@pytest.fixture
def two_traces(tmp_path):
    base, test = tmp_path / "base.json", tmp_path / "test.json.gz"
    write_synthetic(base, SyntheticSpec(steps=2))
    write_synthetic(test, SyntheticSpec(steps=4, kernel_ns=40_000))
    return str(base), str(test)


def test_two_trace_files_are_compared_per_step(two_traces, capsys):
    assert main(["compare", "--json", *two_traces]) == 0

    found = json.loads(capsys.readouterr().out)
    assert (found["schema_version"], found["base_steps"], found["test_steps"]) == (1, 2, 4)
    gemm = next(row for row in found["categories"] if row["name"] == "gemm")
    assert gemm["test_ns"] == 2 * gemm["base_ns"]
    assert (gemm["base_count"], gemm["change"]) == (gemm["test_count"], "slower")
    rows = {row["name"]: row for row in found["before_after"]}
    assert rows["kernels_per_step_count"]["as_wanted"] is None
    assert rows["step_ns"]["wanted"] == "lower"
    assert "peak_allocated_bytes" not in rows


def test_the_text_leads_with_the_step_and_leaves_out_what_is_the_same(two_traces, capsys):
    assert main(["compare", *two_traces]) == 0

    text = capsys.readouterr().out
    assert text.index("Median step") < text.index("compute_ns") < text.index("Kernels by kind")
    assert "+100.0%" in text
    assert "exposed_comm_ns" not in text
    assert "Before and after" in text


def test_no_verdict_is_given_on_two_traces(two_traces, capsys):
    assert main(["compare", "--fail-if-slower", "5%", *two_traces]) == 2
    assert "log dirs" in capsys.readouterr().err


def test_a_trace_without_step_marks_is_not_set_against_a_step(two_traces, tmp_path, capsys):
    base, unmarked = two_traces[0], tmp_path / "unmarked.json"
    document = json.loads(Path(base).read_text())
    events = document["traceEvents"]
    document["traceEvents"] = [one for one in events if "ProfilerStep" not in one.get("name", "")]
    unmarked.write_text(json.dumps(document))
    assert main(["compare", "--json", base, str(unmarked)]) == 0
    assert json.loads(capsys.readouterr().out)["before_after"] == []
    assert main(["compare", base, str(unmarked)]) == 0
    assert "Before and after" not in capsys.readouterr().out
