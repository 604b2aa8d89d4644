"""Device readings from NVIDIA's NVML, where nvidia-ml-py is installed."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import torch

from lightning_gpuprof.adapters.cuda import nvml_index
from lightning_gpuprof.recorders.device.device_stats import StatsReading

_T = TypeVar("_T")

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


class NvmlStats:
    """`DeviceStats` of one NVIDIA device.

    Where it is partitioned (MIG) this process has an instance of it: the whole card's memory and
    processes say nothing of that, and are absent.

    Args:
        index: NVML's index of the device.
        uuid: The device's own id, where torch knows it: CUDA numbers devices by speed and NVML by
            place, so that an index may mean another device.
        nvml: The module `pynvml`; tests pass a fake.
        pid: This process.

    Raises:
        RuntimeError: NVML cannot be started or has no such device.
    """

    def __init__(
        self, index: int, *, nvml: Any, uuid: str | None = None, pid: int | None = None
    ) -> None:
        self._nvml = nvml
        self._pid = os.getpid() if pid is None else pid
        try:
            nvml.nvmlInit()
            handle = None
            if uuid is not None:  # NVML refuses that of a partitioned device's instance
                handle = self._ask(lambda: nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}"))
            self._handle = nvml.nvmlDeviceGetHandleByIndex(index) if handle is None else handle
        except nvml.NVMLError as error:
            raise RuntimeError(f"NVML cannot be used: {error}") from error
        mig = self._ask(lambda: nvml.nvmlDeviceGetMigMode(self._handle))
        self._partitioned = mig is not None and mig[0] == 1

    def read(self) -> StatsReading:
        """Return what the driver says now; what this device does not support is None."""
        nvml, handle = self._nvml, self._handle
        rates = self._ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        whole = not self._partitioned
        memory = self._ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle)) if whole else None
        others = self._others() if whole else None
        return StatsReading(
            busy_frac=None if rates is None else rates.gpu / 100,
            memory_busy_frac=None if rates is None else rates.memory / 100,
            temperature_c=self._ask(
                lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
            ),
            power_mw=self._ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle)),
            power_limit_mw=self._ask(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle)),
            sm_clock_mhz=self._ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            memory_clock_mhz=self._ask(
                lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)
            ),
            throttle_reasons=self._throttle_reasons(),
            used_bytes=None if memory is None else memory.used,
            total_bytes=None if memory is None else memory.total,
            others_bytes=None if others is None else sum(others),
            others_count=None if others is None else len(others),
        )

    def close(self) -> None:
        """Let go of NVML."""
        self._ask(self._nvml.nvmlShutdown)

    def _ask(self, call: Callable[[], _T]) -> _T | None:
        try:
            return call()
        except self._nvml.NVMLError:
            return None

    def _throttle_reasons(self) -> frozenset[str] | None:
        # Renamed with driver 535: an old library lacks the new name, an old driver refuses it.
        for name in ("EventReasons", "ThrottleReasons"):
            call = getattr(self._nvml, f"nvmlDeviceGetCurrentClocks{name}", None)
            bits = None if call is None else self._ask(partial(call, self._handle))
            if bits is not None:
                return frozenset(why for bit, why in THROTTLE_REASONS.items() if bits & bit)
        return None

    def _others(self) -> list[int] | None:
        """Return the bytes of each other process; None where ours is not in the list.

        In a container NVML names processes by the host's ids, or none at all.
        """
        get = self._nvml.nvmlDeviceGetComputeRunningProcesses
        processes = self._ask(lambda: get(self._handle))
        if processes is None or all(one.pid != self._pid for one in processes):
            return None
        others = [one.usedGpuMemory for one in processes if one.pid != self._pid]
        return None if None in others else others


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
