import numpy as np
import pytest
import torch
from drawn import RedIsSkin, face_photo, own_values, subject, tiny_fader
from hypothesis import given, settings
from hypothesis import strategies as st

from models.attributes import RACES
from models.fader import ATTRIBUTES
from models.precision import unit_batch
from pipeline.config.attributes import EDIT_ARM
from pipeline.counterfactuals.sweep import (
    CROP,
    Subject,
    crop_mask,
    crops_of,
    decode,
    dial_of,
    edit_of,
    encode,
    null_cycles,
    patches_of,
    targets,
    to_levels,
    to_patch,
)

PAIR = ("Black", "White")
SEVEN = tuple(2 * k / 3 for k in range(-3, 4))


@pytest.fixture(scope="module")
def fader():
    return tiny_fader()


def crops(count, seed=5):
    return torch.rand(count, 3, CROP, CROP, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def own(count):
    return torch.from_numpy(np.stack([own_values()] * count))


# What the decoder is told


@settings(max_examples=25)
@given(st.lists(st.floats(-1, 1, width=32), min_size=8, max_size=8), st.sampled_from(["gender", "race"]))
def test_everything_but_the_swept_attribute_stays_the_faces_own(values, attribute):
    mine = torch.tensor([values])
    rows = targets(mine, attribute, SEVEN, race_pair=PAIR)
    assert rows.shape == (1, 7, 8)
    swept = [name == "gender" if attribute == "gender" else name.startswith("race_") for name in ATTRIBUTES]
    kept = ~torch.tensor(swept)
    assert (rows[:, :, kept] == mine[:, None, kept]).all()


def test_gender_takes_the_values_themselves():
    rows = targets(own(2), "gender", SEVEN, race_pair=PAIR)
    np.testing.assert_allclose(rows[1, :, 0], torch.tensor(SEVEN), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pair", [("Black", "White"), ("White", "Black"), ("Asian", "Indian")])
def test_race_runs_from_the_pairs_first_to_its_second(pair):
    rows = targets(own(1), "race", (-1.0, 0.0, 1.0), race_pair=pair)[0, :, 1:6]
    low, high = RACES.index(pair[0]), RACES.index(pair[1])
    assert (rows[0, low], rows[2, high]) == (1, 1)
    assert rows[1, [low, high]].tolist() == [0.5, 0.5]
    np.testing.assert_allclose(rows.sum(dim=1), torch.ones(3), rtol=1e-5, atol=1e-6)


def test_controls_cannot_be_swept():
    with pytest.raises(ValueError, match=r"'young' cannot be swept; there are gender and race"):
        targets(own(1), "young", SEVEN, race_pair=PAIR)


# The edits


def edited(fader, count, *, faces=None, attribute="gender", values=SEVEN):
    encoded = encode(fader, crops(count) if faces is None else faces, own(count))
    return edit_of(fader, encoded, attribute=attribute, values=values, race_pair=PAIR)


@pytest.mark.parametrize(("attribute", "value"), [("gender", 0.5), ("race", -1.0)])
def test_at_the_faces_own_value_nothing_changes(fader, attribute, value):
    edit = edited(fader, 3, attribute=attribute, values=(-2.0, value, 2.0))
    # A hundredth of a grey level, which rounding takes away: sums of other shapes end in other last bits.
    assert np.abs(edit.changes[:, 1]).max() <= 1e-4
    assert np.abs(edit.changes[:, 0]).max() > 0.01
    assert np.abs(edit.changes[:, 2]).max() > 0.01
    assert dial_of(own(3), attribute, race_pair=PAIR).tolist() == [value] * 3


@pytest.mark.parametrize(("attribute", "values"), [("gender", SEVEN), ("race", (-2.0, 0.0, 2.0))])
def test_an_edit_has_a_change_and_a_face_for_every_value(fader, attribute, values):
    edit = edited(fader, 2, attribute=attribute, values=values)
    assert (edit.attribute, edit.arm, edit.values) == (attribute, EDIT_ARM, values)
    assert edit.changes.shape == edit.faces.shape == (2, len(values), CROP, CROP, 3)
    assert edit.changes.dtype == edit.faces.dtype == np.float32
    assert 0 <= edit.faces.min() <= edit.faces.max() <= 255


def test_the_company_in_a_batch_does_not_change_an_edit(fader):
    faces = crops(5)
    alone, together = edited(fader, 1, faces=faces[2:3]), edited(fader, 5, faces=faces)
    assert np.abs(together.changes[2] - alone.changes[0]).max() < 1
    assert np.abs(together.faces[2] - alone.faces[0]).max() < 1


def test_faces_are_encoded_with_their_null_edit(fader):
    faces, mine = crops(3), own(3)
    encoded = encode(fader, faces, mine)
    assert encoded.crops is faces
    assert encoded.null.shape == faces.shape
    np.testing.assert_allclose(encoded.null, decode(fader, encoded.codes, mine), rtol=0, atol=0)
    assert encoded.codes.dtype == encoded.null.dtype == torch.float32


def test_the_dial_is_gender_itself_and_for_race_the_second_of_the_pair_less_the_first():
    mine = torch.from_numpy(own_values(gender=-0.3, race_Black=0.2, race_White=0.7))[None]
    assert dial_of(mine, "gender", race_pair=PAIR).item() == pytest.approx(-0.3)
    assert dial_of(mine, "race", race_pair=PAIR).item() == pytest.approx(0.5)
    assert dial_of(mine, "race", race_pair=("White", "Black")).item() == pytest.approx(-0.5)


def test_one_null_cycle_pastes_the_null_edit_and_ten_are_ten_times_one(fader):
    faces = encode(fader, crops(2), own(2))
    mask = torch.zeros(2, 1, CROP, CROP)
    mask[..., 30:90, 30:90] = 1
    once = null_cycles(fader, faces, mask, cycles=1)
    np.testing.assert_allclose(once, torch.where(mask > 0, faces.null, faces.crops), rtol=0, atol=1e-6)
    twice = null_cycles(fader, encode(fader, once, own(2)), mask, cycles=1)
    np.testing.assert_allclose(null_cycles(fader, faces, mask, cycles=2), twice, rtol=0, atol=1e-6)
    assert torch.equal(null_cycles(fader, faces, 0 * mask, cycles=10), faces.crops)


def test_levels_are_pixels_around_0_with_the_channels_last():
    units = torch.zeros(2, 5, 3, 4, 6)
    units[1, 2, 0, 3, 5] = 1
    levels = to_levels(units)
    assert levels.shape == (2, 5, 4, 6, 3)
    assert levels[1, 2, 3, 5].tolist() == [127.5, 0, 0]
    assert levels.flags["C_CONTIGUOUS"]


def test_crops_hold_the_face_in_minus_one_to_one():
    batch = crops_of([subject(), subject(radius=20, centre=(60, 70))])
    assert batch.shape == (2, 3, CROP, CROP)
    assert -1 <= batch.min() <= batch.max() <= 1
    centre = batch[:, :, 64:80, 56:72].mean(dim=(2, 3))
    assert (centre[:, 0] > centre[:, 1] + 0.5).all()  # red, as the drawn faces are


def test_pixels_become_units():
    black_and_white = np.array([[[0] * 3, [255] * 3]], dtype=np.uint8)
    assert unit_batch([black_and_white])[0, 0].tolist() == [[-1, 1]]


# Where the face may change


def disc_of(patch, shape):
    whole = np.zeros(shape)
    whole[patch.window] = patch.mask
    return whole


@pytest.mark.parametrize("drawing", [{}, {"centre": (50, 60), "radius": 22}, {"centre": (100, 25), "radius": 32}])
def test_the_patch_is_the_region_in_the_photo(drawing):
    _, _, disc = face_photo(**drawing)
    (patch,) = patches_of(RedIsSkin(), [subject(**drawing)], region=("skin",), feather_share=0)
    found = disc_of(patch, disc.shape) > 0
    assert (found & disc).sum() / (found | disc).sum() > 0.93


def test_a_feathered_patch_stays_inside_and_is_softer():
    hard, soft = (patches_of(RedIsSkin(), [subject()], region=("skin",), feather_share=share)[0] for share in (0, 0.05))
    hard, soft = disc_of(hard, (160, 160)), disc_of(soft, (160, 160))
    assert ((soft > 0) <= (hard > 0)).all()
    assert set(np.unique(hard)) == {0, 1}
    assert 0.3 < soft.sum() / hard.sum() < 0.95


def test_a_face_without_the_region_has_no_patch():
    nothing = Subject("x", np.zeros((160, 160, 3), np.uint8), face_photo()[1], own_values())
    patches = patches_of(RedIsSkin(), [subject(), nothing], region=("skin",), feather_share=0.02)
    assert [patch is None for patch in patches] == [False, True]
    assert patches_of(RedIsSkin(), [subject()], region=("hair",), feather_share=0.02) == [None]


def test_what_the_decoder_does_not_see_is_left_out_where_a_face_is_pasted():
    # A photo that is red all over: the region goes on beyond the crop.
    pixels, landmarks, _ = face_photo(side=300, centre=(150, 150), radius=300)
    everywhere = Subject("x", pixels, landmarks / 4 + 112, own_values())
    shapes = []
    for within in (False, True):
        (patch,) = patches_of(RedIsSkin(), [everywhere], region=("skin",), feather_share=0, within_crop=within)
        corners = np.argwhere(disc_of(patch, (300, 300)) > 0)[:, ::-1]
        places = corners @ everywhere.to_crop[:, :2].T + everywhere.to_crop[:, 2]
        shapes.append((places.min(), places.max()))
    assert shapes[0][0] < -5
    assert shapes[0][1] > CROP + 5
    assert shapes[1][0] >= -1
    assert shapes[1][1] <= CROP


def test_an_image_of_the_crop_lies_over_the_patch_as_the_crop_does():
    face = subject()
    (patch,) = patches_of(RedIsSkin(), [face], region=("skin",), feather_share=0)
    crop = (crops_of([face])[0].permute(1, 2, 0).numpy() + 1) * 127.5
    over = to_patch(crop.astype(np.float32), face, patch)
    assert over.shape == (*patch.mask.shape, 3)
    inside = patch.mask > 0
    difference = np.abs(over - face.pixels[patch.window])[inside]
    assert difference.mean() < 8  # the drawing is noisy, and the way there and back softens noise


def test_the_mask_of_a_crop_is_the_patch_seen_from_it():
    face = subject()
    (patch,) = patches_of(RedIsSkin(), [face], region=("skin",), feather_share=0)
    mask = crop_mask(face, patch)
    assert mask.shape == (CROP, CROP)
    assert 0 <= mask.min() <= mask.max() <= 1
    crop = crops_of([face])[0].numpy()
    red = crop[0] - crop[1] > 0.5
    # The noise of the drawing blurs its outline a little.
    assert ((mask > 0.5) & red).sum() / ((mask > 0.5) | red).sum() > 0.93


def test_the_networks_strength_scales_the_change_and_not_the_null_edit():
    weak, strong = tiny_fader(), tiny_fader()
    strong.strength.copy_(torch.tensor([1.5, 1.0]))
    edits = {}
    for name, network in (("weak", weak), ("strong", strong)):
        encoded = encode(network, crops(2), own(2))
        for attribute in ("gender", "race"):
            edits[name, attribute] = edit_of(
                network, encoded, attribute=attribute, values=(-2.0, 0.0, 2.0), race_pair=PAIR
            )
    np.testing.assert_allclose(edits["strong", "gender"].changes, 1.5 * edits["weak", "gender"].changes, atol=1e-3)
    np.testing.assert_array_equal(edits["strong", "race"].changes, edits["weak", "race"].changes)
