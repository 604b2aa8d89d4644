import pytest
from fake_card import FakeStats
from lightning.pytorch.demos.boring_classes import BoringModel

from lightning_gpuprof.callbacks.device_monitor import DeviceMonitor
from lightning_gpuprof.recorders.device.device_stats import StatsSampler
from lightning_gpuprof.records.schema import DeviceSample, Note


class Inline(StatsSampler):
    """Takes one reading each time it is asked, and has no thread."""

    def start(self):
        pass

    def take(self):
        self._readings = [self._stats.read()]
        return super().take()


@pytest.fixture
def records(session_of):
    def recorded(callback, model=None):
        return session_of(model or BoringModel(), callback, limit_train_batches=10)

    return recorded


def test_one_record_is_written_per_window_and_one_at_the_end(records):
    stats = FakeStats()
    callback = DeviceMonitor(window=4, stats=lambda device: stats, sampler=Inline)
    samples = records(callback).all(DeviceSample)
    assert [sample.step for sample in samples] == [3, 7, 9]
    assert {sample.busy_frac for sample in samples} == {0.5}
    assert samples[0].max_power_mw is None
    assert samples[1].start_ns == samples[0].end_ns
    assert stats.closed


def test_on_a_cpu_nothing_is_measured_and_that_is_said(records):
    session = records(DeviceMonitor())
    assert session.all(DeviceSample) == []
    assert [note.name for note in session.all(Note)] == ["device-stats-not-measured"]


def test_a_sampler_that_ended_is_noted_once(records):
    class Ended(Inline):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.error = "RuntimeError: GPU is lost"

        def take(self):
            return []

    callback = DeviceMonitor(window=2, stats=lambda device: FakeStats(), sampler=Ended)
    session = records(callback)
    assert [note.message for note in session.all(Note)] == ["RuntimeError: GPU is lost"]
