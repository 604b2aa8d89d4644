import os
import sys
from types import SimpleNamespace

import pytest
import torch

from lightning_gpuprof.recorders.device.amd_smi import AmdSmiStats, amd_stats
from lightning_gpuprof.recorders.device.device_stats import StatsReading, StatsSampler, summarize
from lightning_gpuprof.recorders.device.nvml import NvmlStats, nvml_stats

GIB = 2**30


class DriverError(Exception):
    pass


class Fake:
    """A driver's module of one device: its calls answer by a table, and fail where it has none."""

    lacks = ()

    def __init__(self, **answers):
        self.answers = self.usual | answers

    def __getattr__(self, name):
        if name in self.lacks:
            raise AttributeError(name)
        return lambda *asked: self.answer(name, *asked)

    def answer(self, name, *asked):
        if name not in self.answers:
            raise DriverError("not supported")
        found = self.answers[name]
        return found[asked[-1]] if isinstance(found, Each) else found


class Each(dict):
    """What a call answers by its last argument."""

    def __missing__(self, key):
        raise DriverError("not found")


def in_use(pid, size):
    return SimpleNamespace(pid=pid, usedGpuMemory=size)


NVML = {
    "nvmlInit": None,
    "nvmlShutdown": None,
    "nvmlDeviceGetHandleByIndex": Each({0: "handle"}),
    "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=87, memory=40),
    "nvmlDeviceGetTemperature": 71,
    "nvmlDeviceGetPowerUsage": 310_000,
    "nvmlDeviceGetClockInfo": Each({1: 1410}),
    "nvmlDeviceGetCurrentClocksThrottleReasons": 0x4 | 0x20,
    "nvmlDeviceGetComputeRunningProcesses": [in_use(7, 3 * GIB)],
}
HELD_DOWN = {"active_ppt_pwr": True, "active_hbm_thrm": False, "active_vr_thrm": "N/A"}
POWER = {"current_socket_power": "N/A", "average_socket_power": 540, "power_limit": 750_000_000}
AMD_SMI = {
    "amdsmi_init": None,
    "amdsmi_get_processor_handles": ["handle"],
    "amdsmi_get_gpu_activity": {"gfx_activity": 90, "umc_activity": "N/A"},
    "amdsmi_get_power_info": POWER,
    "amdsmi_get_clock_info": {"clk": 2100},
    "amdsmi_get_violation_status": HELD_DOWN,
    "amdsmi_get_gpu_process_list": [
        {"pid": 7, "memory_usage": {"vram_mem": GIB}},
        {"pid": 8, "memory_usage": {"vram_mem": 2 * GIB}},
    ],
}


class FakeNvml(Fake):
    """`pynvml`, without a limit of power and MIG."""

    NVMLError = DriverError
    NVML_TEMPERATURE_GPU, NVML_CLOCK_SM = 0, 1
    lacks = ("nvmlDeviceGetCurrentClocksEventReasons",)
    usual = NVML


class FakeAmdSmi(Fake):
    """`amdsmi`, without a temperature."""

    AmdSmiException = DriverError
    AmdSmiClkType = SimpleNamespace(GFX="gfx")
    AmdSmiTemperatureType = SimpleNamespace(JUNCTION="junction")
    AmdSmiTemperatureMetric = SimpleNamespace(CURRENT="current")
    usual = AMD_SMI


@pytest.fixture(autouse=True)
def own_pid(monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: 7)


def test_nvml_is_read_in_our_units_and_the_unsupported_is_absent():
    reading = NvmlStats(0, nvml=FakeNvml()).read()
    assert reading == StatsReading(
        busy_frac=0.87,
        temperature_c=71,
        power_mw=310_000,
        power_limit_mw=None,
        sm_clock_mhz=1410,
        throttle_reasons=frozenset({"sw_power_cap", "sw_thermal_slowdown"}),
        others_bytes=0,
        others_count=0,
    )


def test_other_processes_are_counted_only_where_ours_is_in_the_list(monkeypatch):
    def read(pid, theirs):
        monkeypatch.setattr(os, "getpid", lambda: pid)
        running = [in_use(7, 3 * GIB), in_use(8, theirs)]
        nvml = FakeNvml(nvmlDeviceGetComputeRunningProcesses=running)
        found = NvmlStats(0, nvml=nvml).read()
        return found.others_bytes, found.others_count

    assert read(7, 2 * GIB) == (2 * GIB, 1)
    assert read(1, 2 * GIB) == (None, None)
    assert read(7, None)[0] is None


def test_an_unthrottled_device_has_no_reasons_also_where_the_driver_is_older_than_the_library():
    class NewLibrary(FakeNvml):
        lacks = ()

    nvml = NewLibrary(nvmlDeviceGetCurrentClocksThrottleReasons=0)
    assert NvmlStats(0, nvml=nvml).read().throttle_reasons == frozenset()


TWO_UNEQUAL = {
    "nvmlDeviceGetHandleByIndex": Each({0: "first", 1: "second"}),
    "nvmlDeviceGetHandleByUUID": Each({"GPU-faster": "second"}),
    "nvmlDeviceGetUtilizationRates": Each(
        {name: SimpleNamespace(gpu=gpu) for name, gpu in (("first", 1), ("second", 99))}
    ),
}
"""NVML numbers them by place, CUDA the faster one first."""


@pytest.mark.parametrize(
    ("uuid", "busy"), [("faster", 0.99), (None, 0.01), ("an instance's", 0.01)]
)
def test_nvmls_device_is_found_by_its_own_id_and_else_by_its_number(uuid, busy):
    assert NvmlStats(0, nvml=FakeNvml(**TWO_UNEQUAL), uuid=uuid).read().busy_frac == busy


