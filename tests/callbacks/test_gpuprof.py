import copy
import pickle
import warnings

import pytest
import torch
from lightning.fabric import Fabric
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.loggers import CSVLogger
from torch._dynamo.utils import counters
from training_fixtures import FailsAt

from lightning_gpuprof import GpuProfCallback
from lightning_gpuprof.adapters.callback_hooks import PER_BATCH_HOOKS
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.recorders.batch_sizes import BATCHES
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import ProbeDisabled, Scalars
from lightning_gpuprof.runtime import context as run_context


def test_one_line_records_a_run_and_shows_its_report(fit, shown):
    trainer = fit(GpuProfCallback(trace=False, window=5))

    session = read_run(trainer.log_dir)[0].sessions[0]
    assert session.steps == 12
    assert session.end.status == "finished"
    assert session.start.config["window"] == 5
    assert len(shown("[PROFILE] data:")) == 3
    assert "WHERE A STEP GOES" in shown()[-1]


def set_up_whole(fabric):
    fabric.setup(torch.nn.Linear(2, 2))


def set_up_module(fabric):
    fabric.setup_module(torch.nn.Linear(2, 2))
    fabric.call("on_train_start")


@pytest.mark.parametrize("set_up", [set_up_whole, set_up_module])
def test_in_a_loop_of_fabric_it_says_once_that_it_measures_nothing(fit, set_up, said):
    callback = GpuProfCallback(trace=False, report=False)
    fabric = Fabric(accelerator="cpu", devices=1, callbacks=[callback])
    with said("measures nothing in a loop of Fabric"):
        set_up(fabric)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fabric.call("on_train_end")
        fabric.call("on_train_batch_end", loss=1.0)
        fabric.call("on_fit_end")
        fabric.call("on_exception")

    assert read_run(fit(callback).log_dir)[0].sessions[0].steps == 12  # a Trainer takes it still


def test_a_full_disk_is_given_as_the_reason_for_no_report(fit, caplog, monkeypatch, said):
    def full_disk(writer):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_context.RecordWriter, "flush", full_disk)
    with said("No space left"):
        fit(GpuProfCallback(trace=False))
    assert "no report: what was measured could not be written" in caplog.records[-1].getMessage()


def test_a_fit_without_a_batch_does_not_show_the_earlier_report_as_its_own(fit, caplog, shown):
    callback = GpuProfCallback(trace=False)
    trainer = fit(callback)
    caplog.clear()
    trainer.fit(BoringModel())
    (said,) = shown("report")
    assert said == (
        "[PROFILE] no report: this fit trained no batch. The previous fit's report: "
        f"lightning-gpuprof report {callback._context.run_dir}"
    )


def test_after_ctrl_c_the_command_that_shows_what_was_measured_is_said(fit, shown):
    callback = GpuProfCallback(trace=False, window=5)
    with pytest.raises(SystemExit):
        fit(callback, model=FailsAt(8, KeyboardInterrupt()))
    run = callback._context.run_dir
    assert f"lightning-gpuprof report {run}" in shown()[-1]
    assert read_run(run)[0].sessions[0].end.status == "interrupted"


def test_building_it_asks_nothing_of_cuda_so_that_processes_can_still_be_forked(monkeypatch):
    def asked(*_, **__):
        raise AssertionError("CUDA cannot be used in a process that is forked after this")

    asking = "is_available device_count current_device current_stream get_device_properties Event"
    for name in ("_lazy_init", "init", *asking.split()):
        monkeypatch.setattr(torch.cuda, name, asked)
    assert copy.deepcopy(GpuProfCallback()).parts


