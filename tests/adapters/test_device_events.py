import torch

from lightning_gpuprof.adapters.device_events import DeviceEvents, device_events


class FakeCuda:
    """`torch.cuda` where another device than ours is the current one, and of `torch._C`."""

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self, stream="the current device's stream"):
            self.stream = stream

    def __init__(self):
        self.number, self.asked, self.captures = 7, 0, False

    def is_current_stream_capturing(self):
        return self.captures

    def current_stream(self, index):
        self.asked += 1
        index = 0 if index is None else index
        return f"stream {self.number} of device {index}"

    def _cuda_getCurrentStream(self, index):
        if index is None:
            raise TypeError("invalid argument to getCurrentStream")
        return (self.number, index, 1)


def events_of(cuda, index=1, c=None):
    device = torch.device("cuda") if index is None else torch.device("cuda", index)
    return DeviceEvents(
        device, cuda=cuda, stream_number=getattr(c or cuda, "_cuda_getCurrentStream", None)
    )


def recorded(events, times=1):
    event = events.new_event()
    for _ in range(times):
        events.record(event)
    return event


def test_a_device_without_an_index_is_the_current_one():
    assert recorded(events_of(FakeCuda(), None), 2).stream == "stream 7 of device 0"


def test_events_are_recorded_on_their_own_device_whichever_is_current():
    assert recorded(events_of(FakeCuda())).stream == "stream 7 of device 1"


def test_the_stream_is_asked_for_anew_only_where_another_one_is_current():
    cuda = FakeCuda()
    events = events_of(cuda)
    recorded(events, 10)
    asked = cuda.asked
    assert asked <= 2
    cuda.number = 8
    assert recorded(events, 2).stream == "stream 8 of device 1"
    assert cuda.asked == asked + 1


def test_nothing_is_recorded_while_the_stream_is_captured():
    cuda = FakeCuda()
    events = events_of(cuda)
    event = events.new_event()
    cuda.captures = True
    assert not events.record(event)
    assert not hasattr(event, "stream")
    cuda.captures = False
    assert events.record(event)


def test_only_cuda_and_hip_have_events_to_time_with():
    assert device_events(torch.device("mps")) is None
    assert isinstance(device_events(torch.device("cuda", 0)), DeviceEvents)
