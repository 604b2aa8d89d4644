import pytest
import torch
from look_models import Model
from torch.nn import functional as F


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
