"""Reads AMD devices with AMD SMI, if ROCm's `amdsmi` is installed."""

from collections.abc import Mapping
from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.adapters.device_events import amdsmi_index
from lightning_gpuprof.recorders.device.device_stats import (
    DeviceStats,
    ProcessUse,
    StatsReading,
    others_use,
)

_VIOLATIONS = {
    "active_prochot_thrm": "hw_thermal_slowdown",
    "active_ppt_pwr": "sw_power_cap",
    "active_socket_thrm": "socket_thermal_slowdown",
    "active_vr_thrm": "voltage_regulator_thermal_slowdown",
    "active_hbm_thrm": "hbm_thermal_slowdown",
}
"""Fields of `amdsmi_get_violation_status`, which MI300 and later devices give."""


class AmdSmiStats(DeviceStats):
    """Reads an AMD device."""

    def __init__(self, index: int, *, smi: Any) -> None:
        # AttributeError means that this version of the library lacks a function.
        super().__init__(smi.AmdSmiException, AttributeError)
        self._smi = smi
        try:
            smi.amdsmi_init()
            self._handle = smi.amdsmi_get_processor_handles()[index]
        except (smi.AmdSmiException, IndexError) as error:
            raise RuntimeError(f"AMD SMI cannot be used: {error}") from error

    @override
    def read(self) -> StatsReading:
        smi, handle = self._smi, self._handle
        busy_percent = _number(self._get("gpu_activity"), "gfx_activity")
        power = self._get("power_info")
        watts = _number(power, "current_socket_power") or _number(power, "average_socket_power")
        limit = _number(power, "power_limit")
        clock = self._ask(lambda: smi.amdsmi_get_clock_info(handle, smi.AmdSmiClkType.GFX))
        processes = [
            ProcessUse(process.get("pid"), process.get("memory_usage", {}).get("vram_mem"))
            for process in self._get("gpu_process_list") or ()
        ]
        others_bytes, others_count = others_use(processes)
        return StatsReading(
            busy_frac=None if busy_percent is None else busy_percent / 100,
            temperature_c=self._ask(
                lambda: smi.amdsmi_get_temp_metric(
                    handle, smi.AmdSmiTemperatureType.JUNCTION, smi.AmdSmiTemperatureMetric.CURRENT
                )
            ),
            power_mw=None if watts is None else watts * 1000,
            # A large number is in microwatts, a small one in watts: versions of the library differ.
            power_limit_mw=limit and (limit // 1000 if limit >= 1_000_000 else limit * 1000),
            # Before ROCm 6.2 the name is `cur_clk`.
            sm_clock_mhz=_number(clock, "clk") or _number(clock, "cur_clk"),
            throttle_reasons=_throttle_reasons(self._get("violation_status") or {}),
            others_bytes=others_bytes,
            others_count=others_count,
        )

    @override
    def close(self) -> None:
        self._ask(self._smi.amdsmi_shut_down)

    def _get(self, name: str) -> Any:
        return self._ask(lambda: getattr(self._smi, f"amdsmi_get_{name}")(self._handle))


def amd_stats(device: torch.device) -> AmdSmiStats | None:
    """Return the reader of an AMD device; None without amdsmi, driver or device."""
    if device.type != "cuda" or not torch.version.hip:
        return None
    try:
        import amdsmi
    except (ImportError, OSError, AttributeError, KeyError):
        return None  # an OSError means that the package is installed without its library
    try:
        # To find the index, torch 2.13 calls AMD SMI without initializing it.
        amdsmi.amdsmi_init()
        # AMD SMI ignores HIP_VISIBLE_DEVICES; this index takes it into account.
        index = amdsmi_index(device)
        return AmdSmiStats(index, smi=amdsmi)
    except (amdsmi.AmdSmiException, RuntimeError, AttributeError, LookupError):
        return None


def _number(values: Mapping[str, Any] | None, name: str) -> int | None:
    """Return a number of AMD SMI, or None: what the device does not support reads "N/A"."""
    value = (values or {}).get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _throttle_reasons(status: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the active reasons, or None if the device does not report any field."""
    active = {name: status.get(field) for field, name in _VIOLATIONS.items()}
    reported = {name: value for name, value in active.items() if isinstance(value, bool | int)}
    return frozenset(name for name, value in reported.items() if value) if reported else None
