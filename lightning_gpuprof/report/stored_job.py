"""What the traces of a job's ranks say together, stored beside them: made once, read afterwards."""

import os

import msgspec
from msgspec import Struct

from lightning_gpuprof.analysis.job.job_tables import JobTraces
from lightning_gpuprof.analysis.job.read_job import JobFiles, job_files, read_job
from lightning_gpuprof.errors import TraceError, UnreadableError
from lightning_gpuprof.records.decode import decoded
from lightning_gpuprof.records.files import JOB_NAME, LOCAL, written_whole

JOB_VERSION = 1
"""Raised when `JobTraces` or what is computed of it changes; an older file is made anew."""


class StoredJob(Struct, frozen=True):
    """The content of the file."""

    job_version: int
    traces: tuple[str, ...]
    """The names of the files that were read."""
    job: JobTraces


_DECODER = msgspec.json.Decoder(StoredJob)


def read_stored_job(folder: str, files: JobFiles) -> JobTraces | None:
    """Return what is stored of a job's traces; None if it is to be made, or made anew.

    Args:
        folder: Where the traces lie.
        files: The traces that are to be read; what was made of others is out of date.
    """
    try:
        stored = decoded(_DECODER, LOCAL.read_bytes(os.path.join(folder, JOB_NAME)))
    except (OSError, UnreadableError):
        return None
    is_current = stored.job_version == JOB_VERSION and stored.traces == _names(files)
    return stored.job if is_current else None


def write_job(folder: str) -> None:
    """Read the traces of a job's ranks in a folder, and store there what they say together.

    Raises:
        TraceError: The traces are not of several ranks of one job, or none can be read.
    """
    files = job_files([folder])
    if files is None:
        raise TraceError(f"{folder} holds no traces of several ranks of one job.")
    stored = StoredJob(JOB_VERSION, _names(files), read_job(files))
    with written_whole(os.path.join(folder, JOB_NAME)) as part, open(part, "wb") as file:
        file.write(msgspec.json.encode(stored))


def _names(files: JobFiles) -> tuple[str, ...]:
    return tuple(os.path.basename(path) for path in files.ranks)
