import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from synthetic import SyntheticSpec, answers, write_synthetic

from lightning_gpuprof.cli import main
from lightning_gpuprof.report.labels import idle_label
from lightning_gpuprof.views.documents.trace_payload import analyze_file
from lightning_gpuprof.views.text.trace import CAUSE_NAMES

SPEC = SyntheticSpec(steps=3, devices=2, stack_depth=1)


@pytest.fixture
def trace(tmp_path):
    """A made-up trace."""
    path = tmp_path / "trace.json.gz"
    write_synthetic(path, SPEC)
    return str(path)


def test_the_text_starts_with_a_verdict_and_a_change(trace, capsys):
    assert main(["analyze", trace]) == 0

    text = capsys.readouterr().out
    _, limit, change, *_ = text.splitlines()
    assert re.fullmatch(r"GPU \d+% busy(, mostly with \w+)?: it waits for the host\.", limit)
    assert change == analyze_file(trace)["findings"][0]["advice"]
    order = ("Device 0: busy", "Why the device was idle", "Copies\n", "Kernels by kind", "Steps\n")
    assert [text.index(words) for words in order] == sorted(text.index(words) for words in order)
    assert "Waiting for data" in text
    assert re.search(r"\d kernels a step, GEMM [\d.]+%, sync [\d.]+%, launch gaps", text)
    assert re.search(r"Kernels\n +calls +share +time\n", text)
    assert re.search(r"Operators\n +calls +device self +host self +time\n", text)


def test_causes_of_idle_time_have_the_tabs_names():
    for cause, name in CAUSE_NAMES.items():
        assert name == idle_label(cause)


@pytest.mark.parametrize(
    ("environment", "colored"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "0"}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_every_command_goes_by_no_color_and_force_color(
    trace, make_session, write_run, monkeypatch, capsys, environment, colored
):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    run = write_run(make_session({"forward": 1_000_000}))
    for command in (["analyze", trace], ["report", run], ["compare", run, run]):
        assert main(command) == 0
        assert ("\x1b[" in capsys.readouterr().out) is colored, command


@pytest.mark.parametrize("columns", [70, 110])
def test_every_command_is_as_wide_as_the_terminal(
    trace, make_session, write_run, monkeypatch, capsys, columns
):
    monkeypatch.setenv("COLUMNS", str(columns))
    run = write_run(make_session({"forward": 1_000_000}))
    for command in (["analyze", trace], ["report", run], ["compare", run, run]):
        assert main(command) == 0
        folder = str(Path(trace).parent)
        lines = capsys.readouterr().out.splitlines()
        lengths = [len(line) for line in lines if folder not in line and "http" not in line]
        assert max(lengths) <= columns, command
        assert command[0] != "analyze" or max(lengths) > 60


def test_counters_are_a_row_per_kernel_with_its_limit(tmp_path, capsys):
    rows = [
        '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"',
        '"0","copy","Duration","usecond","20"',
        '"0","copy","DRAM Throughput","%","70"',
        '"0","copy","DRAM Throughput","Gbyte/second","900"',
        '"0","copy","Compute (SM) Throughput","%","5"',
        '"0","copy","Achieved Occupancy","%","90"',
        '"1","tiny","Duration","nsecond","1,500"',
        '"1","tiny","DRAM Throughput","%","10"',
        '"1","tiny","Compute (SM) Throughput","%","20"',
        '"2","tiny","Duration","nsecond","500"',
        '"3","unknown","Registers Per Thread","register/thread","24"',
    ]
    path = tmp_path / "ncu.csv"
    path.write_text("\n".join(rows) + "\n")
    assert main(["analyze", str(path)]) == 0
    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["Kernel", "Launches", "Time", "Occupancy", "SM", "DRAM", "Limit"] in table
    assert ["copy", "1", "20.0", "µs", "90.0%", "5.0%", "70.0%", "memory"] in table
    limit = ["latency:", "below", "60%", "of", "both", "peaks"]
    assert ["tiny", "2", "2.00", "µs", "-", "20.0%", "10.0%", *limit] in table
    assert not any("unknown" in row for row in table)


def test_a_step_and_the_steady_state_can_be_chosen(trace, capsys):
    assert main(["analyze", "--json", "--step", "1", trace]) == 0
    step = json.loads(capsys.readouterr().out)
    assert main(["analyze", "--json", "--steady", trace]) == 0
    steady = json.loads(capsys.readouterr().out)

    assert step["window"]["name"] == "ProfilerStep#1"
    assert len(step["steps"]) == 2  # one mark on each device's thread
    assert steady["gpu"]["span_ns"] > step["gpu"]["span_ns"]


def test_a_step_that_is_not_there_exits_with_what_there_is(trace, capsys):
    assert main(["analyze", "--step", "99", trace]) == 2
    assert "ProfilerStep#0" in capsys.readouterr().err


@pytest.mark.parametrize("top", ["0", "-3"])
def test_tables_without_a_row_are_refused(trace, capsys, top):
    with pytest.raises(SystemExit):
        main(["analyze", trace, "--top", top])
    assert f"{top!r} is not a whole number above 0. Pass 1 or more" in capsys.readouterr().err


def test_a_trace_without_a_gpu_shows_no_gpu_figure(tmp_path, capsys):
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 5}
    path = tmp_path / "cpu.json"
    path.write_text(json.dumps({"traceEvents": [event]}))

    main(["analyze", str(path)])
    text = capsys.readouterr().out
    main(["analyze", "--json", str(path)])
    document = json.loads(capsys.readouterr().out)

    assert (
        "No GPU: the trace has host events alone.\nBegin with aten::mm, 5.00 µs of its own.\n"
        in text
    )
    assert (document["device"], document["gpu"], document["gemm_frac"]) == (None, None, None)
    assert document["operators"][0]["self_ns"] == 5_000
    assert document["operators"][0]["device_total_ns"] is None


def test_the_command_imports_nothing_heavy(trace):
    program = (
        "import sys; from lightning_gpuprof.cli import main; "
        f"main(['analyze', '--json', {trace!r}]); "
        "heavy = {'torch', 'lightning', 'pandas', 'plotly', 'rich', 'numpy.ma'} & set(sys.modules);"
        "print(sorted(heavy), file=sys.stderr)"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    assert done.stderr.strip() == "[]"


def test_the_critical_path_is_part_of_every_analysis(trace, capsys):
    main(["analyze", "--json", trace])
    walked = json.loads(capsys.readouterr().out)
    main(["analyze", "--json", "--step", "1", trace])
    step = json.loads(capsys.readouterr().out)

    whole = walked["critical_path"]
    assert sum(whole["kind_ns"].values()) == whole["span_ns"] >= answers(SPEC).span_ns
    assert 0 < step["critical_path"]["span_ns"] < whole["span_ns"]
    assert main(["analyze", trace]) == 0
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
