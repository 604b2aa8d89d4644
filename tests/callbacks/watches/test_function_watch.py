import copy
import sys
import weakref

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger
from torch.nn import functional as F
from torch.overrides import (
    BaseTorchFunctionMode,
    TorchFunctionMode,
    _get_current_function_mode_stack,
)
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from lightning_gpuprof.callbacks.watches import function_watch
from lightning_gpuprof.callbacks.watches.function_watch import FunctionWatch
from lightning_gpuprof.probes.looks.function_calls import FunctionCalls
from lightning_gpuprof.probes.looks.function_mode import Watching, may_be_fast
from lightning_gpuprof.records.function_calls import function_notes
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import Note, ProbeDisabled


class Clock:
    """Each look at it takes 10 ns, so a function takes 10 ns."""

    now_ns = 0

    def __call__(self):
        self.now_ns += 10
        return self.now_ns


class Model(LightningModule):
    """Trains `inside` on a batch of four rows of 32 numbers."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(32, 2)

    def inside(self, x):
        return self.layer(x)

    def training_step(self, batch, batch_idx):
        return self.inside(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


@pytest.fixture
def look(tmp_path):
    def fitted(model, batches=6, watch=True, max_epochs=1, failures=0, **options):
        trainer = Trainer(
            callbacks=[FunctionWatch(clock=Clock())] if watch else [],
            logger=CSVLogger(tmp_path),
            max_epochs=max_epochs,
            **options,
        )
        torch.manual_seed(0)
        data = TensorDataset(torch.randn(4 * batches, 32), torch.randint(9, (4 * batches, 12)))
        trainer.fit(model, DataLoader(data, batch_size=4))
        assert _get_current_function_mode_stack() == []
        if not watch:
            return None
        session = read_run(trainer.logger.log_dir)[0].sessions[0]
        assert len(session.all(ProbeDisabled)) == failures
        return function_notes(session.all(Note))

    return fitted


def test_the_function_that_calls_most_functions_is_noted_with_the_line_that_calls_most(look):
    class Decays(Model):
        def inside(self, x):
            drive = self.layer(x)
            return self.decayed(drive)

        def decayed(self, drive):
            state = drive[:, 0]
            for _ in range(40):
                state = 0.98 * state + 0.1
            return state.sum()

    first, *_ = look(Decays()).busy

    assert (first.place.function, first.place.source) == ("decayed", "state = 0.98 * state + 0.1")
    assert 80 <= first.calls <= 82
    assert (first.loop_calls, first.goes_on) == (80, False)
    assert 0.9 < first.calls_frac < 1


class Turns(Model):
    def inside(self, x):
        total = self.layer(x).sum()
        for row in range(4):
            total = self.turn(total + x[row].sum())
        return total.exp().log().exp().log().sqrt()

    def turn(self, total):
        total = total * 0.5
        return total.tanh().sin()


def test_the_loop_around_the_line_that_calls_most_is_noted_also_where_it_calls_a_function(look):
    busy = {one.place.function: one for one in look(Turns()).busy}
    # Of `inside` the last line has 5 calls, the one in the loop 4 * 3.
    for name, source in (("inside", "total = self.turn(total + x[row].sum())"), ("turn", None)):
        assert busy[name].loop.source == "for row in range(4):"
        assert busy[name].goes_on
        assert busy[name].place.source == source or source is None


class Written(Model):
    def inside(self, x):
        bank = torch.zeros(32, 32)
        for row in range(32):
            bank[row, row] = 1.0
        return self.layer(torch.stft(x.flatten(), 32, return_complex=True).abs().mean() + x @ bank)


def test_elements_that_a_loop_writes_one_by_one_are_calls_too(look):
    first, *_ = look(Written()).busy
    assert first.place.source == "bank[row, row] = 1.0"
    assert first.loop.source == "for row in range(32):"


def test_lines_that_read_values_are_noted(look):
    class Reads(Model):
        def inside(self, x):
            self.total = 0.0
            for one in x[:, 0]:
                self.total += one.item()
                if one > 100:
                    self.total += float(one)
            return self.layer(x)

    (read,) = look(Reads()).reading

    assert (read.place.source, read.calls) == ("self.total += one.item()", 8)


def test_an_ordinary_model_has_nothing_to_note(look):
    seen = look(Model())
    assert (seen.constants, seen.penalty, seen.built, seen.separate) == ((), None, None, ())
    assert seen.unread is None
    assert seen.lengths == (4,)


class Grid(Model):
    def grid(self):
        return torch.linspace(0, 1, 32).square().cos()

    def inside(self, x):
        return self.layer(x + self.grid())


def test_what_is_the_same_in_every_step_is_noted_with_its_line(look):
    (found,) = look(Grid()).constants
    assert (found.taken_ns, found.calls, found.alone) == (30, 3, True)
    assert found.places[0].function == "grid"
    assert found.places[0].source == "return torch.linspace(0, 1, 32).square().cos()"


class GridInside(Grid):
    def inside(self, x):
        grid = torch.linspace(0, 1, 32).square().cos()
        return self.layer(x + grid)


class GridFromLists(Grid):
    """What is given in Python may be the batch's."""

    def grid(self, rows=(1.0,)):
        return torch.tensor([row * 2.0 for row in rows]).square().mean()

    def inside(self, x):
        return self.layer(x + self.grid([1.0, 2.0]))


