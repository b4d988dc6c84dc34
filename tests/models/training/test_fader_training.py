import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_faces import SIDE, face_set

from models.attributes import RACES
from models.fader import ATTRIBUTES, GENDER, RACE, Fader
from models.image_metrics import batch_luma
from models.judge import OUTPUTS, Estimator
from models.training.data import selection_rows
from models.training.edits import Edits, composite, draw_edits, mask_pixels, own_attributes
from models.training.fader import FaderPlan, evaluate, train, worth
from models.training.loop import generator
from models.training.losses import drift_loss, effect_loss, hiding_loss, keep_loss, roughness
from models.training.weight_averaging import Average, Best

PLAN = FaderPlan()
OTHERS = [place for place, name in enumerate(ATTRIBUTES) if name in ("young", "smiling")]


@pytest.fixture(scope="module")
def faces():
    return face_set()


def random_edits(count=64, seed=0, reach=2.0):
    random = generator(seed, 0)
    race = torch.randint(5, (count,), generator=random)
    own = torch.zeros(count, 8)
    own[:, GENDER] = torch.randint(2, (count,), generator=random) * 2.0 - 1
    own[torch.arange(count), 1 + race] = 1
    own[:, OTHERS] = torch.rand(count, 2, generator=random) * 2 - 1
    return own, draw_edits(own, reach=reach, random=random)


def test_own_attributes_are_the_labels(faces):
    own = own_attributes(faces, torch.tensor([4, 7]))
    assert own.shape == (2, len(ATTRIBUTES))
    assert own[:, GENDER].tolist() == faces.gender[[4, 7]].tolist()
    assert own[:, RACE].argmax(dim=1).tolist() == faces.race[[4, 7]].tolist()
    assert (own[:, RACE].sum(dim=1) == 1).all()
    assert own[:, -1].tolist() == faces.smiling[[4, 7]].tolist()


# Edits


@given(st.integers(0, 10_000))
def test_edits_change_one_attribute(seed):
    own, edits = random_edits(seed=seed)
    assert torch.equal(edits.attributes[:, OTHERS], own[:, OTHERS])
    assert torch.equal(edits.attributes[edits.of_gender][:, RACE], own[edits.of_gender][:, RACE])
    assert torch.equal(edits.attributes[~edits.of_gender, GENDER], own[~edits.of_gender, GENDER])
    assert torch.equal(edits.attributes[edits.of_gender, GENDER], edits.value[edits.of_gender])
    np.testing.assert_allclose(edits.attributes[:, RACE].sum(dim=1), 1, atol=1e-5)
    assert (edits.low != edits.high).all()


@pytest.mark.parametrize("reach", [1.0, 2.0])
def test_distribution_of_edits(reach):
    own, edits = random_edits(4000, reach=reach)
    assert edits.of_gender.float().mean().item() == pytest.approx(0.5, abs=0.03)
    assert edits.value.abs().max() <= reach
    assert edits.value.abs().max() > 0.99 * reach
    default = (edits.low == RACES.index("Black")) & (edits.high == RACES.index("White"))
    assert 0.5 < default.float().mean() < 0.65
    assert torch.equal(own, random_edits(4000, reach=reach)[0])  # own values are not overwritten


# Losses


def test_composite_keeps_the_photo_outside_the_mask():
    photos, edited, rebuilt = (torch.rand(2, 3, 32, 32) * 2 - 1 for _ in range(3))
    masks = (torch.rand(2, 1, 32, 32) > 0.5).float()
    composed = composite(photos, masks, edited, rebuilt)
    outside = (masks == 0).expand_as(photos)
    assert torch.equal(composed[outside], photos[outside])
    assert (composed[~outside] != photos[~outside]).any()
    assert composed.abs().max() <= 1
    assert torch.equal(composite(photos, masks, rebuilt, rebuilt), photos)


def outputs_with(count, **columns):
    outputs = torch.zeros(count, OUTPUTS)
    for place, value in columns.items():
        outputs[:, int(place[1:])] = value
    return outputs


