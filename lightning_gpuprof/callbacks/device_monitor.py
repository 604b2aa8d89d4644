"""Records what the device's driver reports: use, clocks, power, throttling, other processes."""

from collections.abc import Callable

import torch
from typing_extensions import override

from lightning_gpuprof.adapters.lightning import LightningModule, Trainer
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.recorders.device.amd_smi import amd_stats
from lightning_gpuprof.recorders.device.device_stats import (
    DeviceStats,
    StatsReading,
    StatsSampler,
    summarize,
)
from lightning_gpuprof.recorders.device.nvml import nvml_stats
from lightning_gpuprof.records.schema import Note
from lightning_gpuprof.runtime.guard import guarded
from lightning_gpuprof.runtime.hooks import PeriodicCalls, dispatcher_in
from lightning_gpuprof.runtime.recording import RecordingCallback

INTERVAL_S = 1.0
"""The interval at which drivers update their figures."""
NOT_MEASURED_NOTE = "device-stats-not-measured"


def device_stats(device: torch.device) -> DeviceStats | None:
    """Return the reader of a device, or None if the device cannot be read."""
    return nvml_stats(device) or amd_stats(device)


class DeviceMonitor(RecordingCallback):
    """Records the figures that NVML or AMD SMI report for the device, once per window.

    A separate thread takes the readings, which the training thread only collects. They need
    `nvidia-ml-py` or ROCm's `amdsmi`. Without these, and on a CPU, a note says that nothing is
    measured.

    Costs: a record per window, and otherwise nothing in the training thread.
    Touches: a thread that asks NVML or AMD SMI once a second, until training ends.
    When: training on a GPU.
    Switch: device_stats=False

    Args:
        window: Batches per record.
        stats: Returns the reader of a device; tests pass a fake.
        sampler: Creates the sampler; tests pass one without a thread.

    Raises:
        ConfigError: The window is below 1.
    """

    _of_a_run = ("_sampler", "_calls")

    def __init__(
        self,
        *,
        window: int = 50,
        stats: Callable[[torch.device], DeviceStats | None] = device_stats,
        sampler: Callable[..., StatsSampler[StatsReading]] = StatsSampler,
    ) -> None:
        if window < 1:
            raise ConfigError(
                f"DeviceMonitor(window={window}) would write nothing. Pass 1 or more."
            )
        super().__init__()
        self.window = window
        self._make_stats = stats
        self._make_sampler = sampler
        self._sampler: StatsSampler[StatsReading] | None = None
        self._calls: PeriodicCalls | None = None
        self._first = 0
        self._since_ns = 0

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        context = self._context
        if context is None:
            return
        self._since_ns = context.clock()
        stats = self._make_stats(trainer.strategy.root_device)
        if stats is None:
            message = "nvidia-ml-py or amdsmi is not installed, or the driver refuses it"
            context.write(Note(step=0, name=NOT_MEASURED_NOTE, message=message))
            return
        self._sampler = self._make_sampler(stats, interval_s=INTERVAL_S)
        self._sampler.start()
        # This is not done in `setup`, so that batches cost nothing if the device cannot be read.
        self._calls = dispatcher_in(trainer, self).periodic
        self._first = self._calls.batches
        self._calls.add(self._write, self.window)

    @override
    @guarded
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._write()
        self._release()

    @guarded
    def _write(self) -> None:
        context, sampler, calls = self._context, self._sampler, self._calls
        if context is None or sampler is None or calls is None:
            return
        readings, now = sampler.take(), context.clock()
        if readings:
            begun, self._since_ns = self._since_ns, now
            step = max(0, calls.batches - self._first - 1)
            context.write(summarize(readings, step=step, start_ns=begun, end_ns=now))
        if sampler.error is not None:
            context.note("device-stats-ended", message=sampler.error)
            sampler.error = None
        context.flush()

    @override
    def _rescue(self, trainer: Trainer, exception: BaseException) -> None:
        self._write()

    @override
    def _release(self) -> None:
        calls, self._calls = self._calls, None
        if calls is not None:
            calls.drop(self._write)
        sampler, self._sampler = self._sampler, None
        if sampler is not None:
            sampler.close()
