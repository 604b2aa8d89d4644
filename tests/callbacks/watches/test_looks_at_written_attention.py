import pytest
import torch
from look_models import Model
from torch.nn import functional as F


class ByHand(Model):
    """Attends over 64 positions of 8 numbers, in 8 heads."""

    def __init__(self):
        super().__init__()
        self.into = torch.nn.Linear(8, 24)

    def inside(self, x):
        rows = x.repeat(16, 1).view(8, 32, 8).repeat(1, 2, 1)
        return self.attend(*self.into(rows).chunk(3, dim=-1)).mean()

    def attend(self, query, key, value):
        scores = query @ key.transpose(-2, -1)
        scores = scores / 8**0.5
        return scores.softmax(dim=-1) @ value


def test_attention_of_two_products_and_a_softmax_is_noted(look):
    (found,) = look(ByHand()).attention
    assert (found.calls, found.scores, found.score_bytes) == (1, 8 * 64 * 64, 4 * 8 * 64 * 64)
    assert (found.between_ns, found.product_ns) == (20, 20)
    assert (found.masked, found.drops, found.trained) == (False, False, True)
    assert [at.source for at in found.places] == [
        "scores = query @ key.transpose(-2, -1)",
        "scores = scores / 8**0.5",
        "return scores.softmax(dim=-1) @ value",
    ]


class Masked(ByHand):
    def attend(self, query, key, value):
        later = torch.ones(64, 64, dtype=torch.bool).triu(1)
        scores = torch.einsum("bnd,bmd->bnm", query, key).masked_fill(later, float("-inf"))
        weights = F.dropout(F.softmax(scores, -1, dtype=torch.float32).to(value.dtype), 0.1)
        return torch.bmm(weights, value)


def test_masks_and_dropout_are_told(look):
    (found,) = look(Masked()).attention
    assert (found.masked, found.drops) == (True, True)


class Biased(ByHand):
    def attend(self, query, key, value):
        scores = torch.matmul(query, key.mT) + torch.arange(64.0)
        return torch.matmul(torch.softmax(scores, -1), value)


def test_what_is_added_to_scores_is_a_mask(look):
    (found,) = look(Biased()).attention
    assert found.masked


class Scaled(ByHand):
    """A number of its own for each query is no mask."""

    def attend(self, query, key, value):
        scores = (query @ key.mT) * query.square().mean(-1, keepdim=True)
        return scores.softmax(-1) @ value


def test_what_scores_are_multiplied_by_is_no_mask(look):
    (found,) = look(Scaled()).attention
    assert not found.masked


class ReadsWeights(ByHand):
    def attend(self, query, key, value):
        weights = (query @ key.mT).softmax(-1)
        return weights @ value + weights.max()


class AcrossQueries(ByHand):
    """Normalises over the wrong dimension, which no fused kernel does."""

    def attend(self, query, key, value):
        return (query @ key.mT).softmax(-2) @ value


class Weighed(ByHand):
    """Does more with the weights, which fused attention does not."""

    def attend(self, query, key, value):
        return ((query @ key.mT).softmax(-1) * 0.5) @ value


class SummedUp(ByHand):
    """A function of the weights alone that is called as products are."""

    def attend(self, query, key, value):
        weights = (query @ key.mT).softmax(-1)
        return weights @ value + torch.einsum("bnm->bn", weights)[..., None]


class ByClasses(ByHand):
    """A softmax of products with nothing after it."""

    def attend(self, query, key, value):
        return (query @ key.mT).softmax(-1)


class Fused(ByHand):
    def attend(self, query, key, value):
        return F.scaled_dot_product_attention(query, key, value)


@pytest.mark.parametrize(
    "model", [ReadsWeights, AcrossQueries, Weighed, SummedUp, ByClasses, Fused]
)
def test_what_no_fused_attention_does_and_what_it_did_is_none(look, model):
    assert look(model()).attention == ()
