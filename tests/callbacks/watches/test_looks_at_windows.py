import torch
from look_models import Model
from torch.nn import functional as F


class Blurring(Model):
    """Compares images with a window of 4 by 5 weights."""

    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(32, 32)
        self.states = []
        self.register_buffer("window", torch.outer(torch.ones(4), torch.arange(1.0, 6)))

    def inside(self, x):
        self.states.append(torch.get_rng_state())
        blurred = F.conv2d(self.last(x).view(4, 1, 4, 8), self.window[None, None])
        return self.layer(x) + blurred.mean()


def test_a_fixed_window_is_tried_and_nothing_is_drawn_or_trained_by_it(look):
    model, alone = Blurring(), Blurring()
    alone.load_state_dict(model.state_dict())
    (found,) = look(model).windows
    assert (found.size, found.trained) == ((4, 5), True)
    assert (found.whole_ns, found.split_ns) == (10, 10)
    look(alone, watch=False)
    assert torch.equal(torch.stack(model.states), torch.stack(alone.states))
    for ours, others in zip(model.parameters(), alone.parameters(), strict=True):
        assert torch.equal(ours, others)
