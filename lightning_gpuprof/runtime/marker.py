"""Writes the event by which TensorBoard knows that a run has something for the PROFILE tab."""

import io
import os
import time
from pathlib import Path

from lightning_gpuprof.records.schema import SCHEMA_VERSION

PLUGIN_NAME = "gpuprof"
TAG = "gpuprof"
FILE_NAME = "events.out.tfevents.0000000000.gpuprof"
"""This name sorts before the event files of all loggers. TensorBoard reads the files of a run in
this order and never returns to an earlier file, so with a later name it would stop reading the file
of a logger that is still writing."""


def write_marker(run_dir: str) -> None:
    """Write the marker tensor into a run's log dir, unless it is there already.

    Without it TensorBoard would have to scan every folder to find the runs that have records.
    """
    path = Path(run_dir) / FILE_NAME
    if path.exists():
        return
    # These are imported here because they take 20 ms, which would slow the package's import down.
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import DATA_CLASS_TENSOR, Summary, SummaryMetadata
    from tensorboard.summary.writer.record_writer import RecordWriter
    from tensorboard.util.tensor_util import make_tensor_proto

    os.makedirs(run_dir, exist_ok=True)
    metadata = SummaryMetadata(
        plugin_data=SummaryMetadata.PluginData(plugin_name=PLUGIN_NAME),
        data_class=DATA_CLASS_TENSOR,
    )
    value = Summary.Value(
        tag=TAG, metadata=metadata, tensor=make_tensor_proto(SCHEMA_VERSION, dtype="int64")
    )
    now = time.time()
    content = io.BytesIO()
    writer = RecordWriter(content)
    writer.write(Event(wall_time=now, file_version="brain.Event:2").SerializeToString())
    writer.write(Event(wall_time=now, step=0, summary=Summary(value=[value])).SerializeToString())
    try:
        path.write_bytes(content.getvalue())
    except OSError:  # on a full disk an empty file with this name may remain
        path.unlink(missing_ok=True)
        raise