class GridByValues(Grid):
    def inside(self, x):
        return self.layer(x + self.counted(x))

    def counted(self, x):
        above = [row > 100 for row in x.tolist()[0]]
        return torch.tensor(above).float()


class GridFromMany(Grid):
    def grid(self, *rows):
        return torch.tensor([row * 2.0 for row in rows]).square().mean()

    def inside(self, x):
        return self.layer(x + self.grid(1.0, 2.0))


class Sampled(Grid):
    """What it draws in Python is another constant in each step."""

    times = 0

    def grid(self):
        self.times += 1
        rows = torch.tensor([float(self.times)] * 32)
        along = torch.arange(32) / 32
        return rows + along


@pytest.mark.parametrize("model", [GridInside, GridFromLists, GridByValues, GridFromMany, Sampled])
def test_a_function_that_may_compute_on_data_too_is_not_there_for_the_constant_alone(look, model):
    (found,) = look(model()).constants
    assert not found.alone


class GridBySize(Grid):
    def grid(self, x, width=32):
        return torch.tensor([[float(i + j) for i in range(width)] for j in range(x.shape[0])])

    def inside(self, x):
        return self.layer(x + self.grid(x))


def test_a_function_that_goes_by_sizes_is_there_for_the_constant_alone(look):
    (found,) = look(GridBySize()).constants
    assert found.alone


class Rebinds(Grid):
    """Drops what it holds while it runs."""

    gone = True

    def inside(self, x):
        y, held = self.layer(x), torch.nn.ReLU()
        dropped = weakref.ref(held)
        y = y + torch.arange(2).float().cos()
        held = None
        self.gone = self.gone and dropped() is None
        return y


def test_nothing_that_a_step_drops_is_kept_until_its_function_returns(look):
    model = Rebinds()
    look(model)
    assert model.gone


class Drawn(Grid):
    def grid(self):
        return torch.rand(32).square().cos()


class Scheduled(Grid):
    def grid(self):
        return torch.linspace(0, 1 + self.global_step, 32)


class Filled(Grid):
    def inside(self, x):
        out = torch.zeros(4, 32)
        out[:, :16] = x[:, :16]
        return self.layer(out.cos())


@pytest.mark.parametrize("model", [Drawn, Scheduled, Filled])
def test_what_changes_from_step_to_step_is_no_constant(look, model):
    assert look(model()).constants == ()


class Penalised(Model):
    def penalty(self):
        total = torch.zeros(())
        for parameter in self.parameters():
            total = total + parameter.pow(2).sum()
        return total

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) + 0.1 * self.penalty()


