import pytest
import torch
from look_models import Model
from torch.nn import functional as F


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
