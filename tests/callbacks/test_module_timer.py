import copy

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import nn
from torch.utils.data import DataLoader

from lightning_gpuprof import region
from lightning_gpuprof.analysis.run.module_times import module_times
from lightning_gpuprof.analysis.run.run import analyze_run
from lightning_gpuprof.callbacks.module_timer import ModuleTimer
from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records.lines import ModuleCalls
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import Note

US, MS = 1_000, 1_000_000
STEPS = 6


class Work(torch.autograd.Function):
    """Takes host and device time, forward and backward."""

    @staticmethod
    def forward(ctx, x, layer):
        ctx.layer = layer
        layer.spend(layer.forward_ns)
        return x * 1.0

    @staticmethod
    def backward(ctx, grad):
        ctx.layer.spend(ctx.layer.backward_ns)
        return grad, None


class Slow(nn.Module):
    def __init__(self, device, forward_ns, backward_ns, fails=False):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.device_, self.forward_ns, self.backward_ns = device, forward_ns, backward_ns
        self.fails = fails

    def spend(self, ns):
        self.device_.clock.now_ns += ns
        self.device_.launch(10 * ns)

    def forward(self, x):
        if self.fails:
            raise ValueError("bad batch")
        return Work.apply(self.linear(x), self)


class World(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.rssm = Slow(device, 30 * US, 50 * US)
        self.own = Slow(device, 40 * US, 70 * US)

    def forward(self, x):
        for _ in range(3):
            x = self.rssm(x)
        return self.own(x)


class Model(LightningModule):
    def __init__(self, device):
        super().__init__()
        self.encoder = Slow(device, 100 * US, 200 * US)
        self.world_model = World(device)
        self.simulated = device

    def training_step(self, batch, batch_idx):
        with region("dream"):
            self.simulated.clock.now_ns += 11 * US
            self.simulated.launch(22 * US)
        x = torch.relu_(self.encoder(batch))
        return self.world_model(x).sum() * 1e-3

    def train_dataloader(self):
        return DataLoader(torch.ones(STEPS, 4))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.fixture
def fit(clock, tmp_path, fake_device):
    def fitted(callback, model=None, *, marks=True, **options):
        device = fake_device(clock)
        timer = PhaseTimer(
            window=4, console=False, clock=clock, device_marks=device if marks else False
        )
        torch.manual_seed(0)
        model = model(device) if model else Model(device)
        sync = Callback()
        sync.on_train_batch_end = lambda *_: device.sync()
        defaults = {"max_epochs": 1, "logger": False, "default_root_dir": tmp_path}
        callbacks = [timer, sync, *([callback] if callback else [])]
        trainer = Trainer(callbacks=callbacks, **(defaults | options))
        try:
            trainer.fit(model)
        finally:
            fitted.records = read_run(timer._context.run_dir)[0]
            fitted.session = fitted.records.sessions[-1]
            fitted.model = model
        return fitted.session.columns

    return fitted


def each(columns, name):
    [value] = set(columns[name].tolist())
    return value


def test_components_are_parts_of_their_phases_by_self_time(fit):
    columns = fit(ModuleTimer(["encoder", "world_model", "world_model.rssm"]))
    assert each(columns, "part/forward/encoder") == 100 * US
    assert each(columns, "part/forward/world_model") == 40 * US
    assert each(columns, "part/forward/world_model.rssm") == 3 * 30 * US
    assert each(columns, "part/forward/dream") == 11 * US
    assert each(columns, "part/backward/encoder") == 200 * US
    assert each(columns, "part/backward/world_model") == 70 * US
    assert each(columns, "part/backward/world_model.rssm") == 3 * 50 * US
    assert each(columns, "phase/forward") == 241 * US
    assert each(columns, "phase/backward") == 420 * US


def test_components_have_their_device_time(fit):
    columns = fit(ModuleTimer(["encoder", "world_model.rssm"]))
    # Work begins when it is queued, so an idle device adds the host's own time.
    assert each(columns, "device_part/forward/encoder") > 0
    assert each(columns, "device_part/forward/world_model.rssm") == 3 * 300 * US
    assert each(columns, "device_part/backward/world_model.rssm") == 3 * 500 * US
    assert each(columns, "device_part/backward/encoder") == 2_000 * US
    parts = sum(v for k, v in columns.items() if k.startswith("device_part/backward/"))
    assert (parts <= columns["device/backward"]).all()


def test_weights_are_the_same_to_the_bit_and_nothing_stays_on_the_model(fit):
    fit(None)
    plain = copy.deepcopy(fit.model.state_dict())
    fit(ModuleTimer(["encoder", "world_model", "world_model.rssm"]))
    for name, value in fit.model.state_dict().items():
        assert torch.equal(value, plain[name])
    for module in fit.model.modules():
        hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)
        assert not any(hooks)


