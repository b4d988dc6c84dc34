import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn_faces_set import SIDE, face_set
from hypothesis import given
from hypothesis import strategies as st

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


def some_edits(count=64, seed=0, reach=2.0):
    random = generator(seed, 0)
    race = torch.randint(5, (count,), generator=random)
    own = torch.zeros(count, 8)
    own[:, GENDER] = torch.randint(2, (count,), generator=random) * 2.0 - 1
    own[torch.arange(count), 1 + race] = 1
    own[:, OTHERS] = torch.rand(count, 2, generator=random) * 2 - 1
    return own, draw_edits(own, reach=reach, random=random)


def test_own_attributes_are_the_labels_in_the_decoders_order(faces):
    own = own_attributes(faces, torch.tensor([4, 7]))
    assert own.shape == (2, len(ATTRIBUTES))
    assert own[:, GENDER].tolist() == faces.gender[[4, 7]].tolist()
    assert own[:, RACE].argmax(dim=1).tolist() == faces.race[[4, 7]].tolist()
    assert (own[:, RACE].sum(dim=1) == 1).all()
    assert own[:, -1].tolist() == faces.smiling[[4, 7]].tolist()


# The edits that are drawn


@given(st.integers(0, 10_000))
def test_an_edit_leaves_the_other_attributes_alone(seed):
    own, edits = some_edits(seed=seed)
    assert torch.equal(edits.attributes[:, OTHERS], own[:, OTHERS])
    assert torch.equal(edits.attributes[edits.of_gender][:, RACE], own[edits.of_gender][:, RACE])
    assert torch.equal(edits.attributes[~edits.of_gender, GENDER], own[~edits.of_gender, GENDER])
    assert torch.equal(edits.attributes[edits.of_gender, GENDER], edits.value[edits.of_gender])
    np.testing.assert_allclose(edits.attributes[:, RACE].sum(dim=1), 1, atol=1e-5)
    assert (edits.low != edits.high).all()


@pytest.mark.parametrize("reach", [1.0, 2.0])
def test_half_of_the_edits_are_of_gender_and_values_fill_the_reach(reach):
    own, edits = some_edits(4000, reach=reach)
    assert edits.of_gender.float().mean().item() == pytest.approx(0.5, abs=0.03)
    assert edits.value.abs().max() <= reach
    assert edits.value.abs().max() > 0.99 * reach
    default = (edits.low == RACES.index("Black")) & (edits.high == RACES.index("White"))
    assert 0.5 < default.float().mean() < 0.65
    assert torch.equal(own, some_edits(4000, reach=reach)[0])  # the faces' own values are not written over


# The losses


def test_the_composite_keeps_the_photo_where_the_mask_is_0():
    photos, edited, rebuilt = (torch.rand(2, 3, 32, 32) * 2 - 1 for _ in range(3))
    masks = (torch.rand(2, 1, 32, 32) > 0.5).float()
    made = composite(photos, masks, edited, rebuilt)
    outside = (masks == 0).expand_as(photos)
    assert torch.equal(made[outside], photos[outside])
    assert (made[~outside] != photos[~outside]).any()
    assert made.abs().max() <= 1
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


def test_the_effect_is_least_where_the_guide_perceives_the_wanted_value():
    for value in (-2.0, 0.5, 2.0):
        logits = torch.linspace(-6, 6, 121)
        edit, wanted = one_edit(of_gender=True, value=value), PLAN.gender_steepness * value
        losses = [effect_of(outputs_with(1, _0=logit), edit, PLAN) for logit in logits]
        assert logits[int(torch.stack(losses).argmin())].item() == pytest.approx(wanted, abs=0.06)


def test_the_steepness_of_race_is_its_own():
    def best(plan):
        logits = torch.linspace(-6, 6, 121)
        edit = one_edit(of_gender=False, value=0.5)
        losses = [effect_of(outputs_with(1, _1=logit / 2, _2=-logit / 2), edit, plan) for logit in logits]
        return logits[int(torch.stack(losses).argmin())].item()

    flat, steep = FaderPlan(race_steepness=1.0), FaderPlan(race_steepness=3.0)
    assert best(flat) < best(steep)
    assert best(replace(flat, gender_steepness=9.0)) == best(flat)


def test_the_effect_on_race_wants_the_pairs_high_end_at_plus():
    whiter, blacker = outputs_with(1, _1=3.0), outputs_with(1, _2=3.0)
    up, down = one_edit(of_gender=False, value=2.0), one_edit(of_gender=False, value=-2.0)
    assert effect_of(whiter, up, PLAN) < effect_of(blacker, up, PLAN)
    assert effect_of(blacker, down, PLAN) < effect_of(whiter, down, PLAN)


def test_keeping_costs_nothing_where_nothing_moves_and_only_the_edited_may_move():
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
    """Outputs before and after an edit that moved one column."""
    before = torch.zeros(len(changes), OUTPUTS)
    before[:, :12] = torch.randn(len(changes), 12, generator=torch.Generator().manual_seed(seed))
    after = before.clone()
    after[:, column] += torch.tensor(changes)
    return after, before


VALUES = [-2.0, -1.0, 0.0, 1.0, 2.0]


@pytest.mark.parametrize("of_gender", [True, False, [True, False, True, False, True]])
@pytest.mark.parametrize("column", [AGE, SMILING])
def test_drift_costs_nothing_where_nothing_moves_or_moves_do_not_go_along_with_the_dial(of_gender, column):
    edits = many_edits(VALUES, of_gender=of_gender)
    assert drift_loss(*moved_by([0.0] * 5, column), edits) == 0
    # The same at both ends: whatever it is, it is not the dial's doing.
    assert drift_loss(*moved_by([0.1, -0.1, 0.3, -0.1, 0.1], column), edits).item() == pytest.approx(0, abs=1e-8)


