"""The residual editor: linear, symmetric, exact at a face's own value."""

import torch

from models.fader import ATTRIBUTES
from models.residual import AGES, Change, Prototypes, centred, change_by, displaced


def random_prototypes() -> Prototypes:
    prototypes, random = Prototypes(), torch.Generator().manual_seed(0)
    prototypes.luma.normal_(std=0.05, generator=random)
    prototypes.displacement.normal_(std=0.01, generator=random)
    return prototypes


def test_fields_are_interpolated_between_ages_and_kept_beyond() -> None:
    prototypes = random_prototypes()
    prototypes.strength[0] = 2
    low, high = AGES[:2]
    found = prototypes(torch.tensor([10.0, low, (low + high) / 2, high, 95.0])).luma
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(found[1, 0], 2 * prototypes.luma[0, 0])
    torch.testing.assert_close(found[2], (found[1] + found[3]) / 2)
    torch.testing.assert_close(found[4, 1:], prototypes.luma[-1, 1:], atol=1e-4, rtol=0)


def test_no_difference_changes_nothing_and_change_is_linear() -> None:
    fields = random_prototypes()(torch.tensor([20.0, 50, 80]))
    step = torch.randn(3, len(ATTRIBUTES), generator=torch.Generator().manual_seed(2))
    nothing, once, twice = (change_by(fields, factor * step, size=128) for factor in (0, 1, 2))
    assert not nothing.colour.any()
    assert not nothing.displacement.any()
    torch.testing.assert_close(2 * once.colour, twice.colour, atol=1e-5, rtol=1e-4)


def test_centred_changes_keep_the_mean_colour() -> None:
    masks = torch.rand(2, 1, 64, 64)
    change = centred(Change(torch.randn(2, 3, 64, 64), torch.zeros(2, 2, 64, 64)), masks)
    torch.testing.assert_close((masks * change.colour).sum(dim=(2, 3)), torch.zeros(2, 3), atol=1e-2, rtol=0)


def test_a_displacement_fetches_from_the_right_place() -> None:
    image = torch.zeros(1, 1, 16, 16)
    image[0, 0, 8, 10] = 1
    move = torch.zeros(1, 2, 16, 16)
    move[:, 0] = 2 / 16
    moved = displaced(image, move)
    assert moved[0, 0, 8, 8] > 0.99