def test_squares_of_weights_that_join_the_loss_are_a_penalty(look):
    found = look(Penalised()).penalty
    assert found.numbers == 66
    assert [place.function for place in found.places] == ["penalty"]


class Watched(Penalised):
    def training_step(self, batch, batch_idx):
        with torch.no_grad():
            self.penalty()
        return Model.training_step(self, batch, batch_idx)


class Divergence(Penalised):
    def penalty(self):
        weight = self.layer.weight
        return (weight.pow(2) - weight.abs().log()).sum()


@pytest.mark.parametrize("model", [Watched, Divergence])
def test_what_is_only_looked_at_or_has_other_terms_is_no_penalty(look, model):
    assert look(model()).penalty is None


class Adapted(Model):
    frozen = True

    def __init__(self):
        super().__init__()
        self.base = torch.nn.Linear(32, 32).requires_grad_(not self.frozen)
        self.a = torch.nn.Parameter(torch.randn(2, 32))
        self.b = torch.nn.Parameter(torch.zeros(32, 2))

    def inside(self, x):
        weight = self.base.weight + 2.0 * (self.b @ self.a)
        return self.layer(F.linear(x, weight))


class AllTrained(Adapted):
    frozen = False


def test_a_weight_made_of_thin_factors_is_noted(look):
    found = look(Adapted()).built
    assert (found.layers, found.product_ns, found.around_ns, found.layer_ns) == (1, 10, 20, 10)
    assert found.thin_frac == 128 / 1024
    assert found.places[0].source == "weight = self.base.weight + 2.0 * (self.b @ self.a)"


def test_where_the_whole_weight_is_trained_its_gradient_is_needed(look):
    assert look(AllTrained()).built is None


class Scaled(Model):
    times = 3

    def inside(self, x):
        for _ in range(self.times):
            weight = self.layer.weight.tanh() / 2
            x = x + F.linear(x, weight)[:, :1]
        return self.layer(x)


class ScaledOnce(Scaled):
    times = 1


def test_the_same_weights_computed_with_again_and_again_are_noted(look):
    found = look(Scaled()).rebuilt
    # A tangent and a division, twice more than needed.
    assert (found.times, found.again_ns) == (3, 40)
    assert found.places[0].source == "weight = self.layer.weight.tanh() / 2"
    assert look(ScaledOnce()).rebuilt is None


class Tables(Model):
    def __init__(self, count=12):
        super().__init__()
        self.tables = torch.nn.ModuleList([torch.nn.Embedding(9 + i, 2) for i in range(count)])

    def training_step(self, batch, batch_idx):
        parts = []
        for i, table in enumerate(self.tables):
            parts.append(table(batch[1][:, i]))
        return torch.cat(parts, 1).square().mean()


def test_equal_layers_called_one_by_one_are_noted(look):
    (found,) = look(Tables()).separate
    assert (found.kind, found.layers, found.data, found.weight) == ("embedding", 12, (4,), (9, 2))
    assert found.place.source == "parts.append(table(batch[1][:, i]))"


class Deep(Model):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(32, 32) for _ in range(12)])

    def inside(self, x):
        for layer in self.layers:
            x = x + layer(x).relu()
        return x


def test_a_few_layers_or_one_after_the_other_are_a_model_as_usual(look):
    assert look(Tables(7)).separate == ()
    assert look(Deep()).separate == ()


class Heads(Model):
    """Nine answers from one trunk, each with a head of two layers and a loss of its own."""

    def __init__(self):
        super().__init__()
        self.trunk = torch.nn.Linear(32, 32)
        self.heads = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Linear(32, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
            for _ in range(9)
        )

    def training_step(self, batch, batch_idx):
        features = self.trunk(batch[0])
        losses = []
        for head in self.heads:
            losses.append(F.mse_loss(head(features).squeeze(1), batch[0][:, 0]))
        return torch.stack(losses).mean()


