import pytest
import torch
from planted import FakeClock

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.trials.latency import benchmark_latency, device_timer


def takes(clock, times_ns):
    """Return a function whose calls take the given times, one after the other."""
    left = iter(times_ns)

    def call():
        clock.now_ns += next(left)

    return call


def test_every_figure_is_of_the_timed_calls_alone_and_the_first_call_is_given_apart():
    clock = FakeClock()
    times = [700_000_000, 5_000_000, *(number * 1_000_000 for number in range(1, 101))]

    latency = benchmark_latency(takes(clock, times), warmup=2, iterations=100, clock=clock)

    assert latency.first_call_ms == 700
    assert latency.mean_ms == 50.5
    assert latency.median_ms == 50.5
    assert latency.min_ms == 1
    assert latency.max_ms == 100
    assert latency.p95_ms == 95
    assert latency.std_ms == pytest.approx(29.011, abs=1e-3)
    assert len(latency.times_ns) == latency.iterations == 100
    assert latency["mean_ms"] == 50.5
    with pytest.raises(KeyError, match="mean_s"):
        latency["mean_s"]


@pytest.mark.parametrize("option", ["warmup", "iterations"])
def test_no_call_at_all_is_an_error_that_says_what_works(option):
    with pytest.raises(ConfigError, match=rf"{option}=0.* would time nothing. Pass 1 or more"):
        benchmark_latency(sorted, [1], **{option: 0})


class JaxLikeArray:
    """Ready only some time after the call returned."""

    def __init__(self, clock):
        self.clock = clock

    def block_until_ready(self):
        self.clock.now_ns += 3_000_000
        return self


def test_results_that_can_be_waited_for_are_waited_for_within_the_time():
    clock = FakeClock()

    latency = benchmark_latency(
        lambda: {"out": (JaxLikeArray(clock), 1)}, warmup=1, iterations=4, clock=clock
    )

    assert latency.min_ms == latency.max_ms == 3
    assert latency.clock == "host"


class FakeCuda:
    """Devices that each take a queue of work, with events between."""

    def __init__(self):
        self.now_ms = {0: 0.0, 1: 0.0}
        self.waits = 0

    def current_stream(self, device):
        return device.index

    def Event(self, *, enable_timing):
        assert enable_timing
        return FakeEvent(self)


class FakeEvent:
    def __init__(self, cuda):
        self.cuda = cuda

    def record(self, stream):
        self.at_ms = self.cuda.now_ms[stream]

    def synchronize(self):
        self.cuda.waits += 1

    def elapsed_time(self, later):
        return later.at_ms - self.at_ms


def test_device_events_time_the_devices_work_and_not_the_hosts():
    cuda = FakeCuda()

    def call():
        cuda.now_ms[1] += 1.5  # the host takes no time: it only queues

    time_ns = device_timer(torch.device("cuda", 1), cuda=cuda)
    assert [time_ns(call), time_ns(call)] == [1_500_000] * 2
    assert cuda.waits == 2


def test_a_latency_is_printed_as_a_table():
    clock = FakeClock()
    times = [700_000_000, *(number * 1_000_000 for number in range(1, 101))]
    latency = benchmark_latency(takes(clock, times), warmup=1, iterations=100, clock=clock)
    assert str(latency).splitlines() == [
        "median      50.5 ms  100 calls, by the host's clock",
        "p95         95.0 ms",
        "mean        50.5 ms  standard deviation 29.0 ms",
        "range       1.00 ms to 100 ms",
        "first call  700 ms  with compilation and initialization",
    ]
