"""Functions of the batch alone, as the look at functions sees them."""

import torch
from torch import nn


def batch():
    return torch.rand(4, 8), torch.randint(9, (4,))


def targets(labels):
    spread = labels[:, None].float() - 3.0
    return spread.exp()


def test_what_is_made_of_the_batch_alone_is_noted_by_its_function(looked):
    layer = nn.Linear(8, 1)

    def step(x, labels):
        wanted = targets(labels)
        noisy = x + torch.rand_like(x)
        return (layer(noisy) - wanted).square().mean()

    on_data = {one.places[0].function: one for one in looked(step, batch, layer).on_data}
    # The slice, the type, the difference and exp; the sum with what was drawn.
    assert on_data["targets"].taken_ns == 4_000
    assert on_data["step"].taken_ns == 1_000
    assert on_data["step"].places[0].source == "noisy = x + torch.rand_like(x)"


def test_what_a_model_gave_is_the_models_even_without_gradients(looked):
    frozen = nn.Linear(8, 8).requires_grad_(False)

    def taught(x, labels):
        with torch.no_grad():
            return frozen(x).softmax(-1).argmax(-1)

    assert looked(taught, batch, frozen).on_data == ()