def test_heads_of_several_layers_are_one_with_the_losses_behind_each(look):
    (found,) = look(Heads()).separate
    assert (found.kind, found.layers, found.depth, found.weight) == ("linear", 9, 2, (8, 32))
    # An activation, squeeze and the loss; stack and mean are of all.
    assert found.after == 3


class Head(torch.nn.Module):
    """Attention as it is taught."""

    def __init__(self):
        super().__init__()
        self.key, self.query, self.value = (torch.nn.Linear(32, 8, bias=False) for _ in range(3))

    def forward(self, x):
        key, query = self.key(x), self.query(x)
        weights = (query @ key.transpose(-2, -1)).softmax(-1)
        return weights @ self.value(x)


class Attends(Model):
    """Blocks one after the other, each with four heads."""

    def __init__(self, blocks):
        super().__init__()
        self.blocks = torch.nn.ModuleList(
            torch.nn.ModuleList(Head() for _ in range(4)) for _ in range(blocks)
        )

    def inside(self, x):
        x = x[None]
        for heads in self.blocks:
            x = x + torch.cat([head(x) for head in heads], -1)
        return self.layer(x)


class Recurrent(Model):
    """Cells of one size, each given its own and the one's before last state."""

    def __init__(self):
        super().__init__()
        self.cells = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(9))

    def inside(self, x):
        states = [x] * 10
        for _ in range(3):
            for i, cell in enumerate(self.cells):
                states[i + 1] = cell(states[i] + states[i + 1]).tanh()
        return self.layer(states[-1])


@pytest.mark.parametrize("blocks", [1, 3])
def test_heads_of_attention_are_one_in_each_block(look, blocks):
    (found,) = look(Attends(blocks)).separate
    # Of four heads the key, query and value; those of the next block are given what they made.
    assert (found.kind, found.layers, found.depth, found.weight) == ("linear", 12, blocks, (8, 32))
    assert found.attends
    # Of each head a transpose, two products and a softmax; cat is of all.
    assert found.after == round(4 * 4 * blocks / 12)
    assert found.place.source == "key, query = self.key(x), self.query(x)"


class FilledInTurn(Deep):
    """Each layer is given what the one before wrote into a part of a tensor."""

    def inside(self, x):
        parts = torch.zeros(len(self.layers) + 1, 4, 32)
        parts[0] = x
        for i, layer in enumerate(self.layers):
            parts[i + 1] = layer(parts[i].clone())
        return parts


@pytest.mark.parametrize("model", [Recurrent, FilledInTurn])
def test_layers_that_go_on_with_what_others_gave_are_no_heads(look, model):
    assert look(model()).separate == ()


class FilledByHeads(Deep):
    def inside(self, x):
        parts = torch.zeros(len(self.layers), 4, 32)
        for i, layer in enumerate(self.layers):
            parts[i] = layer(x)
        return parts


def test_heads_whose_results_are_written_to_parts_of_a_tensor_are_heads(look):
    (found,) = look(FilledByHeads()).separate
    assert (found.layers, found.tensors) == (12, 2)


class Sequence(Model):
    """Reads 12 moments of 8 numbers with a cell."""

    kind = torch.nn.LSTMCell

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(9, 8)
        self.cell = self.kind(8, 8)

    def training_step(self, batch, batch_idx):
        return self.read(self.words(batch[1])).square().mean()

    def read(self, x):
        state = None
        for t in range(12):
            state = self.cell(x[:, t], state)
        return state[0]


class Gated(Sequence):
    kind = torch.nn.GRUCell


class Stacked(Sequence):
    def __init__(self):
        super().__init__()
        self.upper = torch.nn.LSTMCell(8, 8)

    def read(self, x):
        lower = upper = None
        for t in range(12):
            lower = self.cell(x[:, t], lower)
            upper = self.upper(lower[0], upper)
        return upper[0]


