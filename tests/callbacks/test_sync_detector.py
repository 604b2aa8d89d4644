"""Host syncs by line and owner: ten known ones are found, and nothing is found in a clean loop."""

import threading
import warnings
from pathlib import Path

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.plugins import MixedPrecision
from torch.utils.data import DataLoader

from lightning_gpuprof.callbacks.sync_detector import SyncDetector
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.findings.sync_cures import cure
from lightning_gpuprof.probes.syncs.sync_watch import Patches
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import (
    SYNC_STEPS_NOTE,
    Note,
    ProbeDisabled,
    StepFlag,
    SyncSite,
)
from lightning_gpuprof.session.places import shown_path


def fit(folder, model, *callbacks, batches=10, progress=False, **options):
    trainer = Trainer(
        **{
            "max_epochs": 1,
            "limit_train_batches": batches,
            "limit_val_batches": 0,
            "enable_progress_bar": progress,
            "logger": CSVLogger(folder),
            "callbacks": list(callbacks),
        }
        | options
    )
    trainer.fit(model)
    return trainer


def rows(folder, model, *callbacks, **options):
    trainer = fit(folder, model, SyncDetector(start=2, steps=3), *callbacks, **options)
    session = read_run(trainer.logger.log_dir)[0].sessions[0]
    assert not session.all(ProbeDisabled)
    return session.all(SyncSite)


def test_ten_known_syncs_are_ten_rows_with_their_lines_and_owners(tmp_path, seeded_syncs):
    found = rows(tmp_path, seeded_syncs.Seeded(), seeded_syncs.GradientWatcher(), progress=True)
    assert sorted((site.line, site.owner) for site in found) == seeded_syncs.expected()
    assert len(found) == 10
    assert {site.file for site in found} == {shown_path(seeded_syncs.__file__)}
    assert {site.source for site in found} <= {
        line.strip()
        for line in Path(seeded_syncs.__file__).read_text(encoding="utf-8").splitlines()
    }
    assert {site.operation for site in found} == {
        "item", "tolist", "print", "bool", "boolean mask", "pageable copy", "synchronize",
    }  # fmt: skip
    assert all(site.steps_watched == 3 and site.would_sync for site in found)
    assert all(site.count == 3 for site in found if site.owner != "lightning")
    assert all(site.blocked_ns is None for site in found), "nothing blocks on a CPU"
    by_owner = {site.owner: site for site in found}
    assert by_owner["callback:GradientWatcher"].phase == "callbacks"
    assert by_owner["metric"].phase == "forward"
    assert by_owner["metric"].function == "update"


def test_a_gradient_scalers_look_at_overflow_is_lightnings(tmp_path):
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    precision = MixedPrecision("16-mixed", "cpu", scaler=scaler)
    [site] = rows(tmp_path, BoringModel(), plugins=[precision])
    assert (site.owner, site.operation, site.phase) == ("lightning", "item", "optimizer_step")
    assert site.count == 3
    assert site.file.endswith("amp.py")
    assert "bf16-mixed" in cure(site)


def test_a_clean_loop_has_no_rows(tmp_path, seeded_syncs):
    assert rows(tmp_path, seeded_syncs.Clean(), progress=True) == []


def test_a_value_logged_each_step_is_lightnings_at_the_line_of_the_log_call(tmp_path, seeded_syncs):
    found = rows(tmp_path, seeded_syncs.Clean(), log_every_n_steps=1)
    [site] = [site for site in found if site.owner == "lightning"]
    assert site.source == 'self.log("loss", loss)'
    assert site.phase == "logging"
    assert site.count == 3


def test_a_tensor_handed_to_a_logger_is_the_loggers_at_the_users_line(tmp_path):
    class Model(BoringModel):
        def training_step(self, batch, batch_idx):
            loss = super().training_step(batch, batch_idx)["loss"]
            self.logger.log_metrics({"loss": loss.detach()}, batch_idx)
            return loss

    [site] = rows(tmp_path, Model(), logger=TensorBoardLogger(tmp_path))
    assert (site.owner, site.phase, site.count) == ("logger:TensorBoardLogger", "logging", 3)
    assert site.source == 'self.logger.log_metrics({"loss": loss.detach()}, batch_idx)'


def test_deferred_loss_and_the_callback_for_all_make_no_sync(tmp_path):
    from lightning_gpuprof.callbacks.deferred_loss import DeferredLoss
    from lightning_gpuprof.callbacks.gpuprof import GpuProfCallback

    mine = [GpuProfCallback(trace=False, window=2, console=False, report=False, metrics=())]
    assert rows(tmp_path, BoringModel(), *mine, DeferredLoss(window=2)) == []


