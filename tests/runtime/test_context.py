from pathlib import Path

import pytest
import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from tensorboard.backend.event_processing import event_multiplexer
from torch.utils.data import DataLoader, Subset

from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import Note
from lightning_gpuprof.runtime import context as run_context
from lightning_gpuprof.runtime.context import RunContext
from lightning_gpuprof.runtime.marker import FILE_NAME


class Probe(Callback):
    def setup(self, trainer, pl_module, stage):
        self.context = RunContext.of(trainer)

    def on_train_batch_end(self, trainer, *args):
        self.context.write(Note(step=0, name="batch"))
        self.context.flush()

    def teardown(self, trainer, pl_module, stage):
        self.context.end("finished")


@pytest.fixture
def fit(tmp_path):
    def train(*callbacks, trainer=None, train=None, model=None, **options):
        options = {"logger": False, **options}
        trainer = trainer or Trainer(
            max_epochs=1,
            limit_train_batches=3,
            limit_val_batches=0,
            callbacks=list(callbacks),
            default_root_dir=tmp_path,
            **options,
        )
        trainer.fit_loop.max_epochs += 1
        trainer.fit(model or BoringModel(), train)
        return trainer

    return train


def test_callbacks_of_one_trainer_share_one_session(fit):
    one, two = Probe(), Probe()

    fit(one, two)

    assert one.context is two.context
    (session,) = read_run(one.context.run_dir)[0].sessions
    assert len(session.all(Note)) == 6 * 2
    assert session.end.status == "finished"


def test_a_second_fit_is_a_second_session_of_the_same_file(fit):
    probe = Probe()
    trainer = fit(probe)
    first = probe.context.run_dir

    fit(trainer=trainer)

    assert probe.context.run_dir == first
    assert [s.start.session for s in read_run(first)[0].sessions] == [0, 1]


def test_the_session_begins_with_the_facts_of_the_run(fit):
    probe = Probe()
    fit(probe, accumulate_grad_batches=2)

    start = read_run(probe.context.run_dir)[0].sessions[0].start
    assert (start.stage, start.world_size, start.device.type) == ("fit", 1, "cpu")
    assert start.trainer["accumulate_grad_batches"] == 2
    assert start.model["class"] == "BoringModel"
    assert start.model["parameters"] == 66
    assert start.model["parameter_bytes"] == 264
    assert start.model["children"] == ["layer"]
    assert start.model["optimizers"][0]["class"] == "SGD"
    assert start.model["compiled"] is False
    assert start.loader.num_workers == 0
    assert (start.loader.dataset_kind, start.loader.sampler) == ("map", None)
    assert {"python", "torch", "lightning", "lightning_gpuprof"} <= set(start.versions)


class ByHand(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure=None):
        closure()
        for parameter in self.param_groups[0]["params"]:
            parameter -= 0.1 * parameter.grad


class Renamed(torch.optim.SGD):
    pass


@pytest.mark.parametrize(
    ("made", "package"), [(ByHand, ByHand.__module__.split(".")[0]), (Renamed, "torch")]
)
def test_whose_code_updates_the_weights_is_noted(fit, made, package):
    class Model(BoringModel):
        def configure_optimizers(self):
            return made(self.parameters())

    probe = Probe()
    fit(probe, model=Model())
    (optimizer,) = read_run(probe.context.run_dir)[0].sessions[0].start.model["optimizers"]
    assert (optimizer["class"], optimizer["package"]) == (made.__name__, package)


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(torch.randn(8, 32))


class Backwards(torch.utils.data.SequentialSampler):
    pass


def test_an_iterable_dataset_and_a_sampler_of_their_own_are_facts(fit):
    rows = torch.randn(8, 32)
    first, second = Probe(), Probe()
    fit(first, train=DataLoader(Stream()))
    fit(second, train=DataLoader(rows, sampler=Backwards(rows)))
    facts = [
        (start.loader.dataset_kind, start.loader.sampler)
        for probe in (first, second)
        for start in (read_run(probe.context.run_dir)[0].sessions[0].start,)
    ]
    assert facts == [("iterable", None), ("map", "Backwards")]


class Rows(torch.utils.data.TensorDataset):
    pass


def pad(rows):
    return torch.stack([row for (row,) in rows])


@pytest.mark.parametrize("wraps", [lambda data: data, lambda data: Subset(data, range(6))])
@pytest.mark.parametrize(("collate", "name"), [(pad, "pad"), (None, None)])
def test_the_dataset_inside_wrappers_and_the_collate_function_are_facts(fit, wraps, collate, name):
    probe, data = Probe(), wraps(Rows(torch.randn(8, 32)))
    fit(probe, train=DataLoader(data, collate_fn=collate), model=TakesBoth())
    loader = read_run(probe.context.run_dir)[0].sessions[0].start.loader
    assert (loader.dataset, loader.collate) == ("Rows", name)


class TakesBoth(BoringModel):
    def training_step(self, batch, batch_idx):
        return super().training_step(batch if torch.is_tensor(batch) else batch[0], batch_idx)


def test_an_unwritable_folder_is_said_once_and_training_goes_on(fit, tmp_path, said):
    (tmp_path / "lightning_logs").write_text("a file where a folder should be")
    probe = Probe()

    with said("cannot write") as warned:
        trainer = fit(probe)

    assert trainer.state.finished
    assert sum("cannot write" in text for text in warned) == 1


def test_a_disk_that_stays_full_does_not_fill_the_memory(fit, monkeypatch, said):
    def full_disk(writer):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_context.RecordWriter, "flush", full_disk)
    probe = Probe()
    with said("No space left"):
        fit(probe)

    assert not probe.context._writer._pending.lines


def test_tensorboard_finds_the_run_by_its_marker(fit):
    probe = Probe()
    trainer = fit(probe, logger=True)

    events = sorted(p.name for p in Path(trainer.logger.log_dir).glob("*tfevents*"))
    assert events[0] == FILE_NAME, "a later name would cut the logger's own events off"
    runs = event_multiplexer.EventMultiplexer({"run": trainer.logger.log_dir}).Reload()
    assert runs.PluginRunToTagToContent("gpuprof") == {"run": {"gpuprof": b""}}


def test_torchs_own_switches_are_recorded_as_training_has_them(session_of, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)
    timer = PhaseTimer(console=False)
    start = session_of(BoringModel(), timer, benchmark=True, limit_train_batches=2).start
    assert start.torch_settings["cudnn_benchmark"] is True
    assert start.torch_settings["cudnn_deterministic"] is False
    assert start.torch_settings["cudnn_allow_tf32"] is torch.backends.cudnn.allow_tf32
    assert start.torch_settings["float32_matmul_precision"] == "highest"
    assert start.torch_settings["deterministic_algorithms"] is False
