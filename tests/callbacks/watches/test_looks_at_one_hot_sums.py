import pytest
import torch
from look_models import Model
from torch.nn import functional as F


class Sums(Model):
    """Sums 48 rows of 32 numbers at the nine words that they belong to."""

    def training_step(self, batch, batch_idx):
        words = batch[1].flatten()
        parts = self.layer(batch[0]).repeat_interleave(12, 0)
        return self.summed(words, parts).square().mean()

    def summed(self, words, parts):
        return F.one_hot(words, 9).to(parts.dtype).T @ parts


class Turned(Sums):
    def summed(self, words, parts):
        return (parts.t() @ F.one_hot(words, 9).float()).t()


class TurnedFirst(Sums):
    def summed(self, words, parts):
        return torch.mm(F.one_hot(words, 9).t().float().contiguous(), parts)


class ByLetters(Sums):
    def summed(self, words, parts):
        return torch.einsum("nc,nw->cw", F.one_hot(words, 9).float(), parts)


class ByMask(Sums):
    def summed(self, words, parts):
        return (words[None] == torch.arange(9)[:, None]).float() @ parts


class ByMaskOfRows(Sums):
    def summed(self, words, parts):
        mask = words.unsqueeze(1) == torch.arange(9)
        return mask.to(parts).transpose(0, 1).matmul(parts)


class ByGroups(Sums):
    def summed(self, words, parts):
        rows = F.one_hot(words.view(4, 12), 9).float()
        return torch.bmm(rows.transpose(1, 2), parts.view(4, 12, 2))


@pytest.mark.parametrize(
    "model", [Sums, Turned, TurnedFirst, ByLetters, ByMask, ByMaskOfRows, ByGroups]
)
def test_sums_by_a_product_with_rows_of_zeros_with_a_one_are_noted(look, model):
    (found,) = look(model()).sums
    assert (found.classes, found.summed, found.trained) == (9, 48, True)
    assert found.made_ns >= 20  # the rows, and another type
    assert found.sum_ns == 10


def test_the_lines_that_make_the_rows_and_sum_are_named(look):
    (found,) = look(Turned()).sums
    assert [at.source for at in found.places] == [
        "return (parts.t() @ F.one_hot(words, 9).float()).t()"
    ]


class NeededTwice(Sums):
    def summed(self, words, parts):
        rows = F.one_hot(words, 9).float()
        return rows.T @ parts + rows.sum(0)[:, None]


class Untrained(Sums):
    def summed(self, words, parts):
        return self.layer.weight.sum() * super().summed(words, parts.detach())


def test_rows_that_something_else_needs_are_made_all_the_same(look):
    (found,) = look(NeededTwice()).sums
    assert (found.made_ns, found.sum_ns) == (0, 10)


def test_sums_of_what_has_no_gradient_have_no_way_back(look):
    (found,) = look(Untrained()).sums
    assert not found.trained


class Picked(Sums):
    """A lookup: the product runs over the classes."""

    def summed(self, words, parts):
        return F.one_hot(words, 9).float() @ parts[:9]


class PickedByLetters(Sums):
    def summed(self, words, parts):
        return torch.einsum("nc,cw->nw", F.one_hot(words, 9).float(), parts[:9])


class Smoothed(Sums):
    def summed(self, words, parts):
        return (F.one_hot(words, 9) * 0.9 + 0.01).T @ parts


class Written(Sums):
    def summed(self, words, parts):
        rows = F.one_hot(words, 9).float()
        rows.mul_(0.5)
        return rows.T @ parts


class Together(Sums):
    """Of all pairs: several ones in a row."""

    def summed(self, words, parts):
        return (words[None] == words[:, None]).float() @ parts


class TheSameTwice(Sums):
    def summed(self, words, parts):
        numbers = torch.tensor([3, 3, 5])
        return (words[None] == numbers[:, None]).float() @ parts


class Earlier(Sums):
    def summed(self, words, parts):
        return (words[None] >= torch.arange(9)[:, None]).float() @ parts


class Part(Sums):
    def summed(self, words, parts):
        return F.one_hot(words, 9).float()[:, :4].T @ parts


class Counted(Sums):
    def summed(self, words, parts):
        rows = F.one_hot(words, 9).float()
        return rows.T @ rows * parts.sum()


@pytest.mark.parametrize(
    "model",
    [Picked, PickedByLetters, Smoothed, Written, Together, TheSameTwice, Earlier, Part, Counted],
)
def test_other_products_are_no_sums(look, model):
    assert look(model()).sums == ()
