import io

import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import DATA_CLASS_TENSOR, Summary, SummaryMetadata
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util.tensor_util import make_tensor_proto

from lightning_gpuprof.records.schema import SCHEMA_VERSION
from lightning_gpuprof.runtime.marker import FILE_NAME, PLUGIN_NAME, TAG, event_file, write_marker


def test_the_marker_is_what_tensorboard_itself_would_write():
    now = 1764370000.25
    metadata = SummaryMetadata(
        plugin_data=SummaryMetadata.PluginData(plugin_name=PLUGIN_NAME),
        data_class=DATA_CLASS_TENSOR,
    )
    tensor = make_tensor_proto(SCHEMA_VERSION, dtype="int64")
    summary = Summary(value=[Summary.Value(tag=TAG, metadata=metadata, tensor=tensor)])
    content = io.BytesIO()
    writer = RecordWriter(content)
    writer.write(Event(wall_time=now, file_version="brain.Event:2").SerializeToString())
    writer.write(Event(wall_time=now, summary=summary).SerializeToString())

    assert event_file(now) == content.getvalue()


def test_a_marker_that_cannot_be_written_leaves_no_empty_file(tmp_path, monkeypatch):
    def full_disk(path, content):
        path.touch()
        raise OSError("no space left")

    monkeypatch.setattr("pathlib.Path.write_bytes", full_disk)
    with pytest.raises(OSError, match="no space"):
        write_marker(str(tmp_path))
    assert not (tmp_path / FILE_NAME).exists()
