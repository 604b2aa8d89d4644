import json
import re
import subprocess
import sys

import pytest
from synthetic import SyntheticSpec, write_synthetic

from lightning_gpuprof.cli import main
from lightning_gpuprof.views.documents.trace_payload import analyze_file


@pytest.fixture
def trace(tmp_path):
    """A made-up trace and its known answers."""
    path = tmp_path / "trace.json.gz"
    return str(path), write_synthetic(path, SyntheticSpec(steps=3, devices=2, stack_depth=1))


def test_the_text_starts_with_the_time_split_and_adds_up(trace, capsys):
    path, _ = trace

    assert main(["analyze", path]) == 0

    text = capsys.readouterr().out
    assert text.index("Device 0:") < text.index("idle because of") < text.index("Kernels by kind")
    assert "host_data_wait" in text
    assert "ProfilerStep#0" in text
    assert re.search(r"Kernels\n +count +share +time\n", text)
    assert re.search(r"Operators, by own host time\n +count +own time +on device +time\n", text)


def test_a_step_and_the_steady_state_can_be_chosen(trace, capsys):
    path, _ = trace

    assert main(["analyze", "--json", "--step", "1", path]) == 0
    step = json.loads(capsys.readouterr().out)
    assert main(["analyze", "--json", "--steady", path]) == 0
    steady = json.loads(capsys.readouterr().out)

    assert step["window"]["name"] == "ProfilerStep#1"
    assert len(step["steps"]) == 2  # one mark on each device's thread
    assert steady["gpu"]["span_ns"] > step["gpu"]["span_ns"]


def test_a_step_that_is_not_there_exits_with_what_there_is(trace, capsys):
    path, _ = trace

    assert main(["analyze", "--step", "99", path]) == 2
    assert "ProfilerStep#0" in capsys.readouterr().err


@pytest.mark.parametrize("top", ["0", "-3"])
def test_tables_without_a_row_are_refused(trace, capsys, top):
    path, _ = trace
    with pytest.raises(SystemExit):
        main(["analyze", path, "--top", top])
    assert f"{top!r} is not a number that counts. Pass 1 or more" in capsys.readouterr().err


def test_a_trace_without_a_gpu_shows_no_gpu_figure(tmp_path, capsys):
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 5}
    path = tmp_path / "cpu.json"
    path.write_text(json.dumps({"traceEvents": [event]}))

    main(["analyze", str(path)])
    text = capsys.readouterr().out
    main(["analyze", "--json", str(path)])
    document = json.loads(capsys.readouterr().out)

    assert "No device events" in text
    assert (document["device"], document["gpu"], document["gemm_frac"]) == (None, None, None)
    assert document["operators"][0]["self_ns"] == 5_000
    assert document["operators"][0]["device_total_ns"] is None


def test_the_command_imports_nothing_heavy(trace):
    path, _ = trace
    program = (
        "import sys; from lightning_gpuprof.cli import main; "
        f"main(['analyze', '--json', {path!r}]); "
        "heavy = {'torch', 'lightning', 'pandas', 'plotly', 'rich', 'numpy.ma'} & set(sys.modules);"
        "print(sorted(heavy), file=sys.stderr)"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    assert done.stderr.strip() == "[]"


def test_the_critical_path_is_part_of_every_analysis(trace, capsys):
    path, known = trace

    main(["analyze", "--json", path])
    walked = json.loads(capsys.readouterr().out)
    main(["analyze", "--json", "--step", "1", path])
    step = json.loads(capsys.readouterr().out)

    whole = walked["critical_path"]
    assert sum(whole["kind_ns"].values()) == whole["span_ns"] >= known.span_ns
    assert 0 < step["critical_path"]["span_ns"] < whole["span_ns"]
    assert main(["analyze", path]) == 0
    assert "Critical path" in capsys.readouterr().out


def test_rules_speak_of_a_trace_alone(tmp_path):
    path = tmp_path / "trace.json"
    write_synthetic(path, SyntheticSpec(steps=3, comm_ns=510_000, exposed_comm_ns=500_000))

    findings = {one["id"]: one for one in analyze_file(str(path))["findings"]}

    found = findings["exposed-communication"]
    assert 500_000 <= found["evidence"]["exposed_comm_ns"] <= 1_100_000
    assert {"severity", "title", "advice", "saving_ns", "saving_frac", "confidence"} <= set(found)


def test_a_single_step_is_not_judged(tmp_path):
    path = tmp_path / "trace.json"
    write_synthetic(path, SyntheticSpec(steps=1))

    assert analyze_file(str(path))["findings"] == []
