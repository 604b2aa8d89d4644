import pytest
import torch
from look_models import Model


class Linked(Model):
    """Sums what a graph's nodes are given by their neighbours."""

    def __init__(self, links):
        super().__init__()
        self.register_buffer("links", links)
        self.register_buffer("words", torch.randn(300, 32))

    def training_step(self, batch, batch_idx):
        return self.sums(self.layer(self.words)).mean() + self.layer(batch[0]).mean()

    def sums(self, x):
        return self.links @ x


def _links(nonzero=600):
    places = torch.randperm(90_000, generator=torch.Generator().manual_seed(0))[:nonzero]
    links = torch.zeros(90_000)
    links[places] = 0.5
    return links.view(300, 300)


def test_a_matrix_of_nearly_all_zeros_is_noted_with_a_trial(look):
    (found,) = look(Linked(_links())).products
    assert (found.calls, found.shape, found.layout) == (1, (300, 300), "csr")
    assert found.nonzero_frac == pytest.approx(600 / 90_000)
    assert (found.taken_ns, found.dense_ns, found.sparse_ns) == (10, 10, 10)
    assert [at.source for at in found.places] == ["return self.links @ x"]


class Anew(Linked):
    def sums(self, x):
        return self.links.clone() @ x


@pytest.mark.parametrize(
    "model",
    [
        lambda: Linked(_links(20_000)),
        lambda: Linked(torch.zeros(300, 300)),
        lambda: Linked(_links()[:50, :].clone()),  # small
        lambda: Linked(_links().bfloat16().float().to_sparse()),
        lambda: Anew(_links()),
    ],
)
def test_others_are_not(look, model):
    assert look(model()).products == ()


def test_nor_is_one_that_is_trained(look):
    class Trains(Linked):
        def __init__(self):
            super().__init__(_links())
            links = self.links
            del self.links
            self.links = torch.nn.Parameter(links)

    assert look(Trains()).products == ()
