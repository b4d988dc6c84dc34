"""The prototypes of the residual editor, and the changes made from them."""

import torch

from models.fader import ATTRIBUTES
from models.residual import AGES, Change, Prototypes, centred, changes_along, displaced


def random_prototypes() -> Prototypes:
    prototypes, random = Prototypes(), torch.Generator().manual_seed(0)
    prototypes.luma.normal_(std=0.05, generator=random)
    prototypes.displacement.normal_(std=0.01, generator=random)
    return prototypes


def test_fields_are_interpolated_between_ages_and_clamped_beyond() -> None:
    prototypes = random_prototypes()
    prototypes.strength[0] = 2
    low, high = AGES[:2]
    found = prototypes(torch.tensor([10.0, low, (low + high) / 2, high, 95.0])).luma
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(found[1, 0], 2 * prototypes.luma[0, 0])
    torch.testing.assert_close(found[2], (found[1] + found[3]) / 2)
    torch.testing.assert_close(found[4, 1:], prototypes.luma[-1, 1:], atol=1e-4, rtol=0)


def test_changes_are_linear_in_the_amounts_of_each_field() -> None:
    fields, random = random_prototypes()(torch.tensor([20.0, 50, 80])), torch.Generator().manual_seed(2)
    one, other = torch.randn(2, 3, len(ATTRIBUTES), generator=random)
    changes = changes_along(fields, torch.stack([one, other, one + 2 * other, 0 * one], dim=1), size=128)
    for field, channels in ((changes.colour, 3), (changes.displacement, 2)):
        assert field.shape == (3, 4, channels, 128, 128)
        torch.testing.assert_close(field[:, 2], field[:, 0] + 2 * field[:, 1], atol=1e-4, rtol=1e-3)
        assert not field[:, 3].any()


def test_centred_changes_keep_the_mean_colour() -> None:
    masks = torch.rand(2, 1, 64, 64)
    change = centred(Change(torch.randn(2, 4, 3, 64, 64), torch.zeros(2, 4, 2, 64, 64)), masks)
    torch.testing.assert_close(
        (masks[:, None] * change.colour).sum(dim=(3, 4)), torch.zeros(2, 4, 3), atol=1e-2, rtol=0
    )


def test_displacement_is_a_backward_warp() -> None:
    image = torch.zeros(1, 1, 16, 16)
    image[0, 0, 8, 10] = 1
    displacement = torch.zeros(1, 2, 16, 16)
    displacement[:, 0] = 2 / 16
    moved = displaced(image, displacement)
    assert moved[0, 0, 8, 8] > 0.99