@pytest.mark.parametrize(
    ("model", "kinds"), [(Sequence, ["LSTM"]), (Gated, ["GRU"]), (Stacked, ["LSTM", "LSTM"])]
)
def test_a_cell_that_a_loop_takes_through_a_sequence_is_noted(look, model, kinds):
    found = look(model()).cells
    assert [one.kind for one in found] == kinds
    assert (found[0].turns, found[0].place.function) == (12, "read")
    assert found[0].loop.source == "for t in range(12):"


class Decoder(Sequence):
    """What it gave is its next input."""

    def read(self, x):
        taken, state = x[:, 0], None
        for _ in range(12):
            state = self.cell(taken, state)
            taken = state[0].tanh()
        return taken


class DecoderByParts(Decoder):
    def read(self, x):
        out = torch.zeros(4, 13, 8)
        state = None
        for t in range(12):
            state = self.cell(x[:, t] + out[:, t].clone(), state)
            out[:, t + 1] = state[0]
        return out


class Masked(Sequence):
    def read(self, x):
        state = torch.zeros(4, 8), torch.zeros(4, 8)
        for t in range(12):
            h, c = self.cell(x[:, t], state)
            state = h * (x[:, t, :1] > 0), c
        return state[0]


class Clamped(Sequence):
    def read(self, x):
        state = None
        for t in range(12):
            h, c = self.cell(x[:, t], state)
            state = h, c.clamp(-3, 3)
        return state[0]


class Short(Sequence):
    def read(self, x):
        return self.cell(x[:, 0])[0]


@pytest.mark.parametrize("model", [Decoder, DecoderByParts, Masked, Clamped, Short])
def test_a_cell_whose_turns_need_each_other_is_no_layer(look, model):
    assert look(model()).cells == ()


class OneHot(Model):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Linear(9, 32, bias=False)

    def training_step(self, batch, batch_idx):
        rows = F.one_hot(batch[1], 9).float()
        return self.used(rows).square().mean()

    def used(self, rows):
        return self.words(rows)


class OneHotMatrix(OneHot):
    def used(self, rows):
        return rows @ self.words.weight.T.contiguous() + rows.sum()


class OneHotFlat(OneHot):
    def used(self, rows):
        return self.words(rows.flatten(1)[:, :9])


def test_rows_of_zeros_with_a_one_that_a_layer_multiplies_are_noted(look):
    (found,) = look(OneHot()).lookups
    # Four samples of twelve words; two functions make the rows, one multiplies them.
    assert (found.classes, found.width, found.indices) == (9, 32, 48)
    assert (found.made_ns, found.layer_ns) == (20, 10)
    assert [at.source for at in found.places] == [
        "rows = F.one_hot(batch[1], 9).float()",
        "return self.words(rows)",
    ]


class OneHotSmoothed(OneHot):
    def used(self, rows):
        return self.words(rows * 0.9 + 0.1 / 9)


class OneHotDropped(OneHot):
    def used(self, rows):
        return self.words(F.dropout(rows, 0.1))


class OneHotInPlace(OneHot):
    def used(self, rows):
        rows.mul_(0.9)
        return self.words(rows)


class OneHotWritten(OneHot):
    def used(self, rows):
        rows[rows[..., 0] > 0] = 0
        return self.words(rows)


class OneHotWrittenThrough(OneHot):
    def used(self, rows):
        rows[:, 0].zero_()
        return self.words(rows.view(4, 12, 9))


class OneHotVector(OneHot):
    """One row times one vector, which gives a number and no width."""

    def __init__(self):
        super().__init__()
        self.vector = torch.nn.Parameter(torch.ones(9))

    def used(self, rows):
        return rows[0, 0].view(9) @ self.vector + rows.flatten(0, 1) @ self.vector


@pytest.mark.parametrize(
    "model",
    [
        OneHotMatrix, OneHotFlat, OneHotSmoothed, OneHotDropped, OneHotInPlace, OneHotWritten,
        OneHotWrittenThrough, OneHotVector,
    ],
)  # fmt: skip
def test_rows_that_go_elsewhere_are_no_lookup(look, model):
    assert look(model()).lookups == ()


