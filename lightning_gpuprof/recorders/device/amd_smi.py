"""Device readings from AMD SMI, where ROCm's `amdsmi` is installed."""

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch

from lightning_gpuprof.adapters.cuda import amdsmi_index
from lightning_gpuprof.recorders.device.device_stats import StatsReading

_T = TypeVar("_T")
_MIB = 2**20
_VIOLATIONS = {
    "active_prochot_thrm": "hw_thermal_slowdown",
    "active_ppt_pwr": "sw_power_cap",
    "active_socket_thrm": "socket_thermal_slowdown",
    "active_vr_thrm": "voltage_regulator_thermal_slowdown",
    "active_hbm_thrm": "hbm_thermal_slowdown",
}
"""Fields of `amdsmi_get_violation_status`, given on MI300 and later."""


class AmdSmiStats:
    """`DeviceStats` of one AMD device.

    Args:
        index: AMD SMI's index of the device.
        smi: The module `amdsmi`; tests pass a fake.
        pid: This process.

    Raises:
        RuntimeError: AMD SMI cannot be started or has no such device.
    """

    def __init__(self, index: int, *, smi: Any, pid: int | None = None) -> None:
        self._smi = smi
        self._pid = os.getpid() if pid is None else pid
        try:
            smi.amdsmi_init()
            self._handle = smi.amdsmi_get_processor_handles()[index]
        except (smi.AmdSmiException, IndexError) as error:
            raise RuntimeError(f"AMD SMI cannot be used: {error}") from error

    def read(self) -> StatsReading:
        """Return what the driver says now; what this device does not support is None."""
        smi, handle = self._smi, self._handle
        activity = self._ask(lambda: smi.amdsmi_get_gpu_activity(handle)) or {}
        power = self._ask(lambda: smi.amdsmi_get_power_info(handle)) or {}
        memory = self._ask(lambda: smi.amdsmi_get_gpu_vram_usage(handle)) or {}
        others = self._others()
        drawn = _number(power, "current_socket_power") or _number(power, "average_socket_power")
        limit = _number(power, "power_limit")
        return StatsReading(
            busy_frac=_hundredths(activity, "gfx_activity"),
            memory_busy_frac=_hundredths(activity, "umc_activity"),
            temperature_c=self._ask(
                lambda: smi.amdsmi_get_temp_metric(
                    handle, smi.AmdSmiTemperatureType.JUNCTION, smi.AmdSmiTemperatureMetric.CURRENT
                )
            ),
            power_mw=None if drawn is None else drawn * 1000,
            # The limit is in microwatts where it is large: versions of the library differ.
            power_limit_mw=None if limit is None else _limit_mw(limit),
            sm_clock_mhz=self._clock("GFX"),
            memory_clock_mhz=self._clock("MEM"),
            throttle_reasons=self._throttle_reasons(),
            used_bytes=_mebibytes(memory, "vram_used"),
            total_bytes=_mebibytes(memory, "vram_total"),
            others_bytes=None if others is None else sum(others),
            others_count=None if others is None else len(others),
        )

    def close(self) -> None:
        """Let go of AMD SMI."""
        self._ask(self._smi.amdsmi_shut_down)

    def _ask(self, call: Callable[[], _T]) -> _T | None:
        try:
            return call()
        except (self._smi.AmdSmiException, AttributeError):
            # AttributeError: a call that this version of the library does not have.
            return None

    def _clock(self, name: str) -> int | None:
        smi, handle = self._smi, self._handle
        kind = self._ask(lambda: getattr(smi.AmdSmiClkType, name))
        info = self._ask(lambda: smi.amdsmi_get_clock_info(handle, kind)) or {}
        # Called `cur_clk` before ROCm 6.2.
        return _number(info, "clk") or _number(info, "cur_clk")

    def _throttle_reasons(self) -> frozenset[str] | None:
        smi, handle = self._smi, self._handle
        status = self._ask(lambda: smi.amdsmi_get_violation_status(handle))
        if not status:
            return None
        known = {name: status[field] for field, name in _VIOLATIONS.items() if field in status}
        known = {name: value for name, value in known.items() if isinstance(value, bool | int)}
        return frozenset(name for name, value in known.items() if value) if known else None

    def _others(self) -> list[int] | None:
        smi, handle = self._smi, self._handle
        processes = self._ask(lambda: smi.amdsmi_get_gpu_process_list(handle))
        if not processes or all(one.get("pid") != self._pid for one in processes):
            return None
        others = [
            one.get("memory_usage", {}).get("vram_mem")
            for one in processes
            if one.get("pid") != self._pid
        ]
        return others if all(isinstance(size, int) for size in others) else None


def amd_stats(device: torch.device) -> AmdSmiStats | None:
    """Return the readings of an AMD device; None without amdsmi, driver or device."""
    if device.type != "cuda" or not torch.version.hip:
        return None
    try:
        import amdsmi
    except (ImportError, OSError, AttributeError, KeyError):
        return None  # OSError: the package is there and its library is not
    try:
        amdsmi.amdsmi_init()  # torch 2.13 asks it for the index, and does not begin it
        # Heeds HIP_VISIBLE_DEVICES, which AMD SMI does not.
        index = amdsmi_index(device)
        return AmdSmiStats(index, smi=amdsmi)
    except (amdsmi.AmdSmiException, RuntimeError, AttributeError, LookupError):
        return None


def _number(values: Mapping[str, Any], name: str) -> int | None:
    """Return a value, where it is one: what is not supported reads "N/A"."""
    value = values.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _hundredths(values: Mapping[str, Any], name: str) -> float | None:
    value = _number(values, name)
    return None if value is None else value / 100


def _mebibytes(values: Mapping[str, Any], name: str) -> int | None:
    value = _number(values, name)
    return None if value is None else value * _MIB


def _limit_mw(limit: int) -> int:
    return limit // 1000 if limit >= 1_000_000 else limit * 1000