def test_only_the_watched_steps_run_under_the_watch_and_are_flagged(tmp_path):
    from lightning_gpuprof.callbacks.phase_timer import PhaseTimer

    depths = []

    class Model(BoringModel):
        def training_step(self, batch, batch_idx):
            depths.append(torch._C._len_torch_dispatch_stack())
            return super().training_step(batch, batch_idx)

    trainer = fit(
        tmp_path, Model(), PhaseTimer(console=False), SyncDetector(start=4, steps=2), batches=8
    )
    assert depths == [0, 0, 0, 0, 1, 1, 0, 0]
    session = read_run(trainer.logger.log_dir)[0].sessions[0]
    flags = session.columns["flags"]
    assert [step for step, flag in enumerate(flags) if flag & StepFlag.WATCHED] == [4, 5]


def test_weights_are_the_same_bit_by_bit_with_and_without(tmp_path):
    def weights(*callbacks):
        torch.manual_seed(0)
        model = BoringModel()
        fit(tmp_path, model, *callbacks)
        return [parameter.detach().clone() for parameter in model.parameters()]

    plain, watched = weights(), weights(SyncDetector(start=2, steps=3))
    assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))


def test_an_error_in_a_watched_step_puts_everything_back(tmp_path):
    class Broken(BoringModel):
        def training_step(self, batch, batch_idx):
            if batch_idx == 3:
                raise RuntimeError("broken")
            return {"loss": super().training_step(batch, batch_idx)["loss"].relu()}

    synchronize = torch.cuda.synchronize
    with pytest.raises(RuntimeError, match="broken"):
        fit(tmp_path, Broken(), SyncDetector(start=2, steps=3))
    assert torch._C._len_torch_dispatch_stack() == 0
    assert torch.cuda.synchronize is synchronize


def test_a_window_waits_while_something_else_measures(tmp_path):
    steps, watched = iter(range(20)), []

    class Other:
        @property
        def busy(self):
            return next(steps) in (0, 1, 2, 4)

    class Watch:
        would_sync = True

        def start(self):
            watched.append("start")
            return True

        def stop(self):
            watched.append("stop")

    detector = SyncDetector(
        start=0,
        steps=3,
        beside=Other(),
        new_watch=lambda trainer, report, fetching: Watch(),
        on_sites=lambda sites, steps: watched.append(steps),
    )
    fit(tmp_path, BoringModel(), detector)
    assert watched == ["start", "stop", 1], "it ended when the other began"


def test_numbers_that_never_watch_are_refused():
    with pytest.raises(ConfigError, match="would never watch"):
        SyncDetector(steps=0)


class Device:
    """Stands for torch.cuda: a debug mode, and a warning per sync while it is on."""

    def __init__(self, mode=0):
        self.mode = mode
        self.warned = False

    def get_sync_debug_mode(self):
        return self.mode

    def set_sync_debug_mode(self, mode):
        if not self.warned:  # as torch does, once
            self.warned = True
            warnings.warn("Synchronization debug mode is a prototype feature", stacklevel=1)
        self.mode = {"default": 0, "warn": 1, "error": 2}.get(mode, mode)


# As if it were torch's own code: frames of generated code are passed over.
_ITEM = """
def item(tensor):
    if device.mode == 1:
        warnings.warn("called a synchronizing CUDA operation (Triggered internally)")
    return original(tensor)
"""


@pytest.fixture
def on_cuda(monkeypatch):
    """A detector on a device that syncs in `.item()`, each call taking 7 ns."""
    from lightning_gpuprof.probes.syncs.sync_debug import CudaSyncWatch

    device = Device()
    names = {"device": device, "warnings": warnings, "original": torch.Tensor.item}
    exec(compile(_ITEM, "<torch>", "exec"), names)
    monkeypatch.setattr(torch.Tensor, "item", names["item"])
    ticks = iter(range(0, 10**6, 7))

    def new_watch(trainer, report, fetching):
        return CudaSyncWatch(report, clock=lambda: next(ticks), device=device)

    return device, new_watch


class Reading(BoringModel):
    def training_step(self, batch, batch_idx):
        out = super().training_step(batch, batch_idx)
        other = threading.Thread(target=out["loss"].detach().item)
        other.start()
        other.join()
        for _ in range(2):
            out["loss"].item()
        return out


def test_on_cuda_torchs_warnings_become_rows_with_the_time_they_took(tmp_path, on_cuda):
    device, new_watch = on_cuda
    shown = warnings.showwarning
    found = []
    detector = SyncDetector(
        start=2, steps=3, new_watch=new_watch, on_sites=lambda sites, steps: found.extend(sites)
    )
    fit(tmp_path, Reading(), detector)
    [site] = found
    assert site.source == 'out["loss"].item()'
    assert (site.operation, site.owner, site.count) == ("item", "user", 6)
    # The clock is asked four times a read, twice for what telling of it takes: no part of it.
    assert site.blocked_ns == 6 * (3 * 7 - 7)
    assert not site.would_sync
    assert device.mode == 0
    assert warnings.showwarning is shown
    assert not any("synchronizing" in str(entry) for entry in warnings.filters)


