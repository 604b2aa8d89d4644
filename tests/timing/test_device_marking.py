import numpy as np
import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, Dataset

from lightning_gpuprof.analysis.run.run import analyze_run
from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.records.device_marks import StepState
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import NOT_MEASURED, Note, ProbeDisabled

US, MS = 1_000, 1_000_000


def near(value):
    """The calibration is as sharp as the host asks often: every 100 ns here."""
    return pytest.approx(value, abs=100)


class Data(Dataset):
    def __init__(self, clock, wait_ns, length):
        self.clock, self.wait_ns, self.length = clock, wait_ns, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        self.clock.now_ns += self.wait_ns
        return torch.ones(4)


class Model(LightningModule):
    """Each phase takes the host and a simulated device as long as it is told."""

    def __init__(self, device, *, host_ns=100 * US, work_ns=MS, data_ns=50 * US, steps=20, sync=()):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.simulated, self.clock = device, device.clock
        self.host_ns, self.work_ns, self.data_ns = host_ns, work_ns, data_ns
        self.steps, self.sync = steps, sync

    def run(self, phase, share=1):
        self.clock.now_ns += self.host_ns
        self.simulated.launch(share * self.work_ns)
        if phase in self.sync:
            self.simulated.sync()

    def train_dataloader(self):
        return DataLoader(Data(self.clock, self.data_ns, self.steps))

    def training_step(self, batch, batch_idx):
        self.run("forward")
        return self.layer(batch).sum()

    def backward(self, loss):
        self.run("backward", 2)
        loss.backward()

    def on_train_end(self):
        self.simulated.sync()  # as a checkpoint or a last metric does

    def configure_optimizers(self):
        return Optimizer(self, self.parameters())


class Optimizer(torch.optim.SGD):
    def __init__(self, model, parameters):
        super().__init__(parameters, lr=1e-3)
        self.model = [model]

    def step(self, closure=None):
        loss = closure()
        self.model[0].run("optimizer_step")
        return loss


@pytest.fixture
def fit(clock, tmp_path):
    def fitted(model, *callbacks, window=64, console=False, **options):
        timer = PhaseTimer(
            window=window, warmup=0, console=console, clock=clock, device_marks=model.simulated
        )
        defaults = {"max_epochs": 1, "logger": False, "default_root_dir": tmp_path}
        trainer = Trainer(callbacks=[timer, *callbacks], **(defaults | options))
        trainer.fit(model)
        return read_run(timer._context.run_dir)

    return fitted


def session(run):
    return run[0].sessions[-1]


def device_columns(run):
    columns = session(run).columns
    return {k: v for k, v in columns.items() if k.startswith(("device", "run_ahead"))}


def test_a_slow_device_is_further_behind_with_every_step(clock, fake_device, fit):
    run = fit(Model(fake_device(clock)))
    columns = device_columns(run)
    steps = slice(1, 19)
    assert set(columns["device/forward"][steps]) == {MS}
    assert set(columns["device/backward"][steps]) == {2 * MS}
    assert set(columns["device/optimizer_step"][steps]) == {MS}
    assert set(columns["device_dur"][steps]) == {4 * MS}
    # Each step takes the host 350 us and the device 4 ms.
    assert set(np.diff(columns["run_ahead/backward"][steps])) == {3_650 * US}
    found = analyze_run(run, {}).device.time
    assert found.state is StepState.DEVICE_BOUND
    assert found.state_frac[StepState.DEVICE_BOUND] == 1.0


def test_device_phases_add_up_to_the_steps_device_time(clock, fake_device, fit):
    columns = device_columns(fit(Model(fake_device(clock, latency_ns=7 * US))))
    phases = sum(v for k, v in columns.items() if k.startswith("device/"))
    marked = columns["device_dur"] != NOT_MEASURED
    assert (phases[marked] == columns["device_dur"][marked]).all()
    assert marked.sum() >= 10


@pytest.mark.parametrize(
    ("times", "says"),
    [
        ({}, "GPU 100% busy: it is the limit"),
        ({"host_ns": 2 * MS, "work_ns": 10 * US}, "GPU: it waits for the host"),
        ({"host_ns": 2 * MS, "work_ns": 10 * US, "data_ns": 20 * MS}, "GPU: it waits for data"),
    ],
)
def test_the_live_line_ends_with_what_the_device_does(clock, fake_device, fit, shown, times, says):
    device = fake_device(clock, latency_ns=5 * US, poll_ns=100)
    fit(Model(device, **times), console=True)
    assert any(line.endswith(f" samples/s | {says}") for line in shown()), shown()


