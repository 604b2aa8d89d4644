"""The predicted bytes against what real tensors take on the CPU, and against closed forms."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from lightning import LightningModule
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from lightning_gpuprof.adapters.fake_tensors import fake_tensors
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.trials.model import ModelWithBatches, call_make
from lightning_gpuprof.trials.predict import predict, run_steps
from lightning_gpuprof.trials.storage_tracker import StorageTracker

WIDE = 256


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(WIDE, WIDE), nn.ReLU(), nn.Linear(WIDE, 8))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (self.net(x) - y).square().mean()


class Transformer(nn.Module):
    """Tied embedding, two layers without dropout."""

    def __init__(self, *, dropout: float = 0.0, recompute: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=dropout, batch_first=True)
        self.layers = nn.ModuleList([layer, layer])
        self.head = nn.Linear(32, 100, bias=False)
        self.head.weight = self.embed.weight
        self.recompute = recompute

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute else layer(x)
        return functional.cross_entropy(self.head(x).flatten(0, 1), tokens.flatten())


def mlp() -> Any:
    return Mlp(), lambda size: (torch.randn(size, WIDE), torch.randn(size, 8))


def transformer(**options: Any) -> Callable[[], Any]:
    return lambda: (Transformer(**options), lambda size: torch.randint(0, 100, (size, 16)))


def with_optimizer(make: Callable[[], Any], kind: Callable[..., Any], **options: Any) -> Any:
    """Return a `make` whose model configures its own optimizer."""

    def made() -> Any:
        model, batch = make()
        model.configure_optimizers = lambda: kind(model.parameters(), **options)
        return model, batch

    return made


def saved_bytes(made: ModelWithBatches, size: int) -> int:
    """Bytes of what autograd keeps of a real step, without parameters and the batch."""
    batch = made.batch(size)
    batch = batch if isinstance(batch, tuple) else (batch,)
    given = {one.untyped_storage()._cdata for one in (*made.model.parameters(), *batch)}
    saved: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in given:
            saved[storage._cdata] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = made.model(*batch)
    saved[loss.untyped_storage()._cdata] = loss.untyped_storage()
    return sum(storage.nbytes() for storage in saved.values())


def real_run(make: Callable[[], Any], size: int) -> StorageTracker:
    with StorageTracker() as live:
        used = run_steps(call_make(make), size, tracker=live, precision="32-true")
        live.kept = used  # type: ignore[attr-defined]
    return live


@pytest.mark.parametrize("make", [mlp, transformer()])
@pytest.mark.parametrize(
    ("kind", "options", "states"),
    [
        (torch.optim.SGD, {}, 0),
        (torch.optim.SGD, {"momentum": 0.9}, 1),
        (torch.optim.AdamW, {}, 2),
    ],
)
def test_parameters_gradients_and_optimizer_state_are_exact_to_the_byte(
    make, kind, options, states
):
    (point,) = predict(with_optimizer(make, kind, **options), [4])
    assert point.optimizer == kind.__name__
    own = sum(one.nbytes for one in call_make(make).model.parameters())
    assert point.exact_bytes["parameters"] == own
    assert point.exact_bytes["gradients"] == own
    assert point.exact_bytes["optimizer_state"] == states * own


@pytest.mark.parametrize("make", [mlp, transformer()])
@pytest.mark.parametrize("size", [3, 16])
def test_activations_are_what_autograd_saves_in_a_real_step(make, size):
    (point,) = predict(make, [size])
    assert point.exact_bytes["activations"] == saved_bytes(call_make(make), size)


@pytest.mark.parametrize("make", [mlp, transformer()])
def test_a_real_step_makes_and_drops_the_same_storages_as_a_fake_one(make):
    real = real_run(make, 4)
    with fake_tensors():
        fake = real_run(make, 4)
    assert [(one.size, one.allocated_in, one.released_in) for one in fake.storages] == [
        (one.size, one.allocated_in, one.released_in) for one in real.storages
    ]
    assert fake.events == real.events


def test_the_pool_reserves_at_least_what_it_hands_out():
    for point in predict(transformer(), [2, 64]):
        assert point.peak_reserved_bytes >= point.least_capacity_bytes
        assert point.least_capacity_bytes >= point.peak_allocated_bytes


def test_a_large_batch_peaks_in_backward_and_a_small_one_in_the_optimizer():
    small, large = predict(mlp, [1, 4096])
    assert small.peak_phase == "optimizer_step"
    assert large.peak_phase in ("forward", "backward")


def test_mixed_precision_keeps_float32_weights_and_halves_most_activations():
    (full,) = predict(transformer(), [64])
    (mixed,) = predict(transformer(), [64], precision="bf16-mixed")
    assert mixed.exact_bytes["parameters"] == full.exact_bytes["parameters"]
    assert mixed.exact_bytes["activations"] < full.exact_bytes["activations"]


class Layer(nn.Module):
    """A linear layer and a function of its output."""

    def __init__(self, width: int, out: int, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.linear = nn.Linear(width, out, bias=False)
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.linear(x))


def activations(layer: Callable[[], nn.Module], *shape: int, precision: str = "32-true") -> int:
    def make() -> Any:
        return layer(), lambda size: (torch.randn(size, *shape),)

    (point,) = predict(make, [64], precision=precision)
    return point.exact_bytes["activations"]


def test_softmax_is_widened_as_by_autocast_on_cuda():
    def layer() -> nn.Module:
        return Layer(64, 64, lambda x: functional.log_softmax(x, -1).mean())

    # The batch in bfloat16, the log-softmax in float32, a loss of 4 bytes.
    assert activations(layer, 64, precision="bf16-mixed") == 64 * 64 * 2 + 64 * 64 * 4 + 4


def test_dropout_keeps_a_mask_of_one_byte_as_on_cuda():
    def layer(p: float) -> Callable[[], nn.Module]:
        return lambda: Layer(8, 8, lambda x: functional.dropout(x, p).sum())

    assert activations(layer(0.5), 8) - activations(layer(0.0), 8) == 64 * 8


def test_attention_keeps_no_matrix_of_length_by_length():
    def attend(x: torch.Tensor) -> torch.Tensor:
        q, k, v = (one.unflatten(-1, (2, 8)).transpose(1, 2) for one in x.chunk(3, -1))
        attention = functional.scaled_dot_product_attention
        return attention(q, k, v, dropout_p=0.1, is_causal=True).sum()

    short, long = (activations(lambda: Layer(16, 48, attend), length, 16) for length in (64, 128))
    assert long == pytest.approx(2 * short, rel=0.01)


def test_checkpointing_shows_in_the_activations():
    (plain,) = predict(transformer(), [8])
    (recomputed,) = predict(transformer(recompute=True), [8])
    assert recomputed.exact_bytes["activations"] < plain.exact_bytes["activations"] / 2


def test_a_lightning_module_is_run_by_its_training_step_with_its_own_optimizer():
    class Module(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(8, 8)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            loss = self.net(batch["x"]).pow(2).mean()
            self.log("loss", loss, prog_bar=True)
            return {"loss": loss}

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    (point,) = predict(lambda: (Module(), lambda size: {"x": torch.randn(size, 8)}), [4])
    assert point.optimizer == "SGD"
    assert point.exact_bytes["optimizer_state"] == point.exact_bytes["parameters"] == 72 * 4


def test_a_model_that_was_made_with_real_tensors_is_planned_too():
    model = Mlp()

    def make() -> Any:
        return model, lambda size: (torch.randn(size, WIDE), torch.randn(size, 8))

    (point,) = predict(make, [4])
    assert point == predict(mlp, [4])[0]
    assert model.net[0].weight.grad is None


def test_a_model_that_cannot_be_made_of_fakes_is_made_of_real_tensors():
    class Lazy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = nn.LazyLinear(4), nn.LazyBatchNorm1d(affine=False)
            self.norm(self.linear(torch.zeros(2, 8)))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.linear(x)).sum()

    (point,) = predict(lambda: (Lazy(), lambda size: torch.randn(size, 8)), [4])
    assert point.exact_bytes["parameters"] == (8 * 4 + 4) * 4


def test_torch_behaves_as_before_after_a_plan():
    predict(transformer(dropout=0.1), [2], precision="bf16-mixed")
    with torch.autocast("cpu", torch.bfloat16):
        assert functional.layer_norm(torch.ones(2, 4).bfloat16(), (4,)).dtype == torch.bfloat16
    torch.manual_seed(0)
    assert functional.dropout(torch.ones(1000), 0.5).count_nonzero() < 700


class Reads(nn.Module):
    """Reads the value of a tensor that a function of its loss returns."""

    def __init__(self, read: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.net = nn.Linear(8, 1)
        self.read = read

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        loss = self.net(x).mean()
        self.last = self.read(loss)
        return loss


@pytest.mark.parametrize(
    ("read", "line"),
    [
        (lambda loss: 1 if loss > 0 else 2, r"1 if loss > 0 else 2"),
        (lambda loss: (loss > 0).sum().item(), r"\(loss > 0\)\.sum\(\)\.item\(\)"),
        (lambda loss: loss[loss > 0], r"loss\[loss > 0\]"),
    ],
)
def test_a_model_whose_step_depends_on_values_is_refused_with_the_line(read, line):
    with pytest.raises(ConfigError, match=rf"test_predict\.py:\d+: .*{line}"):
        predict(lambda: (Reads(read), lambda size: (torch.randn(size, 8),)), [1])


def test_a_number_that_is_read_for_a_log_is_no_obstacle_and_is_counted():
    numbers = []

    def read(loss):
        numbers.append(loss.item() + torch.tensor(2.5).item())

    model = Reads(read)
    (point,) = predict(lambda: (model, lambda size: (torch.randn(size, 8),)), [1])
    assert numbers == [3.5, 3.5]  # 2.5 is known even here
    assert point.float_reads == 2
    (silent,) = predict(lambda: (Reads(lambda loss: None), model_batch), [1])
    assert silent.float_reads == 0
    assert silent.peak_allocated_bytes == point.peak_allocated_bytes


def model_batch(size: int) -> Any:
    return (torch.randn(size, 8),)


def test_metrics_do_not_read_what_they_are_given():
    metrics = pytest.importorskip("torchmetrics").classification

    class Measured(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(8, 4)
            self.accuracy = metrics.MulticlassAccuracy(4)
            self.several = pytest.importorskip("torchmetrics").MetricCollection(
                [metrics.MulticlassAccuracy(4), metrics.MulticlassF1Score(4)]
            )

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            out = self.net(x)
            self.accuracy(out, y)
            self.several.update(out, y)
            self.results = self.several(out, y)
            return functional.cross_entropy(out, y)

    model = Measured()
    batch = (torch.randn(2, 8), torch.tensor([0, 1]))
    (point,) = predict(lambda: (model, lambda size: batch), [2])
    assert point.exact_bytes["parameters"] == (8 * 4 + 4) * 4
    model(*batch)  # the user's own metrics work as before
    assert set(model.results) == {"MulticlassAccuracy", "MulticlassF1Score"}
    assert float(model.accuracy.compute()) in (0.0, 0.25, 0.5, 1.0)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (Mlp, {}, r"make\(\) returned Mlp. make\(\) takes nothing"),
        (mlp, {"precision": "8bit"}, "precision='8bit'"),
        (mlp, {"batch_sizes": [0]}, "sizes of 1 or more"),
        (lambda: (nn.Flatten(), torch.zeros), {}, "no parameter that requires a gradient"),
        (
            lambda: (nn.Linear(2, 2), lambda size: torch.randn(size, 2)),
            {},
            "not a loss with a single number",
        ),
    ],
)
def test_what_cannot_be_planned_is_said(make, options, message):
    with pytest.raises(ConfigError, match=message):
        predict(make, **{"batch_sizes": [1], **options})
