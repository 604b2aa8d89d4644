import json
from pathlib import Path

import numpy as np
import pytest
from made_records import memory

from lightning_gpuprof.cli import main
from lightning_gpuprof.records.schema import Scalars

MS = 1_000_000
FORWARD = 10 * MS + np.arange(100) % 7 * 100_000


@pytest.fixture
def tries(make_session, write_run):
    """Write a base run that waits for data, and three tries: faster, the same, slower."""

    def write(name, phases, loss=0.5, peak=None, **options):
        seen = () if peak is None else (memory(peak),)
        losses = Scalars(steps=[0, 1], values={"loss": [1.0, loss]})
        session = make_session(phases, records=[losses, *seen], samples=8, **options)
        return write_run(session, name=name)

    return [
        write("base", {"forward": FORWARD, "data_wait": 5 * MS}, peak=2**30),
        write("faster", {"forward": FORWARD}, peak=2**29),
        write("same", {"forward": FORWARD, "data_wait": 5 * MS + 100}),
        write("slower", {"forward": FORWARD * 2, "data_wait": 5 * MS}, loss=0.7),
    ]


def test_each_run_is_a_row_beside_the_base(tries, capsys):
    assert main(["compare", *tries]) == 0
    out = capsys.readouterr().out
    assert "Of 3 runs 1 is faster than the base, 1 is slower than the base, 1 is without a" in out
    base, faster, _, slower = (
        next(one for one in out.splitlines() if one.startswith(f"  {name:<4}  "))
        for name in ("base", "1", "2", "3")
    )
    assert base.split() == ["base", "15.3", "ms", "523", "1.00", "GiB"]
    assert faster.split()[:4] == ["1", "10.3", "ms", "777"]
    assert faster.split()[-10:] == "512 MiB 1 gone, 0 new same data_wait -5.00 ms".split()
    assert "differ" in slower.split()


def test_the_table_of_several_runs_is_in_the_json(tries, capsys):
    main(["compare", *tries, "--json"])
    document = json.loads(capsys.readouterr().out)
    base, faster, same, slower = document["table"]
    assert base["run"] == tries[0]
    assert (base["sentence"], base["phase"], base["findings_gone"]) == (None, None, None)
    assert faster["sentence"].startswith("faster: 33% less time per step (")
    assert (faster["phase"], faster["phase_diff_ns"]) == ("data_wait", -5 * MS)
    assert (faster["findings_gone"], faster["findings_new"]) == (1, 0)
    assert (base["peak_reserved_bytes"], faster["peak_reserved_bytes"]) == (2**30, 2**29)
    assert same["sentence"].startswith("no difference that 100 steps could show (")
    assert (same["phase"], same["peak_reserved_bytes"]) == (None, None)
    assert [row["values_same"] for row in (faster, same, slower)] == [True, True, False]
    assert [one["verdict"] for one in document["comparisons"]] == [
        "faster",
        "no_difference",
        "slower",
    ]


def test_one_slower_run_of_several_fails_the_check(tries):
    base, faster, same, slower = tries
    assert main(["compare", base, faster, same, "--fail-if-slower", "5%"]) == 0
    assert main(["compare", base, slower, faster, "--fail-if-slower", "5%"]) == 1
    assert main(["compare", base, faster, slower, "--fail-if-values-differ"]) == 1


def test_a_run_too_short_to_tell_is_not_passed_over_nor_hides_a_slower_one(
    tries, make_session, write_run
):
    short = write_run(make_session({"forward": MS}, steps=4), name="short")
    assert main(["compare", *tries[:2], short, "--fail-if-slower", "5%"]) == 2
    assert main(["compare", tries[0], short, tries[3], "--fail-if-slower", "5%"]) == 1


def test_another_model_is_counted_as_neither_faster_nor_slower(make_session, write_run, capsys):
    runs = [
        write_run(make_session({"forward": FORWARD // (i + 1)}, model={"class": name}), name=name)
        for i, name in enumerate(("Net", "Gan"))
    ]
    main(["compare", *runs, runs[0]])
    out = capsys.readouterr().out
    assert "1 is of another model" in out
    assert "is faster than the base" not in out


def test_markdown_of_two_runs_begins_with_the_sentence(tries, capsys):
    assert main(["compare", *tries[:2], "--markdown"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("**The new run is faster: 33% less time per step (")
    assert "| `data_wait` | 5.00 ms | 0 ns | -100.0% |\n" in out
    assert "Findings gone:\n\n- " in out
    assert "- loss: the same in 2 steps" in out


def test_markdown_of_several_runs_is_one_table(tries, capsys):
    assert main(["compare", *tries, "--markdown"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("**Of 3 runs 1 is faster than the base, ")
    rows = [line for line in out.splitlines() if line.startswith("|")]
    assert [row.split(" | ")[0] for row in rows[2:]] == [
        "| `base`",
        *(f"| `{number}`" for number in (1, 2, 3)),
    ]
    assert {row.count("|") for row in rows} == {8}
    assert "\x1b" not in out


def test_what_cannot_be_compared_is_named(tries, write_trace, op, tmp_path, capsys):
    traces = [write_trace([op()], name=f"{name}.json") for name in "abc"]
    for given, said in (
        ([*tries, str(tmp_path / "nowhere")], "nowhere does not exist"),
        (traces, "Trace files are compared two at a time"),
        ([*tries, traces[0]], f"{traces[0]} is a trace file and {tries[0]} is not. Pass two runs"),
        ([traces[0], "gone"], "is a trace file and gone does not exist. Pass two runs' log dirs"),
    ):
        assert main(["compare", *given]) == 2
        assert said in capsys.readouterr().err


def test_of_a_folder_of_runs_each_is_compared_with_the_one_begun_first(
    make_session, write_run, tmp_path, capsys
):
    for begun, name in [(3, "version_10"), (1, "version_2"), (2, "version_9")]:
        phases = {"forward": FORWARD * begun}
        session = make_session(phases, samples=8, started_unix_ns=begun)
        write_run(session, name=f"sweep/{name}")
    assert main(["compare", str(tmp_path / "sweep")]) == 0
    out = capsys.readouterr().out
    assert [Path(line.split()[1]).name for line in out.splitlines()[2:5]] == [
        "version_2",
        "version_9",
        "version_10",
    ]


def test_of_a_run_alone_it_is_said_what_is_missing(tries, tmp_path, capsys):
    assert main(["compare", tries[0]]) == 2
    assert f"NEW is missing. Call it as: lightning-gpuprof compare {tries[0]} NEW" in (
        capsys.readouterr().err
    )
    assert main(["compare", str(tmp_path / "nowhere")]) == 2
