"""Documents of traces: of every kind of file, and what is said of one."""

import json
import math
from pathlib import Path

import msgspec
import pytest
from analyzed import SPLIT, analyzed_values, made_analysis
from read_documents import texts
from synthetic import SyntheticSpec, write_synthetic

from lightning_gpuprof.analysis.trace_analysis import analyze_file
from lightning_gpuprof.findings.before_after import before_after
from lightning_gpuprof.findings.trace_findings import as_run
from lightning_gpuprof.report import markdown
from lightning_gpuprof.report.build_trace import trace_document
from lightning_gpuprof.report.console import render
from lightning_gpuprof.report.document import Bars, decode, encode
from lightning_gpuprof.traces import ReadOptions

TRACES = Path(__file__).parents[1] / "data"
SMALL_BATCH = TRACES / "h100/small-batch/plugins/gpuprof/rank0-cycle0.pt.trace.json.gz"
REAL = [
    "kineto/tracelens-h100/gaunernst_bert-small-uncased__1016001.json.gz",
    "kineto/tracelens-misc/gpu_only_trace/gpu_only_trace.json.gz",
    "kineto/tracelens-misc/torch_compile_triton/trace.json.gz",
    "kineto/hta/trace_compare/test/test.json.gz",
    "kineto/hta/cpu_only/05cd72fe__rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
    "kineto/kineto-tbplugin-expected/71530b1d__gpu_metrics_input.json",
    "nsys/healthy_1pct.sqlite",
    "jax/xplane/jax08_gemm/2537e387__tw003.xplane.pb",
    "rocprof/rocprof-v1/41afdd52__results.db",
    "rocprof/rocprofiler-sdk/memory_copy_trace.csv",
    "rocprof/rocprofiler-sdk/hip_runtime_trace.csv",
]


def check(analysis):
    """The parts of an analysis add up, and its document can be shown and read back."""
    values_of_it = json.loads(msgspec.json.encode(analysis))
    idle_ns = analysis.gpu.idle_ns if analysis.gpu else 0
    assert sum(row.total_ns for row in analysis.idle) == idle_ns
    for split in (analysis.gpus or (analysis.gpu,)) if analysis.gpu else ():
        parts = ("compute_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns")
        assert sum(getattr(split, part) for part in parts) == split.span_ns
        assert split.busy_ns == split.span_ns - split.idle_ns
    if path := analysis.critical_path:
        listed_ns = sum(part.total_ns for part in path.parts)
        assert listed_ns + path.rest_ns == path.span_ns == sum(path.kind_ns.values())
    values(values_of_it, "document")
    document = trace_document(analysis)
    assert decode(encode(document)) == document
    assert render(document, verbose=True)
    assert markdown.render(document, verbose=True)


def values(value, name):
    """Names end in their unit, and the values keep to it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            values(inner, str(key))
    elif isinstance(value, list):
        for inner in value:
            values(inner, name)
    elif value is not None and name.endswith("_frac"):
        assert 0 <= value <= 1.1, name  # shares of a roof may reach 110 %
    elif value is not None and name.endswith("_ns"):
        assert isinstance(value, int) or name.startswith("mean"), name
        assert math.isfinite(value)


def test_a_trace_with_all_that_can_be_recorded_has_a_document(tmp_path):
    path = tmp_path / "trace.json.gz"
    write_synthetic(path, SyntheticSpec(steps=3, devices=2, stack_depth=1))
    analysis = analyze_file(str(path), ReadOptions(stacks=True))
    check(analysis)
    document = trace_document(analysis)
    assert document.figure("roofs_device") == "NVIDIA A100 SXM 80GB"
    times = [row["total_ns"] for row in document.rows("roofline")]
    assert sum(times) == document.figure("roofline_ns")
    bars = [part.id for part in document.parts(Bars)]
    assert bars == ["device_time", "device_time_1"]


@pytest.fixture(scope="module")
def small_batch():
    return trace_document(analyze_file(str(SMALL_BATCH)))


def test_the_answer_comes_first_then_the_findings_then_the_devices_time(small_batch):
    first = [section.id for section in small_batch.sections if section.detail == "first"]
    assert first == ["limit", "headline", "verdict", "findings", "device_time"]
    assert texts(small_batch, "limit") == ["GPU 2% busy: it waits for the host."]
    verdict, finding = small_batch.verdict, small_batch.findings[0]
    assert (verdict.kind, verdict.finding) == ("change", finding.id)
    assert (verdict.title, verdict.sentence) == (finding.title, finding.advice)


def test_the_devices_time_divides_into_parts_that_add_up(small_batch):
    (bars,) = small_batch.parts(Bars)
    assert sum(bar.frac for bar in bars.bars) == pytest.approx(1)
    assert sum(bar.value for bar in bars.bars) == small_batch.figure("span_ns")


def test_rows_that_were_asked_for_are_shown_and_all_are_in_the_document():
    document = trace_document(analyze_file(str(SMALL_BATCH)), first_rows=1)
    assert len(document.rows("kernels")) > 1
    assert document.section("kernels").body[0].first_rows == 1


def test_shares_are_those_of_the_comparison_of_two_traces(small_batch):
    run = as_run(analyze_file(str(SMALL_BATCH)))
    compared = {row.name: row.base for row in before_after(run, run)}
    for name in ("gemm_frac", "sync_frac", "launch_gaps_frac"):
        assert small_batch.figure(name) == compared[name], name


def test_a_mean_step_is_the_hosts_and_savings_are_shares_of_the_devices_longer_step():
    marks = [{"name": "ProfilerStep#1", "start_ns": 0, "dur_ns": dur} for dur in (14, 15, 16)]
    gpu = {**SPLIT, "device": 0, "steps": 3, "span_ns": 57, "idle": []}
    run = as_run(made_analysis(steps=marks, gpu=gpu))
    assert (run.steps.dur.mean_ns, run.steps.dur.max_ns, run.step_ns) == (15, 16, 19)


@pytest.mark.parametrize("name", REAL)
def test_real_files_of_every_kind_have_documents(shared_traces, name):
    check(analyze_file(str(shared_traces / name)))


def test_a_trace_without_steps_is_judged_as_a_whole_and_its_findings_say_so(shared_traces):
    path = shared_traces / "nsys" / "power_iteration__baseline.sqlite"

    document = analyzed_values(str(path))

    assert list(document["steps"]) == []
    (finding,) = [one for one in document["findings"] if one["id"] == "host-sync"]
    assert "in the trace" in finding["title"]
    assert "each step" not in finding["title"]
    assert 0 < finding["saving_ns"]["high"] <= document["gpu"]["idle_ns"]


def test_of_a_jax_trace_no_code_of_torchs_is_proposed(shared_traces):
    [path] = (shared_traces / "jax" / "xplane" / "jax08_attention").iterdir()

    findings = analyzed_values(str(path))["findings"]

    assert "host-bound" in [one["id"] for one in findings]
    assert {one["change"] for one in findings} == {None}


def test_a_handful_of_kernels_without_steps_is_not_judged(shared_traces):
    path = shared_traces / "kineto" / "tracelens-misc" / "torch_compile_triton" / "trace.json.gz"

    assert analyzed_values(str(path))["findings"] == []
