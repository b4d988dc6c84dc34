"""The residual editor: linear, symmetric, exact at a face's own value."""

import torch

from models.fader import ATTRIBUTES
from models.residual import (
    Change,
    ResidualEditor,
    apply_change,
    centred,
    change_by,
    displaced,
    mirrored_displacement,
)


def random_editor() -> ResidualEditor:
    torch.manual_seed(0)
    editor = ResidualEditor(widths=(8, 16, 24))
    with torch.no_grad():
        for parameter in editor.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    editor.luma_template.normal_(std=0.05)
    editor.displacement_template.normal_(std=0.01)
    return editor.eval()


def faces(count: int = 3) -> torch.Tensor:
    return torch.rand(count, 3, 64, 64, generator=torch.Generator().manual_seed(1)) * 2 - 1


@torch.no_grad()
def test_a_mirrored_face_has_the_mirrored_change() -> None:
    editor, photos = random_editor(), faces()
    one, other = editor(photos), editor(photos.flip(3))
    torch.testing.assert_close(one.luma, other.luma.flip(3), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(one.displacement, mirrored_displacement(other.displacement), atol=1e-6, rtol=1e-4)


@torch.no_grad()
def test_no_difference_changes_nothing_and_change_is_linear() -> None:
    photos, masks = faces(), torch.ones(3, 1, 64, 64)
    fields = random_editor()(photos)
    step = torch.randn(3, len(ATTRIBUTES), generator=torch.Generator().manual_seed(2))
    nothing = apply_change(photos, centred(change_by(fields, 0 * step, size=64), masks), masks)
    torch.testing.assert_close(nothing, photos, atol=1e-5, rtol=0)
    once, twice = (change_by(fields, factor * step, size=128) for factor in (1, 2))
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