def test_a_wait_that_torch_warns_of_as_well_counts_once(tmp_path, on_cuda, monkeypatch):
    _, new_watch = on_cuda

    def synchronize(device=None):  # as one of a stream does
        warnings.warn("called a synchronizing CUDA operation", stacklevel=1)

    monkeypatch.setattr(torch.cpu, "synchronize", synchronize)

    class Waiting(BoringModel):
        def training_step(self, batch, batch_idx):
            torch.cpu.synchronize()
            return super().training_step(batch, batch_idx)

    found = []
    detector = SyncDetector(
        start=2, steps=3, new_watch=new_watch, on_sites=lambda sites, steps: found.extend(sites)
    )
    fit(tmp_path, Waiting(), detector)
    assert [(site.operation, site.count) for site in found] == [("synchronize", 3)]


def test_on_cuda_torchs_word_of_a_prototype_is_kept_from_the_user(on_cuda):
    _, new_watch = on_cuda
    watch = new_watch(None, lambda operation: None, None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert watch.start()
        watch.stop()


def test_on_cuda_a_read_while_a_batch_is_fetched_is_the_loaders(tmp_path, on_cuda):
    class Rows(RandomDataset):
        def __getitem__(self, index):
            row = super().__getitem__(index)
            return row * row.sum().item()

    class Model(BoringModel):
        def train_dataloader(self):
            return DataLoader(Rows(32, 64), batch_size=2)

    found = []
    detector = SyncDetector(
        start=2, new_watch=on_cuda[1], on_sites=lambda sites, steps: found.extend(sites)
    )
    fit(tmp_path, Model(), detector)
    [site] = found
    assert site.source == "return row * row.sum().item()"
    assert (site.owner, site.phase, site.count) == ("dataloader", "data_wait", 6)


def test_on_cuda_a_users_setting_is_left_as_it_was(tmp_path, on_cuda):
    device, new_watch = on_cuda
    device.mode = 2
    found = []
    detector = SyncDetector(
        start=2, new_watch=new_watch, on_sites=lambda sites, steps: found.append(sites)
    )
    fit(tmp_path, BoringModel(), detector)
    assert device.mode == 2, "each sync raises: there is nothing to watch"
    assert found == []


def test_a_patch_by_somebody_else_meanwhile_stays():
    class Target:
        name = "theirs"

    patches = Patches()
    patches.put(Target, "name", lambda original: "ours")
    Target.name = "theirs again"
    patches.restore()
    assert Target.name == "theirs again"


def test_the_callback_for_all_watches_between_warm_up_and_trace(tmp_path):
    from lightning_gpuprof.callbacks.gpuprof import GpuProfCallback

    callback = GpuProfCallback(
        sync_steps=2, warmup_steps=2, wait=6, warmup=1, active=1, console=False, report=False
    )
    trainer = fit(tmp_path, BoringModel(), callback)
    session = read_run(trainer.logger.log_dir)[0].sessions[0]
    (note,) = (note for note in session.all(Note) if note.name == SYNC_STEPS_NOTE)
    assert (note.step, note.value) == (4, 2)
    assert not any(session.columns["flags"][2:4] & StepFlag.PROFILED)


def test_the_callback_for_all_leaves_a_loop_on_a_cpu_alone_unless_asked(tmp_path):
    from lightning_gpuprof.callbacks.gpuprof import GpuProfCallback

    trainer = fit(tmp_path, BoringModel(), GpuProfCallback(console=False, report=False))
    notes = read_run(trainer.logger.log_dir)[0].sessions[0].all(Note)
    assert SYNC_STEPS_NOTE not in [note.name for note in notes]


@pytest.fixture
def watching(on_cuda):
    """A watch on a device that never syncs, begun and ended by the test."""
    _, new_watch = on_cuda
    watch = new_watch(None, lambda operation: None, None)
    yield watch
    watch.stop()


def test_while_watching_nothing_is_compiled_anew_and_no_graph_breaks(watching):
    from torch._dynamo.utils import counters

    def body(x):
        y = torch.where(x > 0, x, 0.0).to(torch.float64) + torch.tensor([1.0, 2.0])
        return x.masked_select(x > 0), y  # breaks the graph: its shape depends on values

    x = torch.ones(2)
    first = torch.compile(body, backend="eager")
    first(x)
    before = str(counters)
    assert watching.start()
    first(x)
    assert str(counters) == before


def test_a_tensors_own_class_is_told_torchs_own_functions(watching):
    told = []

    class Image(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            told.append(func in known)
            return super().__torch_function__(func, types, args, kwargs or {})

    known = {torch.Tensor.to, torch.Tensor.tolist}
    image = torch.ones(2).as_subclass(Image)
    assert watching.start()
    image.to(torch.float64)
    image.tolist()
    assert told == [True, True]
