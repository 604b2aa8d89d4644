"""`analyze` over every kind of file, whole, cut short and strange: figures or a sentence."""

import csv
import gzip
import json
import pickle
import re

import pytest
from msgspec import convert
from read_documents import texts
from synthetic import SyntheticSpec, write_synthetic

from lightning_gpuprof.cli import main
from lightning_gpuprof.report.document import Document

NOT_TRACES = {
    "empty": b"",
    "text": b"hello world\n" * 50,
    "list": b"[]",
    "number": b"42",
    "other": b'{"a": 1, "b": [1, 2, 3]}',
    "no list": b'{"traceEvents": 7}',
    "zeros": bytes(3000),
    "empty gzip": gzip.compress(b""),
    "no gzip": b"\x1f\x8b" + bytes(500),
    "no database": b"SQLite format 3\0" + bytes(4000),
    "half a pickle": b"\x80\x04segments device_traces",
    "table": b"a,b,c\n1,2,3\n",
}


@pytest.mark.parametrize("name", NOT_TRACES)
@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_file_that_is_no_trace_is_named_and_nothing_is_printed(name, flags, tmp_path, capsys):
    path = tmp_path / "file"
    path.write_bytes(NOT_TRACES[name])

    assert main(["analyze", *flags, str(path)]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("lightning-gpuprof: ")
    assert re.search(r"Give (a trace|the) file|Record it again", printed.err)


@pytest.mark.parametrize(
    ("name", "said"), [("missing", "Cannot read"), ("", r"is a folder\. .*plugins/gpuprof")]
)
def test_a_folder_or_a_missing_file_is_named(name, said, tmp_path, capsys):
    assert main(["analyze", str(tmp_path / name)]) == 2
    printed = capsys.readouterr().err
    assert str(tmp_path / name) in printed
    assert re.search(said, printed)


def test_statistics_and_snapshots_have_documents_of_their_own(tmp_path, capsys):
    stats = tmp_path / "stats.csv"
    with stats.open("w", newline="") as file:
        rows = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
        rows.writerow(["Name", "Calls", "TotalDurationNs", "AverageNs", "Percentage"])
        rows.writerow(["kernel_a", 4, 300, 75, 75.0])
        rows.writerow(["kernel_b", 1, 100, 100, 25.0])
    snapshot = tmp_path / "snapshot.pickle"
    snapshot.write_bytes(pickle.dumps({"segments": [], "device_traces": [[]]}))

    assert main(["analyze", "--json", str(stats), str(snapshot)]) == 0

    documents = json.loads(capsys.readouterr().out)
    tables, memory = (convert(document, Document) for document in documents)
    rows = tables.rows("kernel_statistics")
    assert (tables.subject.facts["source"], rows[0]["total_ns"]) == ("stats-csv", 300)
    assert [(row["frac"], row["mean_ns"]) for row in rows] == [(0.75, 75), (0.25, 100)]
    assert memory.subject.facts["source"] == "memory-snapshot"
    assert texts(memory, "memory") == ["The file holds no data about any device."]
    assert main(["analyze", str(stats), str(snapshot)]) == 0
    assert "kernel_a" in capsys.readouterr().out


def test_one_bad_file_keeps_no_other_away(tmp_path, capsys):
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    write_synthetic(good, SyntheticSpec(steps=2))
    bad.write_text("nothing")

    assert main(["analyze", "--json", str(bad), str(good)]) == 2

    printed = capsys.readouterr()
    documents = json.loads(printed.out)
    assert [document["subject"]["path"] for document in documents] == [str(good)]
    assert str(bad) in printed.err


SMALL = 300_000


def test_every_shared_file_gives_figures_or_a_sentence(shared_traces, capsys):
    folders = ("jax", "kineto", "memory", "ncu", "nsys", "rocprof")
    files = [
        path
        for folder in folders
        for path in sorted((shared_traces / folder).rglob("*.*"))
        if path.is_file() and "_perf_report_csvs" not in str(path) and path.stat().st_size < SMALL
    ]
    unreadable = []
    for path in files:
        status = main(["analyze", "--json", str(path)])
        printed = capsys.readouterr()
        if status:
            assert printed.err.startswith("lightning-gpuprof: ")
            unreadable.append(path.name)
        else:
            assert json.loads(printed.out)["subject"]["facts"]["source"]

    # A list of allocator events, in HTA's own form.
    assert set(unreadable) <= {"memory_timeline.raw.gz"}
    assert len(files) > 40
