"""A window written at once is, event for event, what the logger's own calls write."""

import math
import struct

import numpy as np
import pytest
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c as reference

from lightning_gpuprof.recorders.scalars.logger_pace import LoggerPace
from lightning_gpuprof.recorders.scalars.tensorboard_events import TensorBoardEvents, masked_crc32c

ROWS = [
    (0, {"loss": 0.1, "kl": math.nan}),
    (1, {"loss": -math.inf}),
    (200, {"loss": 0.0, "kl": 1e39}),
    (70_000, {"ein Verlust/ü": 1 / 3}),
]


def events(logger):
    """Return (step, tag, the value's bits) in file order; the loader checks every checksum."""
    path = logger.experiment._get_file_writer().event_writer._file_name
    found = []
    for raw in RawEventFileLoader(path).Load():
        event = Event.FromString(raw)
        assert event.wall_time > 1.7e9
        for value in event.summary.value:
            assert value.WhichOneof("value") == "simple_value"
            found.append((event.step, value.tag, struct.pack("<f", value.simple_value)))
    return found


def test_the_file_holds_what_the_loggers_own_calls_would_write_in_order(tmp_path):
    own, ours = (TensorBoardLogger(tmp_path, name=name) for name in ("own", "ours"))
    for logger in (own, ours):
        logger.log_metrics({"before": 1.0}, 0)
    for step, values in ROWS:
        own.log_metrics(values, step)
    TensorBoardEvents.of(ours).write(
        [step for step, _ in ROWS],
        {tag: [values.get(tag) for _, values in ROWS] for tag in ("loss", "kl", "ein Verlust/ü")},
    )
    for logger in (own, ours):
        logger.log_metrics({"after": 1.0}, 0)
        logger.save()
    assert len(events(ours)) == 8
    assert events(ours) == events(own)


@pytest.mark.parametrize("length", [1, 8, 41, 100])
def test_checksums_are_those_of_tensorboard(length):
    records = [bytes((7 * i * (j + 3)) % 256 for i in range(length)) for j in range(6)]
    rows = np.array([list(record) for record in records], dtype=np.uint8)
    assert [int(crc) for crc in masked_crc32c(rows)] == [reference(r) for r in records]


def test_a_logger_that_does_anything_else_is_called_itself(tmp_path):
    class Renaming(TensorBoardLogger):
        def log_metrics(self, metrics, step=None):
            super().log_metrics({f"my/{name}": value for name, value in metrics.items()}, step)

    patched = TensorBoardLogger(tmp_path)
    patched.log_metrics = lambda metrics, step=None: None
    others = [Renaming(tmp_path), patched, TensorBoardLogger(tmp_path, prefix="run")]
    assert [TensorBoardEvents.of(logger) for logger in [*others, CSVLogger(tmp_path)]] == [None] * 4

    renaming = Renaming(tmp_path, name="renaming")
    LoggerPace(renaming, every=None, slow_every=50).log_steps([3], {"loss": [1.0]})
    renaming.save()
    assert [(step, tag) for step, tag, _ in events(renaming)] == [(3, "my/loss")]
