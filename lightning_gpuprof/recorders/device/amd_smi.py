"""Device readings from AMD SMI, where ROCm's `amdsmi` is installed."""

from collections.abc import Mapping
from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.adapters.device_events import amdsmi_index
from lightning_gpuprof.recorders.device.device_stats import DeviceStats, StatsReading

_VIOLATIONS = {
    "active_prochot_thrm": "hw_thermal_slowdown",
    "active_ppt_pwr": "sw_power_cap",
    "active_socket_thrm": "socket_thermal_slowdown",
    "active_vr_thrm": "voltage_regulator_thermal_slowdown",
    "active_hbm_thrm": "hbm_thermal_slowdown",
}
"""Fields of `amdsmi_get_violation_status`, given on MI300 and later."""


class AmdSmiStats(DeviceStats):
    """The readings of one AMD device."""

    def __init__(self, index: int, *, smi: Any) -> None:
        # AttributeError: a call that this version of the library does not have.
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
        busy = _number(self._get("gpu_activity"), "gfx_activity")
        power = self._get("power_info")
        drawn = _number(power, "current_socket_power") or _number(power, "average_socket_power")
        limit = _number(power, "power_limit")
        clock = self._ask(lambda: smi.amdsmi_get_clock_info(handle, smi.AmdSmiClkType.GFX))
        sizes = [
            (one.get("pid"), one.get("memory_usage", {}).get("vram_mem"))
            for one in self._get("gpu_process_list") or ()
        ]
        return StatsReading(
            busy_frac=None if busy is None else busy / 100,
            temperature_c=self._ask(
                lambda: smi.amdsmi_get_temp_metric(
                    handle, smi.AmdSmiTemperatureType.JUNCTION, smi.AmdSmiTemperatureMetric.CURRENT
                )
            ),
            power_mw=None if drawn is None else drawn * 1000,
            # The limit is in microwatts where it is large: versions of the library differ.
            power_limit_mw=limit and (limit // 1000 if limit >= 1_000_000 else limit * 1000),
            # Called `cur_clk` before ROCm 6.2.
            sm_clock_mhz=_number(clock, "clk") or _number(clock, "cur_clk"),
            throttle_reasons=_throttle_reasons(self._get("violation_status") or {}),
            **self._others(sizes),
        )

    @override
    def close(self) -> None:
        self._ask(self._smi.amdsmi_shut_down)

    def _get(self, name: str) -> Any:
        return self._ask(lambda: getattr(self._smi, f"amdsmi_get_{name}")(self._handle))


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


def _number(values: Mapping[str, Any] | None, name: str) -> int | None:
    """Return a value, where it is one: what is not supported reads "N/A"."""
    value = (values or {}).get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _throttle_reasons(status: Mapping[str, Any]) -> frozenset[str] | None:
    known = {name: status.get(field) for field, name in _VIOLATIONS.items()}
    known = {name: value for name, value in known.items() if isinstance(value, bool | int)}
    return frozenset(name for name, value in known.items() if value) if known else None
