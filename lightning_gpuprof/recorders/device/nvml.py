"""Device readings from NVIDIA's NVML, where nvidia-ml-py is installed."""

from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.adapters.device_events import nvml_index
from lightning_gpuprof.recorders.device.device_stats import DeviceStats, StatsReading

THROTTLE_REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
"""Bits of `nvmlDeviceGetCurrentClocksEventReasons`, by NVML's names in nvml.h."""


class NvmlStats(DeviceStats):
    """The readings of one NVIDIA device.

    Where it is partitioned (MIG) this process has an instance of it: the whole card's processes
    say nothing of that, and are absent.

    Args:
        uuid: The device's own id, where torch knows it: CUDA numbers devices by speed and NVML by
            place, so that an index may mean another device.
    """

    def __init__(self, index: int, *, nvml: Any, uuid: str | None = None) -> None:
        super().__init__(nvml.NVMLError)
        self._nvml = nvml
        try:
            nvml.nvmlInit()
            handle = None
            if uuid is not None:  # NVML refuses that of a partitioned device's instance
                handle = self._ask(nvml.nvmlDeviceGetHandleByUUID, f"GPU-{uuid}")
            self._handle = nvml.nvmlDeviceGetHandleByIndex(index) if handle is None else handle
        except nvml.NVMLError as error:
            raise RuntimeError(f"NVML cannot be used: {error}") from error
        mig = self._ask(nvml.nvmlDeviceGetMigMode, self._handle)
        self._partitioned = mig is not None and mig[0] == 1

    @override
    def read(self) -> StatsReading:
        nvml, handle, ask = self._nvml, self._handle, self._ask
        rates = ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        processes = None
        if not self._partitioned:
            processes = ask(nvml.nvmlDeviceGetComputeRunningProcesses, handle)
        return StatsReading(
            busy_frac=None if rates is None else rates.gpu / 100,
            temperature_c=ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            power_mw=ask(nvml.nvmlDeviceGetPowerUsage, handle),
            power_limit_mw=ask(nvml.nvmlDeviceGetEnforcedPowerLimit, handle),
            sm_clock_mhz=ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            throttle_reasons=self._throttle_reasons(),
            **self._others([(one.pid, one.usedGpuMemory) for one in processes or ()]),
        )

    @override
    def close(self) -> None:
        self._ask(self._nvml.nvmlShutdown)

    def _throttle_reasons(self) -> frozenset[str] | None:
        # Renamed with driver 535: an old library lacks the new name, an old driver refuses it.
        for name in ("EventReasons", "ThrottleReasons"):
            call = getattr(self._nvml, f"nvmlDeviceGetCurrentClocks{name}", None)
            bits = None if call is None else self._ask(call, self._handle)
            if bits is not None:
                return frozenset(why for bit, why in THROTTLE_REASONS.items() if bits & bit)
        return None


def nvml_stats(device: torch.device) -> NvmlStats | None:
    """Return the readings of an NVIDIA device; None without nvidia-ml-py, driver or device."""
    if device.type != "cuda" or torch.version.hip:
        return None
    try:
        import pynvml

        # Heeds CUDA_VISIBLE_DEVICES, which NVML does not.
        index = nvml_index(device)
        uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
        return NvmlStats(index, nvml=pynvml, uuid=None if uuid is None else str(uuid))
    except (ImportError, OSError, RuntimeError, AttributeError, LookupError):
        return None  # OSError: the driver has no NVML; LookupError: an id that torch does not know
