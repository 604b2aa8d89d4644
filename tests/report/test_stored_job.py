"""What all ranks' traces say together is stored beside them, and made anew when they change."""

import json

import pytest
from job_traces import collective, kernel, write_rank

from lightning_gpuprof.analysis.job.read_job import job_files, read_job
from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.records.files import JOB_NAME
from lightning_gpuprof.report.stored_job import read_stored_job, write_job


@pytest.fixture
def folder(tmp_path):
    """Write the traces of two ranks; rank 1 is late by 500 us."""
    for rank, late_us in enumerate((0, 500)):
        events = [*kernel(10, 1000 + late_us, number=1)]
        events += collective(1010 + late_us, 600 - late_us, number=2, ranks="[0, 1]", size=2)
        write_rank(tmp_path, rank, events, world=2)
    return str(tmp_path)


def stored(folder):
    return read_stored_job(folder, job_files([folder]))


def test_what_is_read_is_what_was_made(folder):
    assert stored(folder) is None
    write_job(folder)
    assert stored(folder) == read_job(job_files([folder]))
    assert stored(folder).delays[0].waited_ns == 500_000


def test_other_traces_or_another_version_are_made_anew(folder, tmp_path):
    write_job(folder)
    (tmp_path / "rank1.pt.trace.json.gz").rename(tmp_path / "rank1-b.pt.trace.json.gz")
    assert stored(folder) is None
    write_job(folder)
    assert stored(folder) is not None
    path = tmp_path / JOB_NAME
    values = json.loads(path.read_bytes())
    path.write_text(json.dumps({**values, "job_version": 0}))
    assert stored(folder) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"job_version": 1, "traces": []}'])
def test_a_damaged_file_is_made_anew(folder, tmp_path, content):
    (tmp_path / JOB_NAME).write_bytes(content)
    assert stored(folder) is None


def test_traces_of_one_rank_are_no_job(folder, tmp_path):
    (tmp_path / "rank1.pt.trace.json.gz").unlink()
    with pytest.raises(TraceError, match="no traces of several ranks of one job"):
        write_job(folder)


def test_what_was_made_of_traces_is_no_trace(folder, tmp_path):
    write_job(folder)
    (tmp_path / "rank0.pt.trace.json.gz.analysis.json").write_text("{}")
    files = job_files([folder])
    assert (len(files.ranks), files.unread) == (2, ())
