import json
from pathlib import Path

import pytest
from read_documents import rows, texts
from synthetic import SyntheticSpec, write_synthetic

from lightning_gpuprof.cli import main
from lightning_gpuprof.report.document import Figures, decode


@pytest.fixture
def two_traces(tmp_path):
    base, test = tmp_path / "base.json", tmp_path / "test.json.gz"
    write_synthetic(base, SyntheticSpec(steps=2))
    write_synthetic(test, SyntheticSpec(steps=4, kernel_ns=40_000))
    return str(base), str(test)


def test_two_trace_files_are_compared_per_step(two_traces, capsys):
    assert main(["compare", "--json", *two_traces]) == 0

    document = decode(capsys.readouterr().out)
    assert document.verdict is None
    (figures,) = document.parts(Figures)
    steps = [figure.note for figure in figures.figures if figure.key.endswith("_step_ns")]
    assert steps == ["2 steps", "4 steps"]
    gemm = rows(document, "categories", "id")["gemm"]
    assert gemm["new_ns"] == 2 * gemm["base_ns"]
    assert (gemm["base_count"], gemm["change"]) == (gemm["new_count"], "slower")
    compared = rows(document, "before_after", "id")
    assert compared["kernels_per_step_count"]["met"] == "unchanged"
    assert compared["step_ns"]["goal"] == "lower"
    assert "peak_allocated_bytes" not in compared


def test_the_text_leads_with_the_step_and_leaves_out_what_is_the_same(two_traces, capsys):
    assert main(["compare", *two_traces]) == 0

    text = capsys.readouterr().out
    assert text.index("median step") < text.index("Compute") < text.index("KERNELS BY KIND")
    assert "+100%" in text
    assert "Communication not hidden" not in text
    assert "BEFORE AND AFTER" in text


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
    document = decode(capsys.readouterr().out)
    assert document.section("before_after") is None
    assert "whole traces are compared, not steps" in texts(document, "warnings")[0]
