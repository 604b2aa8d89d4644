import torch
from look_models import Model


class Indexed(Model):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(9, 32))
        self.register_buffer("order", torch.arange(8) % 2)

    def training_step(self, batch, batch_idx):
        return self.used(*batch).square().mean()

    def used(self, x, words):
        return self.table[words]


def test_rows_that_are_picked_by_numbers_are_noted(look):
    (found,) = look(Indexed()).indexed
    # Four samples of twelve words.
    assert (found.rows, found.indices, found.width) == (9, 48, 32)
    assert [at.source for at in found.places] == ["return self.table[words]"]


class ByOwnOrder(Indexed):
    """Picks by numbers that are its own, as a table of relative positions is."""

    def used(self, x, words):
        return self.table[self.order, 3:] * x[:2, :1].mean()


def test_so_are_those_picked_by_numbers_of_the_models_own(look):
    (found,) = look(ByOwnOrder()).indexed
    assert (found.rows, found.indices, found.width) == (9, 8, 29)


class Plain(Indexed):
    def used(self, x, words):
        held = self.table.detach()[words]
        parts = self.table[2:], self.table[3], self.table[:, None], self.table[words[0] > 3][:0]
        return self.layer(x) + held.mean() + sum(part.sum() for part in parts)


def test_slices_masks_and_what_gets_no_gradient_are_not(look):
    class Masked(Plain):
        def used(self, x, words):
            kept = torch.arange(9) > 3
            return super().used(x, words[:, :9]) + self.table[kept].sum()

    assert look(Masked()).indexed == ()
