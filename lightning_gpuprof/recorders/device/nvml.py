"""Reads NVIDIA devices with NVML, if nvidia-ml-py is installed."""

from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.adapters.device_events import nvml_index
from lightning_gpuprof.recorders.device.device_stats import (
    DeviceStats,
    ProcessUse,
    StatsReading,
    others_use,
)

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
"""The bits of `nvmlDeviceGetCurrentClocksEventReasons`, with their names in nvml.h."""


class NvmlStats(DeviceStats):
    """Reads an NVIDIA device.

    If the device is partitioned (MIG), this process has only an instance of it. The processes on
    the whole card say nothing about that instance, and are left out.

    Args:
        index: The number of the device.
        nvml: The module `pynvml`.
        uuid: The id of the device, if torch knows it. An index is less certain, because CUDA
            numbers devices by speed and NVML by bus.
    """

    def __init__(self, index: int, *, nvml: Any, uuid: str | None = None) -> None:
        super().__init__(nvml.NVMLError)
        self._nvml = nvml
        try:
            nvml.nvmlInit()
            handle = None
            if uuid is not None:  # NVML refuses the id of a MIG instance
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
        others_bytes, others_count = others_use(
            [ProcessUse(process.pid, process.usedGpuMemory) for process in processes or ()]
        )
        return StatsReading(
            busy_frac=None if rates is None else rates.gpu / 100,
            temperature_c=ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            power_mw=ask(nvml.nvmlDeviceGetPowerUsage, handle),
            power_limit_mw=ask(nvml.nvmlDeviceGetEnforcedPowerLimit, handle),
            sm_clock_mhz=ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            throttle_reasons=self._throttle_reasons(),
            others_bytes=others_bytes,
            others_count=others_count,
        )

    @override
    def close(self) -> None:
        self._ask(self._nvml.nvmlShutdown)

    def _throttle_reasons(self) -> frozenset[str] | None:
        # The function was renamed with driver 535. An old library lacks the new name, and an old
        # driver refuses it.
        for name in ("EventReasons", "ThrottleReasons"):
            call = getattr(self._nvml, f"nvmlDeviceGetCurrentClocks{name}", None)
            bits = None if call is None else self._ask(call, self._handle)
            if bits is not None:
                return frozenset(reason for bit, reason in THROTTLE_REASONS.items() if bits & bit)
        return None


def nvml_stats(device: torch.device) -> NvmlStats | None:
    """Return the reader of an NVIDIA device; None without nvidia-ml-py, driver or device."""
    if device.type != "cuda" or torch.version.hip:
        return None
    try:
        import pynvml

        # NVML ignores CUDA_VISIBLE_DEVICES; this index takes it into account.
        index = nvml_index(device)
        uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
        return NvmlStats(index, nvml=pynvml, uuid=None if uuid is None else str(uuid))
    except (ImportError, OSError, RuntimeError, AttributeError, LookupError):
        # An OSError means that the driver has no NVML, and a LookupError that torch does not know
        # the id.
        return None