@pytest.mark.parametrize(("broken_in", "said"), [("setup", 0), (0, 0), (8, 1)])
def test_an_error_before_a_step_has_ended_is_left_to_itself(fit, shown, broken_in, said):
    class Broken(FailsAt):
        def configure_optimizers(self):
            if broken_in == "setup":
                raise ValueError("no")
            return super().configure_optimizers()

    model = Broken(broken_in, ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        fit(GpuProfCallback(trace=False, window=5), model=model)
    assert len(shown("the run ended early")) == said
    assert bool(shown("[PROFILE] data:")) == bool(said)


def test_only_metrics_that_were_asked_for_are_missed(fit, caplog, said):
    class ReturnsNothing(BoringModel):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            pass

    fit(GpuProfCallback(report=False), model=ReturnsNothing())
    assert "recorded nothing" not in caplog.text
    with said(r"recorded nothing for \['kl'\]"):
        fit(GpuProfCallback(report=False, metrics=["kl"]), model=ReturnsNothing())


def test_a_logger_that_refuses_our_values_takes_only_itself_away(fit, tmp_path, said):
    class Strict(CSVLogger):
        def log_metrics(self, metrics, step=None):
            raise KeyError("strict")

    with said("Logging to Strict failed") as warned:
        trainer = fit(GpuProfCallback(trace=False, window=5), logger=Strict(tmp_path))
    assert sum("Logging to Strict failed and is off" in text for text in warned) == 2
    session = read_run(trainer.log_dir)[0].sessions[0]
    assert (session.steps, session.end.status) == (12, "finished")
    assert sum(len(record.steps) for record in session.all(Scalars)) == 12
    assert {one.probe for one in session.all(ProbeDisabled)} == {"Logging to Strict"}


@pytest.mark.parametrize("whole", [False, True])
def test_compiled_code_is_compiled_as_without_it(fit, whole):
    def counted(*callbacks):
        torch._dynamo.reset()
        counters.clear()
        model = BoringModel()
        if whole:
            model = torch.compile(model, backend="eager")
        else:
            layers = torch.nn.Sequential(model.layer, torch.nn.ReLU())
            model.layer = torch.compile(layers, backend="eager")
        fit(*callbacks, model=model)
        return {kind: dict(counts) for kind, counts in counters.items()}

    bare = counted()
    assert bare["stats"]["unique_graphs"]
    assert counted(GpuProfCallback(report=False)) == bare


def test_it_can_be_copied_and_pickled(fit):
    callback = GpuProfCallback(window=5, trace=False)
    fit(callback)

    for again in (copy.deepcopy(callback), pickle.loads(pickle.dumps(callback))):
        assert again.config == callback.config
        assert fit(again).state.finished


def test_a_device_that_cannot_be_profiled_is_refused_only_where_asked_for(fit, monkeypatch, said):
    def refuse(device_type, capture_range):
        raise ConfigError("cannot record on this device")

    module = "lightning_gpuprof.callbacks.profiler_schedule.refuse_device"
    monkeypatch.setattr(module, refuse)

    with said("cannot record on this device"):
        trainer = fit(GpuProfCallback(report=False))
    assert read_run(trainer.log_dir)[0].sessions[0].steps == 12
    with pytest.raises(ConfigError, match="cannot record"):
        fit(GpuProfCallback(active=1, wait=1))


def test_parts_keep_their_state_across_a_resume(fit, tmp_path):
    trainer = fit(GpuProfCallback(trace=False), enable_checkpointing=True)
    checkpoint = trainer.checkpoint_callback.best_model_path

    again = Trainer(
        max_epochs=2,
        limit_train_batches=12,
        limit_val_batches=0,
        callbacks=[GpuProfCallback(trace=False, report=False)],
        default_root_dir=tmp_path,
    )
    again.fit(BoringModel(), ckpt_path=checkpoint)

    assert again.state.finished
    assert read_run(again.log_dir)[0].sessions[0].steps == 12


def test_most_batches_have_no_hook_but_that_which_takes_the_loss(fit):
    callback = GpuProfCallback(trace=False, report=False, window=4, metrics=())
    with_hook = []

    class Model(BoringModel):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            with_hook.append((batch_idx, called[-1]))

        def optimizer_step(self, *args, **kwargs):
            super().optimizer_step(*args, **kwargs)
            called.append([hook for hook in PER_BATCH_HOOKS if callable(getattr(callback, hook))])

    called = []
    fit(callback, model=Model(), limit_train_batches=40, limit_val_batches=0)

    # The sizes of the first batches are read.
    within_windows = [batch for batch, hooks in with_hook if hooks and batch % 4 != 3]
    assert within_windows == [batch for batch in range(BATCHES) if batch % 4 != 3]
