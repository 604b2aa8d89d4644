"""Each command and each view of the tab reads the recordings, and shows no odd number."""

import json
import math
import re
import struct

import pytest
from document_parts import read_sections, table_in
from recorded import numbers
from werkzeug.test import Client

from lightning_gpuprof.cli import main
from lightning_gpuprof.records.files import ANALYSIS_SUFFIX, SNAPSHOT_SUFFIX, TRACE_SUFFIX
from lightning_gpuprof.report.charts.memory_sites import write_sites

pytest.importorskip("tensorboard")
TRACED = ("fp32-products", "pageable-copies", "reads-in-a-loop", "small-batch")
TIMED = (*TRACED, "device-bound", "host-bound", "sync-bound", "leak")
SIGNED = re.compile(
    r"(?:.*_)?(?:delta|change|diff)(?:_.*)?|parent|max_steps|max_epochs|falls_behind_ns"
)
"""Names of what may be negative: differences, and what stands for "none" and "no limit"."""


def odd_numbers(document):
    """Yield where a document has a number that nothing can be measured to be."""
    for at, names, value in numbers(document):
        if not math.isfinite(value) or (value < 0 and not any(map(SIGNED.fullmatch, names))):
            yield f"{at} = {value}"


def test_only_whole_names_exempt_a_number():
    low = {"findings": [{"saving_ns": {"low": -1, "high": -1}}], "slowest_parents": [-1]}
    assert len(list(odd_numbers(low))) == 3
    assert list(odd_numbers({"step": {"delta_ns": -1, "max_steps": -1}, "parent": [-1]})) == []


def printed(capsys, *words):
    """Run a command that prints JSON."""
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_report_of_a_run_that_ran_out_of_memory(h100, capsys):
    assert main(["report", str(h100 / "out-of-memory")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "ended with OutOfMemoryError: CUDA out of memory. Tried to allocate 4096.00 GiB" in said


def test_a_run_out_of_memory_names_its_snapshot_and_the_lines_that_held_most(h100, capsys):
    [snapshot] = (h100 / "out-of-memory").rglob(f"*{SNAPSHOT_SUFFIX}")
    analysis = snapshot.with_name(snapshot.name + ANALYSIS_SUFFIX)
    analysis.unlink(missing_ok=True)
    main(["report", str(h100 / "out-of-memory")])
    assert f"lightning-gpuprof analyze {snapshot}" in capsys.readouterr().out

    write_sites(str(snapshot))
    main(["report", str(h100 / "out-of-memory")])
    out = "".join(capsys.readouterr().out.split())  # without the breaks of long lines
    assert str(snapshot) in out
    assert "/home/repo/tests/gpu/test_assumptions_on_gpu.py:195" in out
    analysis.unlink()


@pytest.mark.parametrize("name", TRACED)
def test_analyze(h100, capsys, name):
    [trace] = (h100 / name).rglob(f"*{TRACE_SUFFIX}")
    assert list(odd_numbers(printed(capsys, "analyze", str(trace)))) == []
    assert main(["analyze", str(trace)]) == 0
    assert "NVIDIA H100" in capsys.readouterr().out


def test_analyze_of_a_snapshot(h100, capsys):
    [path] = (h100 / "leak").rglob(f"*{SNAPSHOT_SUFFIX}")
    assert list(odd_numbers(printed(capsys, "analyze", str(path)))) == []
    assert main(["analyze", str(path)]) == 0
    assert "test_promises_on_gpu.py:54" in capsys.readouterr().out


def test_compare_of_runs(h100, capsys):
    # The same model and data, its products in TF32: and 30 reads a step.
    base, new = str(h100 / "fp32-products"), str(h100 / "reads-in-a-loop")
    found = printed(capsys, "compare", base, new)
    assert list(odd_numbers(found)) == []
    assert main(["compare", base, new]) == 0
    _, _, findings = capsys.readouterr().out.partition("\nFINDINGS\n  Gone, or nearly\n")
    assert "low-precision-unused" in findings.partition("\n  New\n")[0]


@pytest.fixture(scope="module")
def ask(h100):
    """Asks the tab as a browser does; the snapshots' lines are found before."""
    from tensorboard.backend import application
    from tensorboard.plugins import base_plugin

    from lightning_gpuprof.tab.plugin import GpuProfPlugin

    for snapshot in h100.rglob(f"*{SNAPSHOT_SUFFIX}"):
        write_sites(str(snapshot))
    context = base_plugin.TBContext(logdir=str(h100), flags=None)
    client = Client(application.TensorBoardWSGI([GpuProfPlugin(context)]))

    def get(route, run, **params):
        answer = client.get(f"/data/plugin/gpuprof/{route}", query_string={"run": run} | params)
        assert answer.status_code == 200, answer.get_data(as_text=True)[:500]
        return answer

    return get


@pytest.mark.parametrize(
    "route", ["run", "report", "steps", "traces", "operators", "device", "roofline", "memory"]
)
@pytest.mark.parametrize("name", TIMED)
def test_the_tabs_answers(ask, name, route):
    assert list(odd_numbers(ask(route, name).json)) == []


@pytest.mark.parametrize("name", TRACED)
def test_the_tabs_timeline_has_a_lane_for_the_stream_and_each_kernel_its_launch(ask, name):
    found = ask("timeline", name).json
    assert {"stream", "thread", "annotations", "idle"} <= {one["kind"] for one in found["groups"]}
    hits = ask("timeline_search", name, text="multi_tensor_apply").json
    assert hits["count"] >= 4  # one optimizer step each
    kernel = max(hits["table"]["rows"], key=lambda row: row["start_ns"])
    event = ask("timeline_event", name, event=kernel["event"]).json
    assert "cudaLaunchKernel" in event["partner"]["name"]
    first, last = found["span_ns"]
    cut = ask("timeline_cut", name, **{"from": first, "to": last, "columns": 500})
    size = struct.unpack("<I", cut.get_data()[:4])[0]
    head = json.loads(cut.get_data()[4 : 4 + size])
    assert head["blocks"] > 100
    assert list(odd_numbers(head)) == []


@pytest.mark.parametrize("name", TRACED)
def test_the_thread_of_the_steps_comes_before_autograds_own(ask, name):
    found = ask("timeline", name).json
    threads = [one["label"] for one in found["groups"] if one["kind"] == "thread"]
    assert ["python3" in one for one in threads] == [True, False]


@pytest.mark.parametrize("name", ["leak", "out-of-memory"])
def test_the_tabs_lines_that_hold_memory(ask, name):
    found = ask("memory_sites", name).json
    assert found["state"] == "prepared"
    assert list(odd_numbers(found)) == []
    assert table_in(read_sections(found["sections"]), "memory_sites").rows[0]["bytes"] > 0