def test_an_unknown_name_is_refused_with_the_nearest(fit):
    with pytest.raises(ConfigError, match=r"no module 'world_model.rsm'.*world_model.rssm"):
        fit(ModuleTimer(["world_model.rsm"]))


def test_a_timer_needs_a_clock(session_of, clock, fake_device):
    with pytest.raises(ConfigError, match="no PhaseTimer"):
        session_of(Model(fake_device(clock)), ModuleTimer(["encoder"]))


def test_names_must_be_a_list():
    with pytest.raises(ConfigError, match=r'ModuleTimer\(\["encoder"\]\)'):
        ModuleTimer("encoder")


def test_a_forward_that_raises_closes_its_component(fit):
    class Failing(Model):
        def training_step(self, batch, batch_idx):
            self.encoder.fails = batch_idx == 2
            try:
                return super().training_step(batch, batch_idx)
            except ValueError:
                self.simulated.clock.now_ns += 3 * US
                return None

    columns = fit(ModuleTimer(["encoder"]), Failing)
    assert columns["part/forward/encoder"].tolist() == [100 * US] * 2 + [0] + [100 * US] * 3
    assert columns["phase/forward"][2] == 14 * US


def test_a_module_inside_a_compiled_one_is_left_out_with_a_note(fit):
    def make(device):
        model = Model(device)
        model.world_model.compile(backend="eager")
        return model

    columns = fit(ModuleTimer(["encoder", "world_model.rssm"]), make)
    assert "part/forward/world_model.rssm" not in columns
    assert each(columns, "part/forward/encoder") == 100 * US
    [note] = [note for note in fit.session.all(Note) if note.name == "module_not_timed"]
    assert note.value == "world_model.rssm"


def test_a_region_in_compiled_code_breaks_no_graph():
    def step(x):
        with region("dream"):
            return x * 2

    torch._dynamo.reset()
    compiled = torch.compile(step, backend="eager", fullgraph=True)
    assert compiled(torch.ones(1)).item() == 2


class Moments(Model):
    """The encoder sees moment by moment, the world model follows; it dreams in a region."""

    def training_step(self, batch, batch_idx):
        seen = [self.encoder(batch[:, moment]) for moment in range(5)]
        state = seen[0]
        for moment in range(5):
            state = self.world_model(state + seen[moment])
        with region("dream"):
            self.simulated.clock.now_ns += 400 * US
        return state.sum() * 1e-3

    def train_dataloader(self):
        return DataLoader(torch.ones(8, 5, 4), batch_size=1)


def test_calls_are_counted_and_those_that_could_be_one_are_named_with_their_line(fit):
    fit(ModuleTimer(["encoder", "world_model", "world_model.rssm"]), Moments)
    calls = fit.session.last(ModuleCalls)
    assert calls.per_step == {"encoder": 5, "world_model": 5, "world_model.rssm": 15}
    ((name, place),) = calls.loops.items()  # the others need what the call before returned
    assert name == "encoder"
    assert "self.encoder(batch[:, moment])" in place.source


def test_the_table_says_how_to_make_one_call_of_several(fit):
    fit(ModuleTimer(["encoder", "world_model"]), Moments)
    rows = module_times(analyze_run({0: fit.records}, {}))
    assert [row.name for row in rows] == ["world_model", "encoder", "dream"]
    world_model, encoder, dream = rows
    assert encoder.calls_per_step == 5
    assert encoder.forward_ns == 5 * 100 * US
    assert encoder.device_forward_ns >= 5 * 1_000 * US
    assert encoder.advice.startswith("called 5 times per step with the same weights, at ")
    assert encoder.advice.endswith("fold time into the batch: `encoder(x.flatten(0, 1))`")
    assert (world_model.advice, dream.advice) == (None, None)
    assert (dream.calls_per_step, dream.forward_ns, dream.backward_ns) == (None, 400 * US, None)


def test_without_gradients_nobody_can_tell_that_calls_could_be_one(fit):
    class Watches(Moments):
        def training_step(self, batch, batch_idx):
            with torch.no_grad():
                super().training_step(batch, batch_idx)

    fit(ModuleTimer(["encoder"]), Watches)
    calls = fit.session.last(ModuleCalls)
    assert (calls.per_step, calls.loops) == ({"encoder": 5}, {})


def test_a_short_fit_counts_the_steps_that_it_has(fit):
    fit(ModuleTimer(["encoder"]), limit_train_batches=2)
    assert fit.session.last(ModuleCalls).per_step == {"encoder": 1}