def one_edit(*, of_gender, value):
    black, white = torch.tensor([RACES.index("Black")]), torch.tensor([RACES.index("White")])
    return Edits(torch.zeros(1, 8), torch.tensor([value]), torch.tensor([of_gender]), black, white)


def effect_of(outputs, edits, plan):
    steepness = (plan.gender_steepness, plan.race_steepness)
    return effect_loss(outputs, edits, steepness=steepness, weights=(plan.gender_effect, plan.race_effect))


def test_effect_loss_is_minimal_at_the_wanted_value():
    for value in (-2.0, 0.5, 2.0):
        logits = torch.linspace(-6, 6, 121)
        edit, target = one_edit(of_gender=True, value=value), PLAN.gender_steepness * value
        losses = [effect_of(outputs_with(1, _0=logit), edit, PLAN) for logit in logits]
        assert logits[int(torch.stack(losses).argmin())].item() == pytest.approx(target, abs=0.06)


def test_race_steepness_is_independent_of_gender_steepness():
    def best(plan):
        logits = torch.linspace(-6, 6, 121)
        edit = one_edit(of_gender=False, value=0.5)
        losses = [effect_of(outputs_with(1, _1=logit / 2, _2=-logit / 2), edit, plan) for logit in logits]
        return logits[int(torch.stack(losses).argmin())].item()

    flat, steep = FaderPlan(race_steepness=1.0), FaderPlan(race_steepness=3.0)
    assert best(flat) < best(steep)
    assert best(replace(flat, gender_steepness=9.0)) == best(flat)


def test_effect_on_race_has_the_sign_of_the_pair():
    whiter, blacker = outputs_with(1, _1=3.0), outputs_with(1, _2=3.0)
    up, down = one_edit(of_gender=False, value=2.0), one_edit(of_gender=False, value=-2.0)
    assert effect_of(whiter, up, PLAN) < effect_of(blacker, up, PLAN)
    assert effect_of(blacker, down, PLAN) < effect_of(whiter, down, PLAN)


def test_keep_loss_allows_changes_of_the_edited_attribute_only():
    before = torch.randn(1, OUTPUTS)
    gender_edit, race_edit = one_edit(of_gender=True, value=1.0), one_edit(of_gender=False, value=1.0)
    assert keep_loss(before, before, gender_edit).abs() < 1e-6
    moved_gender, moved_race, older = before.clone(), before.clone(), before.clone()
    moved_gender[:, 0] += 2
    moved_race[:, 1] += 2
    older[:, 12] += 1
    assert keep_loss(moved_gender, before, gender_edit).abs() < 1e-6
    assert keep_loss(moved_gender, before, race_edit) > 0.01
    assert keep_loss(moved_race, before, race_edit).abs() < 1e-6
    assert keep_loss(moved_race, before, gender_edit) > 0.01
    assert min(keep_loss(older, before, edit) for edit in (gender_edit, race_edit)) > 1


AGE, SMILING = 12, 13


def many_edits(values, *, of_gender):
    count = len(values)
    black, white = (torch.full((count,), RACES.index(race)) for race in ("Black", "White"))
    of_gender = torch.tensor([of_gender] * count) if isinstance(of_gender, bool) else torch.tensor(of_gender)
    return Edits(torch.zeros(count, 8), torch.tensor(values), of_gender, black, white)


def moved_by(changes, column, seed=0):
    """Outputs after and before an edit that changes one column."""
    before = torch.zeros(len(changes), OUTPUTS)
    before[:, :12] = torch.randn(len(changes), 12, generator=torch.Generator().manual_seed(seed))
    after = before.clone()
    after[:, column] += torch.tensor(changes)
    return after, before


VALUES = [-2.0, -1.0, 0.0, 1.0, 2.0]


@pytest.mark.parametrize("of_gender", [True, False, [True, False, True, False, True]])
@pytest.mark.parametrize("column", [AGE, SMILING])
def test_drift_loss_is_zero_for_changes_uncorrelated_with_the_value(of_gender, column):
    edits = many_edits(VALUES, of_gender=of_gender)
    assert drift_loss(*moved_by([0.0] * 5, column), edits) == 0
    # Changes that are equal at both ends have no slope.
    assert drift_loss(*moved_by([0.1, -0.1, 0.3, -0.1, 0.1], column), edits).item() == pytest.approx(0, abs=1e-8)


