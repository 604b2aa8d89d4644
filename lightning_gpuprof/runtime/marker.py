"""The event that makes TensorBoard show the PROFILE tab for a run."""

import io
import os
import time
from pathlib import Path

from lightning_gpuprof.records.schema import SCHEMA_VERSION

PLUGIN_NAME = "gpuprof"
TAG = "gpuprof"
FILE_NAME = "events.out.tfevents.0000000000.gpuprof"
"""Sorts before every logger's event file: TensorBoard reads a run's files in this order and does
not come back to an earlier one, so a later name would cut a live logger off."""


def write_marker(run_dir: str) -> None:
    """Write the marker tensor into a run's log dir, once per run.

    Without it TensorBoard would have to scan every folder to know that a run has records.
    """
    path = Path(run_dir) / FILE_NAME
    if path.exists():
        return
    # Imported here: TensorBoard's writer takes 20 ms, which a callback's import need not wait for.
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
    whole = io.BytesIO()
    writer = RecordWriter(whole)
    writer.write(Event(wall_time=now, file_version="brain.Event:2").SerializeToString())
    writer.write(Event(wall_time=now, step=0, summary=Summary(value=[value])).SerializeToString())
    try:
        path.write_bytes(whole.getvalue())
    except OSError:  # a full disk leaves an empty file of that name
        path.unlink(missing_ok=True)
        raise