@pytest.mark.parametrize("of_gender", [True, False])
@pytest.mark.parametrize("column", [AGE, SMILING])
def test_drift_is_the_squared_slope_along_the_dial(of_gender, column):
    edits = many_edits(VALUES, of_gender=of_gender)
    losses = [drift_loss(*moved_by([slope * v for v in VALUES], column), edits).item() for slope in (0.01, -0.01, 0.02)]
    assert losses[0] == pytest.approx(0.01**2, rel=1e-2)
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
    assert losses[2] == pytest.approx(4 * losses[0], rel=1e-2)


def test_gender_and_race_cannot_make_up_for_each_other():
    edits = many_edits([-1.0, 1.0, -1.0, 1.0], of_gender=[True, True, False, False])
    assert drift_loss(*moved_by([-0.1, 0.1, 0.1, -0.1], AGE), edits) > 0.01
    # What was to move may move.
    assert drift_loss(*moved_by([-3.0, 3.0, 3.0, -3.0], 0), edits) == 0


def test_a_batch_without_one_of_the_attributes_has_a_drift_too():
    loss = drift_loss(*moved_by([0.5], AGE), many_edits([0.01], of_gender=True))
    assert loss.isfinite()


def test_hiding_is_best_when_the_discriminator_is_wrong_about_gender_and_even_about_race():
    own = torch.zeros(1, 8)
    own[:, GENDER] = 1
    even, sure = torch.zeros(1, 5), torch.tensor([[9.0, 0, 0, 0, 0]])
    assert hiding_loss(torch.tensor([-5.0]), even, own) < hiding_loss(torch.tensor([5.0]), even, own)
    assert hiding_loss(torch.tensor([0.0]), even, own) < hiding_loss(torch.tensor([0.0]), sure, own)


def test_roughness_and_luma():
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


# The training itself


def test_the_average_starts_at_the_network_and_follows_it():
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


def test_the_average_erases_what_the_network_erases():
    fader = Fader()
    average = Average(fader)
    fader.erased[7] = fader.reading[7] = 1.0
    average.update(fader, 5)
    assert torch.equal(average.module.erased, fader.erased)


# Which checkpoint is shipped

GOOD = {"psnr": 27.0, "drift_1": 0.02, "drift_2": 0.2, "gender_1": 0.4, "gender_2": 0.6, "race_1": 0.5, "race_2": 0.9}


def test_a_checkpoint_is_worth_its_effect_if_it_keeps_the_floors():
    assert worth(GOOD, PLAN) == pytest.approx((0.4 + 0.6 + 0.5 + 0.9) / 4)
    assert worth(GOOD | {"drift_2": 0.9}, PLAN) == worth(GOOD, PLAN)
    for missed in ({"psnr": PLAN.least_psnr - 0.1}, {"drift_1": PLAN.most_drift + 0.001}):
        assert worth(GOOD | missed, PLAN) == -float("inf")
    assert worth(GOOD | {"psnr": 20.0}, replace(PLAN, least_psnr=19.0)) == worth(GOOD, PLAN)


def test_the_best_checkpoint_is_kept_as_it_was():
    def average(level):
        made = Average(Fader())
        for parameter in made.module.parameters():
            parameter.fill_(level)
        return made

    best = Best(Fader())
    assert best.worth == -torch.inf
    for level, value in ((1.0, -float("inf")), (2.0, 0.5), (3.0, 0.4), (4.0, 0.6), (5.0, 0.6)):
        offered = average(level)
        best.offer(offered, value)
        for parameter in offered.module.parameters():
            parameter.fill_(-9.0)  # the training goes on
    assert best.worth.item() == pytest.approx(0.6)
    assert all((parameter == 4.0).all() for parameter in best.average.module.parameters())
    # What a resumed training reads back is the same.
    again = Best(Fader())
    again.load_state_dict(best.state_dict())
    assert again.worth == best.worth


def test_checkpoints_are_chosen_on_the_faces_kept_for_it(faces):
    masks = np.full((len(faces), SIDE, SIDE), 255, dtype=np.uint8)
    torch.manual_seed(0)
    guide, fader = Estimator(widths=(8, 8, 8, 8)).eval(), Fader().eval()
    figures = evaluate(fader, guide, faces, masks, device="cpu")
    assert set(figures) == set(GOOD)
    others = face_set()
    kept = np.isin(np.arange(len(others)), selection_rows(others).numpy())
    others.crops[~kept] = 99
    assert evaluate(fader, guide, others, masks, device="cpu") == figures
    others.crops[kept] = 99
    assert evaluate(fader, guide, others, masks, device="cpu") != figures


@pytest.mark.parametrize(("floors", "chosen"), [({}, False), ({"most_drift": 1.0, "least_psnr": -99.0}, True)])
def test_what_ships_is_the_best_checkpoint_or_the_last_where_none_keeps_the_floors(
    faces, tmp_path, capsys, floors, chosen
):
    masks = np.full((len(faces), SIDE, SIDE), 255, dtype=np.uint8)
    torch.manual_seed(0)
    plan = FaderPlan(steps=1, batch=2, **floors)
    average = train(Fader(), Estimator(widths=(8, 8, 8, 8)), faces, masks, plan, tmp_path, device="cpu")
    line = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])
    assert np.isfinite(line["best"]) == chosen
    assert isinstance(average, Average)
    assert all(tensor.isfinite().all() for tensor in average.module.state_dict().values())


def test_a_few_steps_run_and_can_be_resumed(faces, tmp_path, capsys):
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