@pytest.mark.parametrize("of_gender", [True, False])
@pytest.mark.parametrize("column", [AGE, SMILING])
def test_drift_loss_is_the_squared_slope(of_gender, column):
    edits = many_edits(VALUES, of_gender=of_gender)
    losses = [drift_loss(*moved_by([slope * v for v in VALUES], column), edits).item() for slope in (0.01, -0.01, 0.02)]
    assert losses[0] == pytest.approx(0.01**2, rel=1e-2)
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
    assert losses[2] == pytest.approx(4 * losses[0], rel=1e-2)


def test_drifts_of_gender_and_race_do_not_cancel():
    edits = many_edits([-1.0, 1.0, -1.0, 1.0], of_gender=[True, True, False, False])
    assert drift_loss(*moved_by([-0.1, 0.1, 0.1, -0.1], AGE), edits) > 0.01
    # The edited attribute may change.
    assert drift_loss(*moved_by([-3.0, 3.0, 3.0, -3.0], 0), edits) == 0


def test_drift_loss_of_a_batch_with_one_attribute_is_finite():
    loss = drift_loss(*moved_by([0.5], AGE), many_edits([0.01], of_gender=True))
    assert loss.isfinite()


def test_hiding_loss_prefers_wrong_gender_and_uniform_race():
    own = torch.zeros(1, 8)
    own[:, GENDER] = 1
    even, sure = torch.zeros(1, 5), torch.tensor([[9.0, 0, 0, 0, 0]])
    assert hiding_loss(torch.tensor([-5.0]), even, own) < hiding_loss(torch.tensor([5.0]), even, own)
    assert hiding_loss(torch.tensor([0.0]), even, own) < hiding_loss(torch.tensor([0.0]), sure, own)


def test_roughness_and_luma_of_stripes():
    flat = torch.full((1, 3, 8, 8), 0.5)
    assert roughness(flat) == 0
    stripes = flat.clone()
    stripes[..., ::2] = -0.5
    assert roughness(stripes) == pytest.approx(1)
    np.testing.assert_allclose(batch_luma(flat), 0.5, rtol=1e-5)


def test_masks_are_shifted_like_the_crops(faces):
    shift = torch.tensor([[4, -3]])
    masks = np.ascontiguousarray(faces.crops[..., 0])
    cut = mask_pixels(masks, torch.tensor([2]), shift)
    np.testing.assert_allclose(cut[:, 0] * 255, faces.pixels(torch.tensor([2]), shift)[:, 0].float(), rtol=1e-5)


# Training


def test_weight_average_follows_the_network():
    fader = Fader()
    average = Average(fader)
    name, weight = next(iter(fader.named_parameters()))
    start = weight.detach().clone()
    weight.data += 1
    average.update(fader, 0)
    mean = dict(average.module.named_parameters())[name]
    np.testing.assert_allclose(mean, start + 0.9, rtol=1e-4, atol=1e-5)  # decay (1 + 0) / (10 + 0)
    for step in range(2000, 2010):
        average.update(fader, step)
    assert ((mean > start + 0.9) & (mean < start + 1)).all()


def test_weight_average_copies_the_erased_direction():
    fader = Fader()
    average = Average(fader)
    fader.erased[7] = fader.reading[7] = 1.0
    average.update(fader, 5)
    assert torch.equal(average.module.erased, fader.erased)


# Selection of checkpoints

FIGURES = {
    "psnr": 27.0,
    "drift_1": 0.02,
    "drift_2": 0.2,
    "gender_1": 0.4,
    "gender_2": 0.6,
    "race_1": 0.5,
    "race_2": 0.9,
}