class Scoring(Model):
    """Scores 2,000 words at 12 places of 4 samples, of which few are used."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(9, 8)
        self.head = torch.nn.Linear(8, 2_000)

    def training_step(self, batch, batch_idx):
        return self.loss(self.head(self.words(batch[1])), batch[1])

    def loss(self, scores, wanted):
        wanted = wanted.clone()
        wanted[:, 3:] = -100
        return F.cross_entropy(scores.flatten(0, 1), wanted.flatten())


class LastPlace(Scoring):
    def loss(self, scores, wanted):
        return F.cross_entropy(scores[:, -1], wanted[:, -1])


class Shifted(Scoring):
    def loss(self, scores, wanted):
        return F.cross_entropy(scores[:, :-1].flatten(0, 1), wanted[:, 1:].flatten())


class AlsoCounted(LastPlace):
    def loss(self, scores, wanted):
        self.right = scores.argmax(-1).eq(wanted).sum()
        return super().loss(scores, wanted)


class LastWeighted(Scoring):
    def loss(self, scores, wanted):
        return scores.softmax(-1)[:, -1].square().mean()


class OverPlaces(Scoring):
    """What is kept of the last place has come from all of them."""

    def __init__(self, mix):
        super().__init__()
        self.mix = mix

    def loss(self, scores, wanted):
        return self.mix(scores)[:, -1].square().mean()


class OneOfEach(Scoring):
    def loss(self, scores, wanted):
        return scores[..., 0].mean()


def test_scores_of_places_that_no_target_counts_are_noted(look):
    (found,) = look(Scoring()).scores
    assert found.kept_frac == 0.25
    assert (found.numbers, found.trained) == (96_000, True)
    # The layer; flatten and the loss.
    assert (found.layer_ns, found.after_ns) == (10, 20)
    assert found.places[0].source == "return self.loss(self.head(self.words(batch[1])), batch[1])"


def test_scores_of_which_an_index_keeps_few_are_noted(look):
    (found,) = look(LastPlace()).scores
    assert found.kept_frac == pytest.approx(1 / 12)
    assert found.after_ns == 0


@pytest.mark.parametrize("model", [Shifted, AlsoCounted, OneOfEach])
def test_scores_that_are_used_at_most_places_or_for_more_are_needed(look, model):
    assert look(model()).scores == ()


@pytest.mark.parametrize(
    "mix",
    [
        lambda scores: scores.cumsum(1),
        lambda scores: scores.softmax(1),
        lambda scores: F.softmax(scores, dim=1),
        lambda scores: scores.flip(1),
        lambda scores: torch.fft.fft(scores, dim=1).abs(),
    ],
)
def test_scores_of_one_place_that_come_from_all_are_needed(look, mix):
    assert look(OverPlaces(mix)).scores == ()


def test_a_softmax_of_each_place_alone_leaves_the_others_unused(look):
    (found,) = look(LastWeighted()).scores
    assert found.kept_frac == pytest.approx(1 / 12)


class Attending(Model):
    def __init__(self, need=True):
        super().__init__()
        self.need = need
        self.attention = torch.nn.MultiheadAttention(32, 4, batch_first=True, dropout=0.5)

    def inside(self, x):
        y, _ = self.attention(x[None], x[None], x[None], need_weights=self.need)
        return self.layer(y)


class Reading(Attending):
    def inside(self, x):
        y, weights = self.attention(x[None], x[None], x[None], need_weights=self.need)
        return self.layer(y) * weights.mean()


def test_attention_asked_for_weights_that_nobody_reads_is_tried(look):
    found = look(Attending()).unread
    # One batch, 4 heads, 4 by 4 positions of 4 bytes.
    assert (found.calls, found.weight_bytes) == (1, 256)
    assert (found.with_ns, found.without_ns) == (10, 10)
    assert found.places[0].line > 0


def test_of_attention_on_a_device_only_shapes_are_kept():
    attention = torch.nn.MultiheadAttention(32, 4, device="meta")
    x = torch.zeros(5, 2, 32, device="meta")
    calls = FunctionCalls(attention)
    watching = Watching(calls.seen, lambda: 0)
    watching.start()
    _, _ = attention(x, x, x)
    watching.stop()
    ((_, args, kwargs, _),) = calls.attention
    kept = [one for one in (*args, *kwargs.values()) if isinstance(one, torch.Tensor)]
    assert x.shape in {one.shape for one in kept}
    assert not {id(one) for one in kept} & {id(x), *map(id, attention.parameters())}


def test_weights_that_are_read_or_not_asked_for_are_well(look):
    assert look(Reading()).unread is None
    assert look(Attending(need=False)).unread is None


class Again(Model):
    def __init__(self):
        super().__init__()
        self.block = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU())

    def inside(self, x):
        x = checkpoint(self.block, x.requires_grad_(), use_reentrant=self.reentrant)
        return self.layer(x)

    reentrant = False


class AgainReentrant(Again):
    reentrant = True


@pytest.mark.parametrize("model", [Again, AgainReentrant])
def test_what_a_checkpoint_drops_is_noted_with_its_line(look, model):
    found = look(model()).checkpointed
    # A linear layer and an activation, of 4 by 32 numbers of 4 bytes each.
    assert (found.taken_ns, found.calls, found.made_bytes) == (20, 2, 1024)
    assert found.places[0].source.startswith("x = checkpoint(self.block, x.requires_grad_()")


class Frozen(Model):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(9, 32).requires_grad_(False)

    def inside(self, x):
        return self.layer(x + self.words(torch.arange(4)).relu())


def test_what_comes_from_frozen_weights_alone_is_a_constant(look):
    (found,) = look(Frozen()).constants
    assert found.calls == 3
    assert found.places[0].function == "inside"


class Unusual(Model):
    def inside(self, x):
        mapped = torch.vmap(lambda row: row + torch.linspace(0, 1, 32))(x)
        own = torch.nested.nested_tensor([x[:2], x[2:]])
        sparse = torch.sparse.mm(torch.eye(4).to_sparse(), x)
        return self.layer(mapped) + self.layer(own).to_padded_tensor(0.0).sum() + sparse.sum()


def test_tensors_without_plain_numbers_do_not_end_the_look(look):
    assert look(Unusual()).penalty is None


def test_training_is_the_same_with_the_look(look):
    weights = []
    for watch in (True, False):
        torch.manual_seed(1)
        model = Attending()
        look(model, watch=watch)
        weights.append([one.detach().clone() for one in model.parameters()])
    for one, other in zip(*weights, strict=True):
        assert torch.equal(one, other)


def test_where_something_was_compiled_there_is_no_look(look, monkeypatch):
    monkeypatch.setattr(function_watch.CompileWatch, "compiled_before", staticmethod(lambda: True))
    assert look(Grid()) is None


def test_a_run_of_two_batches_ends_without_a_note(look):
    assert look(Model(), batches=2) is None


class Beneath(Model):
    """Leaves a mode of its own only behind the backward pass."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        with BaseTorchFunctionMode():
            self.manual_backward(super().training_step(batch, batch_idx))
            assert not any(isinstance(one, Watching) for one in _get_current_function_mode_stack())
        self.optimizers().step()


