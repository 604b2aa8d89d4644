"""docs/json_analyze.md against what `analyze --json` gives: no key missing, none undocumented."""

import json
import math
import re
from pathlib import Path

import msgspec
import pytest
from synthetic import SyntheticSpec, write_synthetic

from lightning_gpuprof.traces import ReadOptions
from lightning_gpuprof.views.documents.trace_payload import analyze_file

PAGE = (Path(__file__).parents[3] / "docs" / "json_analyze.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (`\w+`(?:, `\w+`)*) \| (.*) \|$", re.MULTILINE)
SHAPE = re.compile(r"^(?:likewise, )?`\[?\{([^}]*)\}\]?`")
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


def rows(text):
    """Return {key: keys of its value, or None where the page gives no shape} of a table."""
    found = {}
    for cell, meaning in ROW.findall(text):
        shape = SHAPE.match(meaning)
        keys = re.findall(r"\w+", shape[1]) if shape else None
        found.update(dict.fromkeys(re.findall(r"\w+", cell), keys))
    return found


def section(name):
    start = PAGE.index(f"## `{name}`\n")
    return PAGE[start : PAGE.index("\n## ", start)]


TOP = rows(PAGE[: PAGE.index("## `gpu`")])
SPLIT = set(rows(section("gpu"))) | {"span_ns", "idle_ns"}
CAUSES = set(rows(section("idle")))


def check(document):
    document = msgspec.json.decode(msgspec.json.encode(document))  # as the command prints it
    several = document["device"] is not None and document["device"]["count"] > 1
    assert set(document) == set(TOP) - (set() if several else {"gpus"})
    document.setdefault("gpus", [])
    for key, keys in TOP.items():
        value = document[key]
        for entry in value if isinstance(value, list) else [value]:
            if keys and entry is not None:
                assert set(entry) == set(keys), key
    for split in [document["gpu"], *document["gpus"], *(s["gpu"] for s in document["steps"])]:
        assert split is None or set(split) >= SPLIT
    for name in ("launches", "quality"):
        shapes = rows(section(name))
        assert set(document[name]) == set(shapes)
        for key, keys in shapes.items():
            value = document[name][key]
            for entry in value if isinstance(value, list) else [value]:
                if keys and entry is not None:
                    assert set(entry) == set(keys), key
    assert {row["cause"] for row in document["idle"]} <= CAUSES
    assert sum(row["total_ns"] for row in document["idle"]) == (
        document["gpu"]["idle_ns"] if document["gpu"] else 0
    )
    for split in [document["gpu"], *document["gpus"]]:
        if split is not None:
            parts = ("compute_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns")
            assert sum(split[part] for part in parts) == split["span_ns"]
            assert split["busy_ns"] == split["span_ns"] - split["idle_ns"]
    if walked := document["critical_path"]:
        shown = sum(part["total_ns"] for part in walked["parts"])
        assert shown + walked["rest_ns"] == walked["span_ns"] == sum(walked["kind_ns"].values())
    values(document, "document")
    json.dumps(document, allow_nan=False)


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


def test_the_page_s_tables_are_understood():
    assert {"schema_version", "gpu", "kernels", "findings", "warnings"} <= set(TOP)
    assert TOP["idle"] == ["cause", "total_ns", "count"]
    assert {"busy_frac", "exposed_copy_ns"} <= SPLIT
    assert "host_python" in CAUSES


def test_a_trace_with_all_that_can_be_recorded_keeps_to_the_page(tmp_path):
    path = tmp_path / "trace.json.gz"
    write_synthetic(path, SyntheticSpec(steps=3, devices=2, stack_depth=1))

    document = analyze_file(str(path), ReadOptions(stacks=True))
    check(document)
    assert document["roofs"]["device"] == "NVIDIA A100 SXM 80GB"
    assert document["roofs"]["url"].startswith("https://")
    assert {row["bound"] for row in document["roofline"]} <= {"compute", "memory"}
    assert sum(row["total_ns"] for row in document["roofline"]) == document["roofs"]["total_ns"]


@pytest.mark.parametrize("name", REAL)
def test_real_files_of_every_kind_keep_to_the_page(shared_traces, name):
    check(analyze_file(str(shared_traces / name)))


def test_a_trace_without_steps_is_judged_as_a_whole_and_its_findings_say_so(shared_traces):
    path = shared_traces / "nsys" / "power_iteration__baseline.sqlite"

    document = analyze_file(str(path))

    assert list(document["steps"]) == []
    (finding,) = [one for one in document["findings"] if one["id"] == "host-sync"]
    assert "in the trace" in finding["title"]
    assert "each step" not in finding["title"]
    assert 0 < finding["saving_ns"]["high"] <= document["gpu"]["idle_ns"]


def test_of_a_jax_trace_no_code_of_torchs_is_proposed(shared_traces):
    [path] = (shared_traces / "jax" / "xplane" / "jax08_attention").iterdir()

    findings = analyze_file(str(path))["findings"]

    assert "host-bound" in [one["id"] for one in findings]
    assert {one["change"] for one in findings} == {None}


def test_a_handful_of_kernels_without_steps_is_not_judged(shared_traces):
    path = shared_traces / "kineto" / "tracelens-misc" / "torch_compile_triton" / "trace.json.gz"

    assert analyze_file(str(path))["findings"] == []