def test_a_wait_that_the_device_does_not_notice_is_no_data_wait(clock, fake_device, fit):
    run = fit(Model(fake_device(clock), data_ns=3 * MS))
    assert set(device_columns(run)["device/data_wait"][1:19]) == {0}
    assert analyze_run(run, {}).device.time.state is StepState.DEVICE_BOUND


@pytest.mark.parametrize("phase", ["backward", "optimizer_step"])
def test_a_sync_in_every_step_shows_as_a_fall_of_run_ahead(clock, fake_device, fit, phase):
    run = fit(Model(fake_device(clock, latency_ns=5 * US, poll_ns=100), sync=[phase]))
    columns = device_columns(run)
    assert columns[f"run_ahead/{phase}"][1:19] == near(5 * US)
    assert columns["run_ahead/forward"][5] > 900 * US
    found = analyze_run(run, {}).device.time
    assert found.state_frac[StepState.SYNC_BOUND] == 1.0


def test_steps_are_written_once_and_in_order_however_late_their_marks_come(clock, fake_device, fit):
    run = fit(Model(fake_device(clock, late_ns=9 * MS, depth=4), steps=60), window=8)
    found = session(run)
    assert found.columns["step"].tolist() == list(range(60))
    measured = found.columns["device_dur"] != NOT_MEASURED
    assert measured[:50].all()
    assert set(found.columns["device_dur"][5:50]) == {4 * MS}


def test_an_event_that_fails_switches_marks_off_and_nothing_else(clock, fake_device, fit, said):
    device = fake_device(clock, fails_after=60)
    with said(r"(?s)DeviceMarking failed.*device-side assert"):
        run = fit(Model(device))
    found = session(run)
    assert found.steps == 20
    assert found.end.status == "finished"
    [disabled] = found.all(ProbeDisabled)
    assert disabled.probe == "DeviceMarking"


@pytest.fixture
def slow_device(clock, fake_device):
    """One to queue an event for takes the host some time, and more where it is behind."""

    class Slow(fake_device):
        def __init__(self, *, queueing_ns=10 * US, waiting_ns=0):
            super().__init__(clock)
            self.queueing_ns, self.waiting_ns = queueing_ns, waiting_ns

        def record(self, event):
            behind = self.free_ns > clock.now_ns
            clock.now_ns += self.queueing_ns + (self.waiting_ns if behind else 0)
            return super().record(event)

    return Slow


def test_a_budget_that_is_exceeded_thins_the_marks_out_and_says_so(slow_device, fit):
    run = fit(Model(slow_device(), host_ns=MS, work_ns=10 * US, steps=160), window=8)
    found = session(run)
    notes = [note for note in found.all(Note) if note.name == "device_marks_every"]
    note = notes[-1]
    assert note.value > 1
    assert f"every {note.value}. step is marked" in note.message
    later = found.columns["device_dur"][note.step + 1 :] != NOT_MEASURED
    assert later.sum() == pytest.approx(len(later) / note.value, abs=1)
    cost = found.end.own_cost_ns_per_step
    assert cost >= 6 * 10 * US / note.value


def every(found):
    notes = [note for note in found.all(Note) if note.name == "device_marks_every"]
    return notes[-1].value if notes else 1


def test_a_wait_in_a_full_queue_is_no_cost_of_the_marks(slow_device, fit):
    device = slow_device(queueing_ns=2 * US, waiting_ns=MS)
    found = session(fit(Model(device, host_ns=MS, work_ns=20 * MS, steps=60), window=8))
    assert every(found) == 1


def test_several_epochs_and_validation_leave_every_step_whole(clock, fake_device, fit):
    class Validating(Model):
        def val_dataloader(self):
            return DataLoader(Data(self.clock, self.data_ns, 2))

        def validation_step(self, batch, batch_idx):
            self.run("validation")

    model = Validating(fake_device(clock, depth=2), steps=6)
    run = fit(model, max_epochs=3, val_check_interval=3, num_sanity_val_steps=1)
    columns = device_columns(run)
    assert (columns["device_dur"][:17] != NOT_MEASURED).all()
    validated = columns["device/validation"] > 0
    assert validated.nonzero()[0].tolist() == [2, 5, 8, 11, 14, 17][: validated.sum()]
    assert set(columns["device/validation"][[2, 8]]) == {2 * MS}


def test_a_cpu_has_no_marks(clock, tmp_path, planted):
    timer = PhaseTimer(window=4, console=False, clock=clock)
    planted.fit(timer, clock, tmp_path)
    measured = planted.sessions(timer)[0]
    assert not [name for name in measured.columns if name.startswith(("device", "run_ahead"))]
