import torch

from lightning_gpuprof.probes.clock.device_events import TorchEvents, device_events


class FakeCuda:
    """`torch.cuda` where another device than ours is the current one."""

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self, stream="the current device's stream"):
            self.stream = stream

    def current_stream(self, index):
        return f"stream of device {index}"


def test_events_are_recorded_on_their_own_device_whichever_is_current():
    events = TorchEvents(torch.device("cuda", 1), cuda=FakeCuda())
    event = events.new_event()
    events.record(event)
    assert event.stream == "stream of device 1"


def test_only_cuda_and_hip_have_events_to_time_with():
    assert device_events(torch.device("mps")) is None
    assert isinstance(device_events(torch.device("cuda", 0)), TorchEvents)
