"""Fixed filters that are a product of one along each side, as the look at functions sees them."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lightning_gpuprof.probes.looks.separable_windows import is_separable

BELL = torch.exp(-(torch.arange(11) - 5).square() / 4.5)
SHORT = torch.tensor([1.0, 4, 6, 4, 1]) / 16
GRID = torch.arange(11) - 5


def images():
    return (torch.rand(2, 3, 16, 16, requires_grad=True),)


def window(*sides, channels=3):
    """Return a filter for each channel, and the same one for all."""
    product = torch.ones(())
    for side in sides:
        product = product[..., None] * side
    return product.expand(channels, 1, *product.shape).contiguous()


def test_a_fixed_gaussian_is_tried_as_a_whole_and_side_by_side(looked):
    gaussian = window(SHORT, SHORT)

    def blur(x):
        return F.conv2d(x, gaussian, None, 2, 2, groups=3).sum()

    (found,) = looked(blur, images).windows
    assert (found.calls, found.size, found.channels, found.groups) == (1, (5, 5), 3, 3)
    assert (found.taken_ns, found.whole_ns, found.split_ns) == (1_000, 1_000, 1_000)
    # After the column: two images of three channels, 8 x 16 places of 4 bytes; and their gradient.
    assert (found.trained, found.between_bytes) == (True, 2 * 2 * 3 * 8 * 16 * 4)
    assert found.places[0].source == "return F.conv2d(x, gaussian, None, 2, 2, groups=3).sum()"


def test_without_a_gradient_the_forward_pass_alone_is_tried(looked):
    gaussian = window(SHORT, SHORT)

    def blur(x):
        return F.conv2d(x.detach(), gaussian, padding="same", groups=3)

    (found,) = looked(blur, images).windows
    assert (found.trained, found.between_bytes) == (False, 2 * 3 * 16 * 16 * 4)


def test_the_calls_of_one_function_are_told_together(looked):
    wide, narrow = window(BELL, BELL), window(SHORT, SHORT)

    def likeness(x):
        mean = F.conv2d(x, wide, groups=3).mean()
        return mean + F.conv2d(x * x, wide, groups=3).mean() + F.conv2d(x, narrow, groups=3).mean()

    (found,) = looked(likeness, images).windows
    assert (found.calls, found.whole_ns, found.size) == (3, 3_000, (11, 11))
    assert len(found.places) == 2


def test_a_window_over_frames_keeps_its_sides_in_order(looked):
    flat = window(torch.ones(1), BELL, BELL, channels=1)

    def blur(x):
        return F.conv3d(x[:, None], flat, stride=(2, 1, 1)).sum()

    (found,) = looked(blur, images).windows
    assert found.size == (1, 11, 11)
    # The stride along the frames goes with the first: of 3 frames 2, 6 x 16 places after it.
    assert found.between_bytes == 2 * 2 * 2 * 6 * 16 * 4


def test_several_windows_for_one_channel_are_separable_each_by_itself(looked):
    bank = torch.cat([window(BELL, BELL, channels=1), window(BELL, BELL**2, channels=1)])

    def blur(x):
        return F.conv2d(x[:, :1], bank).sum()

    (found,) = looked(blur, images).windows
    assert (found.channels, found.groups) == (2, 1)


def test_under_autocast_it_is_tried_so_too(looked):
    gaussian = window(BELL, BELL)

    def blur(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return F.conv2d(x, gaussian, groups=3).sum()

    (found,) = looked(blur, images).windows
    assert found.between_bytes == 2 * 2 * 3 * 6 * 16 * 2


def test_what_is_laid_out_channels_last_is_tried_so_too(looked):
    gaussian = window(BELL, BELL)

    def blur(x):
        last = x.contiguous(memory_format=torch.channels_last)
        return F.conv2d(last, gaussian, groups=3).sum()

    assert looked(blur, images).windows


@pytest.mark.parametrize("module", [nn.Conv2d(3, 3, 7, groups=3), nn.Conv2d(3, 3, 11)])
def test_a_window_that_is_learned_is_none(looked, module):
    assert looked(module, images).windows == ()


def test_a_learned_window_that_begins_as_a_product_is_none(looked):
    module = nn.Conv2d(3, 3, 11, groups=3, bias=False)
    nn.init.ones_(module.weight)
    assert looked(module, images, module).windows == ()
    module.requires_grad_(False)
    assert len(looked(module, images, module).windows) == 1


def test_a_window_that_mixes_channels_is_none(looked):
    assert looked(lambda x: F.conv2d(x, torch.ones(3, 3, 7, 7)), images).windows == ()


@pytest.mark.parametrize(
    "filters",
    [
        window(torch.tensor([1.0, 2, 1]), torch.tensor([-1.0, 0, 1])),  # Sobel's
        window(BELL),
        window(BELL, torch.ones(1)),
        window(BELL, BELL) - window(BELL**2, BELL**2),
        window(BELL, BELL) * (GRID[:, None] ** 2 + GRID**2 <= 25),
        torch.exp(-((GRID[:, None] + GRID).square() / 16 + (GRID[:, None] - GRID).square() / 6))[
            None, None
        ],
        torch.cat([window(BELL, BELL), torch.eye(11)[None, None]]),
        torch.zeros(3, 1, 11, 11),
        torch.full((3, 1, 11, 11), torch.nan),
        window(BELL, BELL).bfloat16(),
        window(BELL, BELL).to("meta"),
        torch.ones(0, 1, 11, 11),
    ],
)
def test_what_is_small_or_no_product_is_none(filters):
    assert not is_separable(filters)


@pytest.mark.parametrize(
    "filters",
    [
        window(BELL, BELL),
        window(BELL, SHORT, BELL),
        window(torch.ones(1), BELL, BELL),
        window(-BELL, BELL.flip(0)).double(),
        torch.exp(-(GRID[:, None].square() + GRID.square()) / 3.0)[None, None],
        torch.full((1, 1, 9, 9, 9), 1 / 729),
    ],
)
def test_a_product_of_one_along_each_side_is(filters):
    assert is_separable(filters)