@pytest.mark.parametrize("error", [OSError("no libnvidia-ml"), IndexError("no such device")])
def test_where_torch_cannot_tell_nvmls_number_nothing_is_read(monkeypatch, error):
    def fails(device):
        raise error

    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.cuda, "_get_nvml_device_index", fails)
    assert nvml_stats(torch.device("cuda", 0)) is None


def test_amd_smi_is_read_in_our_units_and_the_unsupported_is_absent():
    reading = AmdSmiStats(0, smi=FakeAmdSmi()).read()
    assert reading == StatsReading(
        busy_frac=0.9,
        temperature_c=None,
        power_mw=540_000,
        power_limit_mw=750_000,
        sm_clock_mhz=2100,
        throttle_reasons=frozenset({"sw_power_cap"}),
        others_bytes=2 * GIB,
        others_count=1,
    )


def test_an_old_amd_smi_lacks_calls_without_failing():
    class Old(FakeAmdSmi):
        lacks = ("amdsmi_get_violation_status",)

    assert AmdSmiStats(0, smi=Old()).read().throttle_reasons is None
    with pytest.raises(RuntimeError, match="AMD SMI cannot be used"):
        AmdSmiStats(3, smi=FakeAmdSmi())


@pytest.mark.parametrize(("mig", "others"), [(0, 0), (1, None)])
def test_of_a_partitioned_device_the_whole_cards_processes_are_not_told(mig, others):
    nvml = FakeNvml(nvmlDeviceGetMigMode=[mig, mig])
    reading = NvmlStats(0, nvml=nvml).read()
    assert (reading.others_bytes, reading.others_count) == (others, others)
    assert (reading.busy_frac, reading.power_mw) == (0.87, 310_000)


def test_amdsmi_without_its_library_gives_no_readings(tmp_path, monkeypatch):
    (tmp_path / "amdsmi.py").write_text("raise OSError('libamd_smi.so: cannot open')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(torch.version, "hip", "6.2")
    assert amd_stats(torch.device("cuda")) is None


AMDSMI = """
class AmdSmiException(Exception):
    pass

begun = False

def amdsmi_init():
    global begun
    if {broken}:
        raise AmdSmiException("no driver")
    begun = True

def amdsmi_get_processor_handles():
    if not begun:
        raise AmdSmiException("AMDSMI_STATUS_NOT_INIT")
    return ["first", "second"]
"""


@pytest.mark.parametrize(("broken", "there"), [(False, True), (True, False)])
def test_amd_smi_has_begun_when_torch_asks_it_for_the_device(tmp_path, monkeypatch, broken, there):
    (tmp_path / "amdsmi.py").write_text(AMDSMI.format(broken=broken))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "amdsmi", raising=False)
    monkeypatch.setattr(torch.version, "hip", "7.0")

    def index(device):  # as torch 2.13 does
        import amdsmi

        return len(amdsmi.amdsmi_get_processor_handles()) - 1

    monkeypatch.setattr(torch.cuda, "_get_amdsmi_device_index", index)
    assert (amd_stats(torch.device("cuda", 0)) is not None) is there
    sys.modules.pop("amdsmi", None)


def test_readings_are_summed_up_and_what_none_has_stays_absent():
    capped = frozenset({"sw_power_cap"})
    readings = [
        StatsReading(0.5, power_mw=100, sm_clock_mhz=1000, throttle_reasons=frozenset()),
        StatsReading(1.0, power_mw=301, sm_clock_mhz=1400, throttle_reasons=capped),
    ]
    found = summarize(readings, step=9, start_ns=1, end_ns=2)
    assert (found.step, found.start_ns, found.end_ns) == (9, 1, 2)
    assert (found.samples, found.busy_frac, found.max_power_mw) == (2, 0.75, 301)
    assert (found.min_sm_clock_mhz, found.max_sm_clock_mhz) == (1000, 1400)
    assert found.throttle_frac == {"sw_power_cap": 0.5}
    assert found.max_temperature_c is None
    assert summarize([StatsReading()], step=0, start_ns=0, end_ns=1).throttle_frac is None


class FakeStats:
    def __init__(self, readings):
        self.readings = readings
        self.closed = False

    def read(self):
        reading = self.readings.pop(0)
        if isinstance(reading, Exception):
            raise reading
        return reading

    def close(self):
        self.closed = True


def turns(count):
    """A wait that lets the loop turn so many times."""
    left = iter([False] * count + [True])
    return lambda seconds: next(left)


def test_the_sampler_gives_each_reading_once():
    stats = FakeStats([StatsReading(busy_frac=0.2), StatsReading(busy_frac=0.4)])
    sampler = StatsSampler(stats, interval_s=1, wait=turns(2))
    sampler.run()
    assert [reading.busy_frac for reading in sampler.take()] == [0.2, 0.4]
    assert sampler.take() == []


def test_a_reading_that_fails_ends_the_sampling_and_is_told():
    stats = FakeStats([StatsReading(busy_frac=0.2), RuntimeError("GPU is lost")])
    sampler = StatsSampler(stats, interval_s=1, wait=turns(5))
    sampler.run()
    assert len(sampler.take()) == 1
    assert sampler.error == "RuntimeError: GPU is lost"


def test_the_thread_ends_when_closed():
    stats = FakeStats([])
    sampler = StatsSampler(stats, interval_s=60)
    sampler.start()
    sampler.close()
    assert stats.closed
    assert not sampler._thread.is_alive()
