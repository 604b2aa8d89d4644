import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from analyzed import analyzed_values
from synthetic import SyntheticSpec, answers, write_synthetic

from lightning_gpuprof.cli import main
from lightning_gpuprof.report.document import decode

SPEC = SyntheticSpec(steps=3, devices=2, stack_depth=1)


@pytest.fixture
def trace(tmp_path):
    """A made-up trace."""
    path = tmp_path / "trace.json.gz"
    write_synthetic(path, SPEC)
    return str(path)


def test_the_text_starts_with_the_limit_and_a_change(trace, capsys):
    assert main(["analyze", trace]) == 0

    text = capsys.readouterr().out
    _, limit, *_ = text.splitlines()
    assert re.fullmatch(r"GPU \d+% busy(, mostly with \w+)?: it waits for the host\.", limit)
    first = analyzed_values(trace)["findings"][0]
    assert f"FIX FIRST\n  {first['title']}\n" in text
    assert " ".join(first["advice"].split()) in " ".join(text.split())
    order = (
        "\nTHE TIME OF DEVICE 0",
        "\nWHY THE DEVICE WAS IDLE",
        "\nCOPIES",
        "\nKERNELS BY KIND",
        "\nSTEPS",
    )
    assert [text.index(words) for words in order] == sorted(text.index(words) for words in order)
    assert "Waiting for data" in text
    assert re.search(r"Kernels +\d+ \(per step\)\n", text)
    assert re.search(r"KERNELS .*\n  Name +Calls +Total +Share", text)
    assert re.search(r"OPERATORS .*\n  Name +Calls +Host self +Host total +Device self\n", text)


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
    assert ["copy", "1", "20.0", "µs", "90%", "5.0%", "70%", "memory"] in table
    limit = ["latency:", "below", "60%", "of", "both", "peaks"]
    assert ["tiny", "2", "2.00", "µs", "-", "20.0%", "10%", *limit] in table
    assert not any("unknown" in row for row in table)


def test_a_step_and_the_steady_state_can_be_chosen(trace, capsys):
    assert main(["analyze", "--json", "--step", "1", trace]) == 0
    step = decode(capsys.readouterr().out)
    assert main(["analyze", "--json", "--steady", trace]) == 0
    steady = decode(capsys.readouterr().out)

    assert step.subject.line == "kineto, ProfilerStep#1"
    assert len(step.rows("steps")) == 2  # one mark on each device's thread
    assert steady.figure("span_ns") > step.figure("span_ns")


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
    document = decode(capsys.readouterr().out)

    assert (
        "  No GPU: the trace has only host events\n"
        "  Begin with aten::mm, which takes 5.00 µs of self time.\n"
    ) in text
    assert document.section("device_time") is None
    assert (document.figure("busy_frac"), document.figure("gemm_frac")) == (None, None)
    (operator,) = document.rows("operators")
    assert (operator["self_ns"], operator["device_total_ns"]) == (5_000, None)


def test_the_command_imports_nothing_heavy(trace):
    program = (
        "import sys; from lightning_gpuprof.cli import main; "
        f"main(['analyze', '--json', {trace!r}]); "
        "heavy = {'torch', 'lightning', 'pandas', 'rich', 'numpy.ma'} & set(sys.modules);"
        "print(sorted(heavy), file=sys.stderr)"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    assert done.stderr.strip() == "[]"


def test_the_critical_path_is_part_of_every_analysis(trace, capsys):
    main(["analyze", "--json", trace])
    whole = decode(capsys.readouterr().out)
    main(["analyze", "--json", "--step", "1", trace])
    step = decode(capsys.readouterr().out)

    kinds = ("host", "launch", "device", "queue", "sync")
    by_kind = [whole.figure(f"path_{kind}_ns") or 0 for kind in kinds]
    assert sum(by_kind) == whole.figure("path_ns") >= answers(SPEC).span_ns
    assert 0 < step.figure("path_ns") < whole.figure("path_ns")
    assert main(["analyze", trace]) == 0
    assert "CRITICAL PATH" in capsys.readouterr().out


def test_rules_speak_of_a_trace_alone(tmp_path):
    path = tmp_path / "trace.json"
    write_synthetic(path, SyntheticSpec(steps=3, comm_ns=510_000, exposed_comm_ns=500_000))

    findings = {one["id"]: one for one in analyzed_values(str(path))["findings"]}

    found = findings["exposed-communication"]
    assert 500_000 <= found["evidence"]["exposed_comm_ns"] <= 1_100_000
    assert {"severity", "title", "advice", "saving_ns", "confidence"} <= set(found)


def test_a_single_step_is_not_judged(tmp_path):
    path = tmp_path / "trace.json"
    write_synthetic(path, SyntheticSpec(steps=1))

    assert analyzed_values(str(path))["findings"] == []
