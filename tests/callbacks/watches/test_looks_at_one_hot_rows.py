import pytest
import torch
from look_models import Model
from torch.nn import functional as F


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
