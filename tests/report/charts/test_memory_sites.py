import json
from pathlib import Path

import pytest
from document_parts import table_in
from recorded import keys

from lightning_gpuprof.analysis.memory.memory_dump import SNAPSHOT_VERSION
from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.records.files import FileSystem
from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.report.charts.memory_sites import memory_sites_view, write_sites
from lightning_gpuprof.report.charts.query import Query, QueryError

NAME = "rank0-step120-oom.memory.pickle"
TOLD = (
    3,
    "activations allocated_bytes analysis_version before_bytes bytes bytes_per_step count device "
    "devices file function gradients growing kind_bytes line oom_count optimizer_state other "
    "parameters peak reserved_bytes sites source steps time_us warnings",
)
"""The version, and the names in an analysis at that version."""


@pytest.fixture
def folder(tmp_path, allocator_snapshot):
    allocator_snapshot.allocate(3_000, line=7)
    allocator_snapshot.allocate(1_000, line=9)
    allocator_snapshot.dump(str(tmp_path / "plugins/gpuprof" / NAME))
    return tmp_path


def view(folder, **params):
    return memory_sites_view(LoadedRun(str(folder)), Query(params))


def test_a_snapshot_is_known_before_it_is_analysed_and_never_read_by_the_view(folder):
    payload = view(folder)
    assert (payload.state, payload.file) == ("not-prepared", NAME)
    (snapshot,) = payload.snapshots
    known = (snapshot.rank, snapshot.session, snapshot.step, snapshot.reason)
    assert known == (0, 0, 120, "oom")


def test_an_analysed_snapshot_names_the_lines_that_hold_the_memory(folder):
    write_sites(str(folder / "plugins/gpuprof" / NAME))
    payload = view(folder, file=NAME)
    assert payload.state == "prepared"
    rows = table_in(payload.sections, "memory_sites").rows
    assert [(row["place"].line, row["bytes"]) for row in rows] == [(7, 3_000), (9, 1_000)]
    figures = payload.sections[0].body[0].figures
    assert (figures[0].key, figures[0].value) == ("peak_bytes", 4_000)


def test_a_run_without_snapshots_says_so(tmp_path):
    assert view(tmp_path).state == "no-snapshot"


def test_a_name_that_is_no_snapshot_of_the_run_is_refused(folder):
    with pytest.raises(QueryError, match="no memory snapshot"):
        view(folder, file="../../../etc/passwd")


def keep(folder, **document):
    kept = folder / "plugins/gpuprof" / f"{NAME}.analysis.json"
    kept.write_text(json.dumps(document))
    return kept


def test_an_analysis_of_another_shape_is_told(folder):
    keep(folder, analysis_version=SNAPSHOT_VERSION + 1, devices=[3])
    payload = view(folder)
    assert payload.state == "failed"
    assert "of another version of this package" in payload.error


@pytest.mark.parametrize("version", [{}, {"analysis_version": 0}, {"analysis_version": "1"}])
def test_an_analysis_of_an_older_version_is_done_again(folder, version):
    keep(folder, devices=[], **version)
    assert view(folder).state == "not-prepared"
    write_sites(str(folder / "plugins/gpuprof" / NAME))
    assert view(folder).state == "prepared"


def test_an_analysis_that_was_copied_in_part_is_done_again(folder):
    keep(folder).write_text('{"devices"')
    assert view(folder).state == "not-prepared"


def test_an_older_analysis_on_a_remote_disk_is_shown_since_nobody_can_do_it_again(folder):
    write_sites(str(folder / "plugins/gpuprof" / NAME))
    kept = folder / "plugins/gpuprof" / f"{NAME}.analysis.json"
    older = json.loads(kept.read_text())
    del older["analysis_version"]
    keep(folder, **older)
    payload = memory_sites_view(LoadedRun(str(folder), fs=FileSystem()), Query({}))
    assert payload.state == "prepared"


def test_the_version_goes_up_with_what_an_analysis_says(folder):
    kept = json.loads(Path(write_sites(str(folder / "plugins/gpuprof" / NAME))).read_text())
    assert (
        SNAPSHOT_VERSION,
        " ".join(sorted({key.rpartition(".")[2] for key in keys(kept)})),
    ) == TOLD, "raise SNAPSHOT_VERSION"


def test_a_file_that_is_no_pickle_is_refused_with_a_sentence(folder):
    path = folder / "plugins/gpuprof/x.memory.pickle"
    path.write_text("nothing")
    with pytest.raises(TraceError):
        write_sites(str(path))
