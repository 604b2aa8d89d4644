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
    # The slice, the type, the difference and exp.
    assert on_data["targets"].taken_ns == 4_000
    assert on_data.keys() == {"targets"}, "what was drawn is another each time"


def test_what_was_drawn_goes_on_in_what_it_is_written_to(looked):
    def augmented(x, labels):
        noisy = x.clone()
        noisy[:2] = torch.rand(2, 8)
        return noisy.exp()

    (found,) = looked(augmented, batch).on_data
    assert (found.taken_ns, found.places[0].source) == (1_000, "noisy = x.clone()")


def test_what_a_model_gave_is_the_models_even_without_gradients(looked):
    frozen = nn.Linear(8, 8).requires_grad_(False)

    def taught(x, labels):
        with torch.no_grad():
            return frozen(x).softmax(-1).argmax(-1)

    assert looked(taught, batch, frozen).on_data == ()


def test_a_teacher_that_is_no_part_of_the_model_has_weights_too(looked):
    teacher = [nn.Linear(8, 8).requires_grad_(False)]

    def taught(x, labels):
        with torch.no_grad():
            return teacher[0](x).softmax(-1)

    assert looked(taught, batch).on_data == ()
