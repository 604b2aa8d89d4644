from pathlib import Path

import numpy as np
import pytest
from made_records import memory
from read_documents import rows

from lightning_gpuprof.cli import main
from lightning_gpuprof.records.schema import Loader, Scalars
from lightning_gpuprof.report.document import Figures, decode

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
    assert (
        "Of 3 runs 1 is faster than the base, 1 is slower than the base, 1 is not measurably" in out
    )
    lines = out.partition("\nRUNS\n")[2].splitlines()[6:10]
    base, faster, _, slower = (line.split() for line in lines)
    assert base == ["base", "15.3", "ms", "523/s", "1.00", "GiB", "-", "-", "-"]
    assert faster[:4] == ["1", "10.3", "ms", "777/s"]
    assert faster[4:] == ["512", "MiB", "1", "0", "same", "Data", "wait", "-5.00", "ms"]
    assert slower[-4:] == ["differ", "Forward", "10.3", "ms"]


def test_the_table_of_several_runs_is_in_the_json(tries, capsys):
    main(["compare", *tries, "--json"])
    document = decode(capsys.readouterr().out)
    base, faster, same, slower = rows(document, "runs", "run").values()
    assert base == {
        "run": "base",
        "median_ns": 15_300_000,
        "samples_per_s": base["samples_per_s"],
        "peak_reserved_bytes": 2**30,
        "path": tries[0],
    }
    (runs,) = (part for part in document.section("verdict").body if isinstance(part, Figures))
    assert runs.figures[1].value == tries[1]
    assert runs.figures[1].note.startswith("100 steady steps, faster: 33% less time per step (")
    assert (faster["phase"], faster["phase_diff_ns"]) == ("Data wait", -5 * MS)
    assert (faster["findings_gone"], faster["findings_new"]) == (1, 0)
    assert faster["peak_reserved_bytes"] == 2**29
    assert runs.figures[2].note.startswith(
        "100 steady steps, no difference that 100 steps could show ("
    )
    assert (same["phase"], same["peak_reserved_bytes"]) == (None, None)
    assert [row["values"] for row in (faster, same, slower)] == ["same", "same", "differ"]
    verdicts = [row["verdict"] for row in (faster, same, slower)]
    assert verdicts == ["faster", "no_difference", "slower"]
    assert document.verdict is None  # of several runs there is not a single one


def test_the_document_of_several_runs_holds_each_comparison_in_full(tries, capsys):
    main(["compare", *tries, "--json"])
    document = decode(capsys.readouterr().out)
    sections = {section.id: section for section in document.sections}
    assert sections["phases_1"].title == "Run 1: Phases"
    assert {sections[f"{name}_3"].detail for name in ("steps", "phases", "values")} == {"verbose"}


def test_runs_are_named_by_what_differs_with_mean_and_interval(make_session, write_run, capsys):
    paths = []
    for name, workers in (("a", 0), ("b", 4)):
        session = make_session({"forward": FORWARD}, loader=Loader(num_workers=workers), samples=8)
        paths.append(write_run(session, name=f"{name}/version_0"))
    main(["compare", *paths, paths[1], "--json"])
    document = decode(capsys.readouterr().out)
    base, other, _ = rows(document, "named_runs", "run").values()
    assert (base["name"], base.get("differs")) == ("a/version_0", None)
    assert (other["name"], other["differs"]) == ("b/version_0", "num_workers=4")
    change = other["change_interval_frac"]
    assert change.low <= 0 <= change.high


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


def test_markdown_of_two_runs_begins_with_the_answer(tries, capsys):
    assert main(["compare", *tries[:2], "--markdown"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("## Comparison of `faster against base`\n")
    assert "\n**Result: The new run is faster: 33% less time per step (" in out
    assert "| Data wait | 5.00 ms | 0 ns | -5.00 ms | -100% | beyond noise |\n" in out
    head = "**Gone, or nearly**\n\n|  | Finding | What it says |\n|---|---|---|\n"
    assert f"{head}| critical | `data-wait` |" in out
    assert "| `loss` | yes | 2 | 0 | 0.5 | 0.5 |\n" in out


def test_markdown_of_several_runs_has_their_names_and_their_figures(tries, capsys):
    assert main(["compare", *tries, "--markdown"]) == 0
    out = capsys.readouterr().out
    assert "\n**Of 3 runs 1 is faster than the base, " in out
    lines = [line for line in out.splitlines() if line.startswith("|")]
    for table, bars in ((lines[:6], 5), (lines[6:], 10)):
        assert [line.split(" | ")[0] for line in table[2:]] == ["| base", "| 1", "| 2", "| 3"]
        assert {line.count("|") for line in table} == {bars}
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
    paths = [word for word in out.split() if word.startswith(str(tmp_path))]
    assert [Path(path).name for path in paths[:3]] == ["version_2", "version_9", "version_10"]


def test_of_a_run_alone_it_is_said_what_is_missing(tries, tmp_path, capsys):
    assert main(["compare", tries[0]]) == 2
    assert f"NEW is missing. Call it as: lightning-gpuprof compare {tries[0]} NEW" in (
        capsys.readouterr().err
    )
    assert main(["compare", str(tmp_path / "nowhere")]) == 2