def test_worth_is_the_mean_effect_within_the_limits():
    assert worth(FIGURES, PLAN) == pytest.approx((0.4 + 0.6 + 0.5 + 0.9) / 4)
    assert worth(FIGURES | {"drift_2": 0.9}, PLAN) == worth(FIGURES, PLAN)
    for missed in ({"psnr": PLAN.least_psnr - 0.1}, {"drift_1": PLAN.most_drift + 0.001}):
        assert worth(FIGURES | missed, PLAN) == -float("inf")
    assert worth(FIGURES | {"psnr": 20.0}, replace(PLAN, least_psnr=19.0)) == worth(FIGURES, PLAN)


def test_best_checkpoint_is_kept():
    def average(level):
        constant = Average(Fader())
        for parameter in constant.module.parameters():
            parameter.fill_(level)
        return constant

    best = Best(Fader())
    assert best.worth == -torch.inf
    for level, value in ((1.0, -float("inf")), (2.0, 0.5), (3.0, 0.4), (4.0, 0.6), (5.0, 0.6)):
        offered = average(level)
        best.offer(offered, value)
        for parameter in offered.module.parameters():
            parameter.fill_(-9.0)  # as further training would
    assert best.worth.item() == pytest.approx(0.6)
    assert all((parameter == 4.0).all() for parameter in best.average.module.parameters())
    # The state dict round trip keeps it.
    again = Best(Fader())
    again.load_state_dict(best.state_dict())
    assert again.worth == best.worth


def test_evaluation_uses_the_selection_faces_only(faces):
    masks = np.full((len(faces), SIDE, SIDE), 255, dtype=np.uint8)
    torch.manual_seed(0)
    guide, fader = Estimator(widths=(8, 8, 8, 8)).eval(), Fader().eval()
    figures = evaluate(fader, guide, faces, masks, device="cpu")
    assert set(figures) == set(FIGURES)
    others = face_set()
    kept = np.isin(np.arange(len(others)), selection_rows(others).numpy())
    others.crops[~kept] = 99
    assert evaluate(fader, guide, others, masks, device="cpu") == figures
    others.crops[kept] = 99
    assert evaluate(fader, guide, others, masks, device="cpu") != figures


@pytest.mark.parametrize(("limits", "chosen"), [({}, False), ({"most_drift": 1.0, "least_psnr": -99.0}, True)])
def test_result_is_the_best_checkpoint_or_the_last_if_none_is_within_limits(faces, tmp_path, capsys, limits, chosen):
    masks = np.full((len(faces), SIDE, SIDE), 255, dtype=np.uint8)
    torch.manual_seed(0)
    plan = FaderPlan(steps=1, batch=2, **limits)
    average = train(Fader(), Estimator(widths=(8, 8, 8, 8)), faces, masks, plan, tmp_path, device="cpu")
    line = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])
    assert np.isfinite(line["best"]) == chosen
    assert isinstance(average, Average)
    assert all(tensor.isfinite().all() for tensor in average.module.state_dict().values())


def test_training_changes_the_network_and_can_be_resumed(faces, tmp_path, capsys):
    masks = np.zeros((len(faces), SIDE, SIDE), dtype=np.uint8)
    masks[:, 40:110, 40:110] = 255
    torch.manual_seed(0)
    guide = Estimator(widths=(8, 8, 8, 8))
    guide_before = {name: tensor.clone() for name, tensor in guide.state_dict().items()}
    fader = Fader()
    before = {name: tensor.detach().clone() for name, tensor in fader.named_parameters()}
    plan = FaderPlan(steps=2, batch=2)
    average = train(fader, guide, faces, masks, plan, tmp_path, device="cpu")
    assert all((fader.state_dict()[name] != tensor).any() for name, tensor in before.items())
    assert all(tensor.isfinite().all() for tensor in average.module.state_dict().values())
    assert all(torch.equal(guide.state_dict()[name], tensor) for name, tensor in guide_before.items())
    line = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])
    assert {"psnr", "gender_1", "race_2"} <= set(line)
    again = train(Fader(), guide, faces, masks, plan, tmp_path, device="cpu")
    for name, tensor in average.module.state_dict().items():
        assert torch.equal(again.module.state_dict()[name], tensor)