def test_a_mode_of_the_program_on_top_keeps_none_of_the_look(look):
    assert look(Beneath()) is not None


class Skipping(Model):
    def on_train_batch_start(self, batch, batch_idx):
        return -1 if batch_idx == 1 else None

    def on_train_epoch_end(self):
        assert _get_current_function_mode_stack() == []


def test_a_batch_that_is_skipped_ends_its_look_with_the_epoch(look):
    assert look(Skipping(), max_epochs=4) is not None


class Checking(Model):
    def on_after_backward(self):
        assert _get_current_function_mode_stack() == []


def test_where_the_look_fails_its_mode_is_left_at_the_backward_pass(look, monkeypatch):
    monkeypatch.setattr(FunctionCalls, "seen", lambda *_: 1 / 0)
    with pytest.warns(RuntimeWarning, match="FunctionWatch failed"):
        assert look(Checking(), failures=1) is None


def test_a_batch_of_very_many_calls_ends_the_look(look, monkeypatch):
    monkeypatch.setattr(function_watch, "MOST_CALLS", 2)
    assert look(Checking()) is None


class Taught(Model):
    """Learns from an encoder in evaluation mode, which takes torch's fast path."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.teacher = torch.nn.TransformerEncoderLayer(32, 4, batch_first=True).eval()
        self.teacher.requires_grad_(False)
        self.outputs = []

    def inside(self, x):
        with torch.no_grad():
            x = self.teacher(x[None])[0]
        self.outputs.append(x)
        return self.layer(x)


def test_where_attention_may_take_a_faster_path_there_is_no_look(look):
    model, alone = Taught(), Taught()
    assert look(model) is None
    look(alone, watch=False)
    assert torch.equal(torch.stack(model.outputs), torch.stack(alone.outputs))


def test_attention_that_trains_has_no_faster_path():
    layer = torch.nn.TransformerEncoderLayer(8, 2)
    assert not may_be_fast(layer)
    assert may_be_fast(torch.nn.Sequential(layer.eval()))


class Lowered(Attending):
    def __init__(self):
        super().__init__()
        self.before = torch.nn.Linear(32, 32)

    def inside(self, x):
        return super().inside(self.before(x))


def test_attention_is_tried_under_autocast_as_well(look):
    assert look(Lowered(), precision="bf16-mixed").unread.calls == 1


def test_weights_made_in_inference_mode_are_known():
    with torch.inference_mode():
        layer = torch.nn.Linear(3, 3).requires_grad_(False)
    calls = FunctionCalls(layer)
    watching = Watching(calls.seen, lambda: 0)
    watching.start()
    layer.weight.cos()
    watching.stop()
    (call,) = calls.calls
    assert call.weights == ((id(layer.weight), 0),)


@pytest.mark.parametrize(("trains_on", "counted"), [("cpu", 1), ("meta", 0)])
def test_a_value_of_the_host_is_not_waited_for_where_a_device_trains(trains_on, counted):
    calls = FunctionCalls(torch.nn.Linear(3, 3, device=trains_on))
    for device in ("cpu", "meta"):
        value = torch.empty((), device=device)
        calls.seen(torch.Tensor.item, (value,), {}, 0.0, 1, sys._getframe())
    assert calls.reads.total() == 1 + counted


class Told(TorchFunctionMode):
    """Keeps the names of functions."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_a_mode_of_the_program_is_not_told_of_what_the_look_reads():
    model, told = Grid(), (Told(), Told())
    watching = Watching(FunctionCalls(model).seen, lambda: 0)
    with told[0]:
        model.inside(torch.ones(4, 32))
    with told[1]:
        watching.start()
        model.inside(torch.ones(4, 32))
        watching.stop()
    assert "linear" in told[0].names
    assert told[1].names == told[0].names


def test_what_is_compiled_amid_the_look_is_one_graph_as_always():
    watching = Watching(lambda *_: None, Clock())
    compiled = torch.compile(lambda x: x.cos() + 1, backend="eager", fullgraph=True)
    x = torch.zeros(3)
    watching.start()
    try:
        result = compiled(x)
    finally:
        watching.stop()
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
    assert result.tolist() == [2.0] * 3


class Copying(Attending):
    def inside(self, x):
        y = super().inside(x)
        copied = copy.deepcopy(self.trainer.callbacks[0])
        assert (copied._mode, copied._batches) == (None, [])
        return y


def test_a_copy_made_amid_the_look_has_none_of_it(look):
    assert look(Copying()).unread.calls == 1
