import numpy as np
import pytest
import torch
from drawn_subjects import own_values, subject, tiny_fader
from hypothesis import given, settings
from hypothesis import strategies as st

from models.attributes import RACES
from models.fader import ATTRIBUTES
from models.precision import unit_batch
from pipeline.config.attributes import ATTRIBUTES as ROWS
from pipeline.config.attributes import EDIT_ARM, attribute_of
from pipeline.counterfactuals.editors import fader as module
from pipeline.counterfactuals.editors.base import CROP, to_levels
from pipeline.counterfactuals.editors.fader import FaderEditor, decode, encode, sweep_inputs
from pipeline.counterfactuals.sweep import null_cycles

SEVEN_VALUES = tuple(2 * k / 3 for k in range(-3, 4))


@pytest.fixture(scope="module")
def fader():
    return tiny_fader()


def own_value_of(own_row, attribute):
    return attribute.own_value(dict(zip(ATTRIBUTES, own_row.unbind(dim=1), strict=True)))


def crops(count, seed=5):
    return torch.rand(count, 3, CROP, CROP, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def own_rows(count):
    return module.own_values([own_values()] * count)


# Inputs of the decoder


@settings(max_examples=25)
@given(st.lists(st.floats(-1, 1, width=32), min_size=8, max_size=8), st.sampled_from(["gender", "race"]))
def test_inputs_keep_the_own_own_rowof_other_attributes(values, attribute):
    own_row = torch.tensor([values])
    rows = sweep_inputs(own_row, ROWS[attribute], SEVEN_VALUES)
    assert rows.shape == (1, 7, 8)
    swept = [name == "gender" if attribute == "gender" else name.startswith("race_") for name in ATTRIBUTES]
    kept = ~torch.tensor(swept)
    assert (rows[:, :, kept] == own_row[:, None, kept]).all()


def test_gender_input_is_the_value():
    rows = sweep_inputs(own_rows(2), ROWS["gender"], SEVEN_VALUES)
    np.testing.assert_allclose(rows[1, :, 0], torch.tensor(SEVEN_VALUES), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pair", [("Black", "White"), ("White", "Black"), ("Asian", "Indian")])
def test_race_inputs_run_between_the_pair(pair):
    rows = sweep_inputs(own_rows(1), ROWS["race"].with_poles(pair), (-1.0, 0.0, 1.0))[0, :, 1:6]
    low, high = RACES.index(pair[0]), RACES.index(pair[1])
    assert (rows[0, low], rows[2, high]) == (1, 1)
    assert rows[1, [low, high]].tolist() == [0.5, 0.5]
    np.testing.assert_allclose(rows.sum(dim=1), torch.ones(3), rtol=1e-5, atol=1e-6)


def test_attribute_without_decoder_input_raises():
    with pytest.raises(ValueError, match=r"the Fader network cannot change beard: it has no input beard"):
        sweep_inputs(own_rows(1), attribute_of("beard"), SEVEN_VALUES)


# Edits


def edit_of(fader, count, *, faces=None, attribute="gender", values=SEVEN_VALUES):
    encoded = encode(fader, crops(count) if faces is None else faces, own_rows(count))
    return encoded.edit(ROWS[attribute], values)


@pytest.mark.parametrize(("attribute", "value"), [("gender", 0.5), ("race", -1.0)])
def test_change_is_zero_at_the_own_value(fader, attribute, value):
    edit = edit_of(fader, 3, attribute=attribute, values=(-2.0, value, 2.0))
    # Far below a grey level: rounding errors depend on the shape of the batch.
    assert np.abs(edit.changes[:, 1]).max() <= 1e-4
    assert np.abs(edit.changes[:, 0]).max() > 0.01
    assert np.abs(edit.changes[:, 2]).max() > 0.01
    assert own_value_of(own_rows(3), ROWS[attribute]).tolist() == [value] * 3


@pytest.mark.parametrize(("attribute", "values"), [("gender", SEVEN_VALUES), ("race", (-2.0, 0.0, 2.0))])
def test_edit_has_a_change_and_a_face_per_value(fader, attribute, values):
    edit = edit_of(fader, 2, attribute=attribute, values=values)
    assert (edit.attribute, edit.arm, edit.values) == (attribute, EDIT_ARM, values)
    assert edit.changes.shape == edit.faces.shape == (2, len(values), CROP, CROP, 3)
    assert edit.changes.dtype == edit.faces.dtype == np.float32
    assert 0 <= edit.faces.min() <= edit.faces.max() <= 255


def test_edit_is_independent_of_the_batch(fader):
    faces = crops(5)
    alone, together = edit_of(fader, 1, faces=faces[2:3]), edit_of(fader, 5, faces=faces)
    assert np.abs(together.changes[2] - alone.changes[0]).max() < 1
    assert np.abs(together.faces[2] - alone.faces[0]).max() < 1


def test_encoded_faces_have_their_null_edit(fader):
    faces, own_row = crops(3), own_rows(3)
    encoded = encode(fader, faces, own_row)
    assert encoded.crops is faces
    assert encoded.null.shape == faces.shape
    np.testing.assert_allclose(encoded.null, decode(fader, encoded.codes, own_row), rtol=0, atol=0)
    assert encoded.codes.dtype == encoded.null.dtype == torch.float32


def test_own_value_of_race_is_the_difference_of_the_pair():
    own_row = module.own_values([own_values(gender=-0.3, race_Black=0.2, race_White=0.7)])
    assert own_value_of(own_row, ROWS["gender"]).item() == pytest.approx(-0.3)
    assert own_value_of(own_row, ROWS["race"]).item() == pytest.approx(0.5)
    assert own_value_of(own_row, ROWS["race"].with_poles(("White", "Black"))).item() == pytest.approx(-0.5)


def test_null_cycles_repeat_the_pasted_null_edit(fader):
    faces = encode(fader, crops(2), own_rows(2))
    mask = torch.zeros(2, 1, CROP, CROP)
    mask[..., 30:90, 30:90] = 1
    once = null_cycles(faces, mask, cycles=1)
    np.testing.assert_allclose(once, torch.where(mask > 0, faces.null, faces.crops), rtol=0, atol=1e-6)
    twice = null_cycles(encode(fader, once, own_rows(2)), mask, cycles=1)
    np.testing.assert_allclose(null_cycles(faces, mask, cycles=2), twice, rtol=0, atol=1e-6)
    assert torch.equal(null_cycles(faces, 0 * mask, cycles=10), faces.crops)


def test_to_levels_scales_and_moves_channels_last():
    units = torch.zeros(2, 5, 3, 4, 6)
    units[1, 2, 0, 3, 5] = 1
    levels = to_levels(units)
    assert levels.shape == (2, 5, 4, 6, 3)
    assert levels[1, 2, 3, 5].tolist() == [127.5, 0, 0]
    assert levels.flags["C_CONTIGUOUS"]


def test_crops_contain_the_face_in_minus_one_to_one(fader):
    batch = FaderEditor(fader).read([subject(), subject(radius=20, centre=(60, 70))]).crops
    assert batch.shape == (2, 3, CROP, CROP)
    assert -1 <= batch.min() <= batch.max() <= 1
    centre = batch[:, :, 64:80, 56:72].mean(dim=(2, 3))
    assert (centre[:, 0] > centre[:, 1] + 0.5).all()  # drawn faces are red


def test_unit_batch_maps_0_and_255_to_minus_1_and_1():
    black_and_white = np.array([[[0] * 3, [255] * 3]], dtype=np.uint8)
    assert unit_batch([black_and_white])[0, 0].tolist() == [[-1, 1]]


def test_strength_scales_the_change_of_its_attribute():
    weak, strong = tiny_fader(), tiny_fader()
    strong.strength.copy_(torch.tensor([1.5, 1.0]))
    edits = {}
    for name, network in (("weak", weak), ("strong", strong)):
        encoded = encode(network, crops(2), own_rows(2))
        for attribute in ("gender", "race"):
            edits[name, attribute] = encoded.edit(ROWS[attribute], (-2.0, 0.0, 2.0))
    np.testing.assert_allclose(edits["strong", "gender"].changes, 1.5 * edits["weak", "gender"].changes, atol=1e-3)
    np.testing.assert_array_equal(edits["strong", "race"].changes, edits["weak", "race"].changes)
