"""How timing is put into a Trainer, and how the parts beside it get it."""

import gc

import pytest
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.loggers import CSVLogger

from lightning_gpuprof.callbacks.device_monitor import DeviceMonitor
from lightning_gpuprof.callbacks.module_timer import ModuleTimer
from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.callbacks.run_facts import RunFacts
from lightning_gpuprof.recorders.device.device_stats import DeviceStats, StatsReading
from lightning_gpuprof.recorders.garbage_collection import GarbageCollections
from lightning_gpuprof.records.lines import ModuleCalls
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import DeviceSample, ProbeDisabled
from lightning_gpuprof.runtime.wrap import Wrappers


def fit(folder, *callbacks, model=None, **options):
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    defaults = {"max_epochs": 1, "limit_train_batches": 6, "limit_val_batches": 0}
    trainer = Trainer(
        default_root_dir=folder, callbacks=list(callbacks), **(quiet | defaults | options)
    )
    trainer.fit(model or BoringModel())
    return trainer


def session(timer):
    return read_run(timer._context.run_dir)[0].sessions[-1]


class Collecting(BoringModel):
    def training_step(self, batch, batch_idx):
        if batch_idx == 0:
            gc.collect()
        return super().training_step(batch, batch_idx)


@pytest.mark.parametrize("timer_first", [True, False])
def test_parts_get_the_timing_wherever_they_stand_among_the_callbacks(tmp_path, timer_first):
    timer, facts = PhaseTimer(console=False), RunFacts([GarbageCollections()])
    modules = ModuleTimer(["layer"])
    parts = [timer, facts, modules] if timer_first else [modules, facts, timer]
    fit(tmp_path, *parts, model=Collecting())

    written = session(timer)
    assert Phase.GARBAGE_COLLECTION.value in written.start.phases
    assert "phase/garbage_collection" in written.columns
    assert written.last(ModuleCalls).per_step == {"layer": 1.0}


def test_no_part_has_the_timing_once_the_session_has_ended(tmp_path):
    timer, modules = PhaseTimer(console=False), ModuleTimer(["layer"])
    fit(tmp_path, timer, modules)
    assert modules._timing is None
    assert timer._run is None


class Stats(DeviceStats):
    def read(self):
        return StatsReading(busy_frac=0.5)


class Sampler:
    """Has a reading whenever it is asked, without a thread."""

    error = None

    def __init__(self, stats, *, interval_s):
        self.stats = stats

    def start(self):
        pass

    def take(self):
        return [self.stats.read()]

    def close(self):
        pass


@pytest.mark.filterwarnings("ignore:PhaseTimer failed")
def test_a_failure_half_way_is_put_back_and_other_parts_go_on(tmp_path, monkeypatch):
    def refuse(wrappers, owner, name, call):
        raise RuntimeError("planted")

    monkeypatch.setattr(Wrappers, "call_after", refuse)
    timer = PhaseTimer(console=False)
    monitor = DeviceMonitor(window=2, stats=lambda device: Stats(), sampler=Sampler)
    logger = CSVLogger(tmp_path)
    trainer = fit(tmp_path, timer, monitor, logger=logger)

    assert type(trainer.profiler).__name__ == "PassThroughProfiler"
    assert {"log_metrics", "save"}.isdisjoint(vars(logger))
    assert "log" not in vars(trainer.lightning_module)
    written = session(timer)
    [disabled] = written.all(ProbeDisabled)
    assert disabled.error == "RuntimeError: planted"
    # A hook counts the batches now: a sample each two batches, and one at the end.
    assert len(written.all(DeviceSample)) == 4
