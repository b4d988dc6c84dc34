from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from models.alignment import TEMPLATE
from models.parser import CLASSES, MIRRORED, SmallParser
from models.training.data import part_of
from models.training.loop import generator
from models.training.parser import (
    FILE_CLASSES,
    TO_CLASSES,
    MaskSet,
    ParserPlan,
    evaluate,
    load_masks,
    rare_photo_weights,
    soft_dice_loss,
    train,
    vary,
)

SIDE = 128
STEP = 12  # a class is known by its level of red


def painted(mask):
    """A photo whose colour tells each pixel's class."""
    return np.stack([mask * STEP, 255 - mask * STEP, np.full_like(mask, 40)], axis=-1).astype(np.uint8)


def mask_set(count=4):
    masks = np.zeros((count, SIDE, SIDE), dtype=np.uint8)
    masks[:, 20:120, 20:108] = CLASSES.index("skin")
    masks[:, 40:55, 30:55] = CLASSES.index("l_eye")
    masks[:, 40:55, 75:100] = CLASSES.index("r_eye")
    masks[:, 85:100, 45:85] = CLASSES.index("mouth")
    masks[:, :20] = CLASSES.index("hair")
    return MaskSet(
        photos=np.stack([painted(mask) for mask in masks]),
        masks=masks,
        landmarks=np.repeat((TEMPLATE * SIDE)[None], count, axis=0),
        held_out=np.arange(count) == count - 1,
    )


class Reader(nn.Module):
    """A parser that reads the painted class; ``blind`` to the classes it never sees."""

    def __init__(self, blind=()):
        super().__init__()
        self.blind = list(blind)

    def forward(self, photos):
        level = ((photos[:, 0] + 1) * 127.5 / STEP)[:, None]
        logits = -((level - torch.arange(len(CLASSES))[:, None, None]) ** 2)
        logits[:, self.blind] = -1e6
        return logits


def test_every_class_of_the_files_is_one_of_ours_by_name():
    assert sorted(TO_CLASSES.tolist()) == list(range(len(CLASSES)))
    assert [CLASSES[TO_CLASSES[FILE_CLASSES.index(name)]] for name in ("nose", "hair", "l_eye")] == [
        "nose", "hair", "l_eye",
    ]  # fmt: skip


# Augmentation


@pytest.mark.parametrize("step", range(12))
def test_photo_and_mask_are_varied_together(step):
    photo, mask = vary(mask_set(), 0, generator(1, step), size=96)
    assert photo.shape == (96, 96, 3)
    assert mask.shape == (96, 96)
    assert set(np.unique(mask)) <= {0, 1, *MIRRORED[4:6], 11, 17}
    # Away from the outlines, where colours blend, each pixel still shows its class. Left and right may have
    # changed places, of which the painting knows nothing.
    same = np.array([min(index, MIRRORED[index]) for index in range(len(CLASSES))])
    shown = same[np.rint(photo[..., 0] / STEP).astype(int).clip(0, 18)]
    flat = np.ones_like(mask, dtype=bool)
    for axis in (0, 1):
        for distance in (-2, -1, 1, 2):
            flat &= mask == np.roll(mask, distance, axis)
    flat[:3], flat[-3:], flat[:, :3], flat[:, -3:] = False, False, False, False
    assert flat.mean() > 0.3
    assert (shown[flat] == same[mask[flat]]).mean() > 0.999


def test_the_left_eye_stays_on_the_left_when_a_photo_is_mirrored():
    for step in range(12):
        _, mask = vary(mask_set(), 0, generator(2, step), size=96)
        left, right = ((mask == CLASSES.index(name)).nonzero()[1] for name in ("l_eye", "r_eye"))
        if len(left) and len(right):
            assert left.mean() < right.mean()


def test_the_same_seed_varies_alike():
    first, again, other = (vary(mask_set(), 0, generator(1, step), size=64)[0] for step in (3, 3, 4))
    assert (first == again).all()
    assert (first != other).any()


# How often a photo is shown


def test_photos_with_rare_things_are_shown_more_often_but_not_too_often():
    shown = np.zeros((100, len(CLASSES)), dtype=np.int64)
    shown[:, :3] = 500  # every photo has these
    shown[:25, CLASSES.index("eyeglasses")] = 40
    shown[0, CLASSES.index("hat")] = 1
    weights = rare_photo_weights(shown)
    assert weights.shape == (100,)
    assert weights[0] == 3  # one in a hundred would weigh ten
    np.testing.assert_allclose(weights[1:25], 2)  # one in four
    np.testing.assert_allclose(weights[25:], 1)


def test_how_much_of_a_photo_a_thing_covers_does_not_matter():
    few, many = (np.array([[900, pixels], [900, 0], [900, 0], [900, 0]]) for pixels in (1, 800))
    np.testing.assert_allclose(rare_photo_weights(few), rare_photo_weights(many))


# Losses and figures


def test_soft_dice_is_0_for_the_truth_and_1_for_the_opposite():
    masks = torch.from_numpy(mask_set(2).masks[:, ::4, ::4].astype(np.int64))
    truth = 50 * nn.functional.one_hot(masks, len(CLASSES)).permute(0, 3, 1, 2).float()
    assert soft_dice_loss(truth, masks).item() == pytest.approx(0, abs=1e-4)
    assert soft_dice_loss(truth.roll(1, dims=1), masks).item() == pytest.approx(1, abs=0.35)
    assert 0 < soft_dice_loss(torch.zeros_like(truth), masks) < 1


def test_a_parser_that_sees_the_truth_scores_1():
    data = mask_set()
    figures = evaluate(Reader(), data, device="cpu", size=SIDE)
    assert figures == pytest.approx({"skin_f1": 1, "face_iou": 1, "mean_iou": 1})


def test_taking_the_left_eye_for_the_right_costs_nothing_but_missing_both_does():
    data = mask_set()
    eyes = [CLASSES.index("l_eye"), CLASSES.index("r_eye")]
    swapped = replace(data, masks=np.array(MIRRORED, dtype=np.uint8)[data.masks])
    assert evaluate(Reader(), swapped, device="cpu", size=SIDE)["mean_iou"] == pytest.approx(1)
    figures = evaluate(Reader(blind=eyes), data, device="cpu", size=SIDE)
    assert figures["mean_iou"] < 0.9


def test_a_step_of_training_runs(tmp_path, capsys):
    network = SmallParser(widths=(8, 8, 8, 8, 8))
    network.size = 64
    before = {name: value.clone() for name, value in network.named_parameters()}
    train(network, mask_set(), ParserPlan(steps=2, batch=2), tmp_path, device="cpu")
    assert any((value != before[name]).any() for name, value in network.named_parameters())
    assert all(value.isfinite().all() for value in network.state_dict().values())
    assert not network.training
    assert network(torch.zeros(1, 3, 64, 64)).shape == (1, len(CLASSES), 64, 64)
    assert "skin_f1" in (tmp_path / "log.jsonl").read_text()


def test_what_was_prepared_is_loaded(tmp_path):
    data, names = mask_set(), [f"{number}.jpg" for number in range(4)]
    np.save(tmp_path / "photos.npy", data.photos)
    np.save(tmp_path / "masks.npy", data.masks)
    np.savez(tmp_path / "masks.npz", files=np.array(names), landmarks=data.landmarks)
    loaded = load_masks(tmp_path)
    assert (loaded.masks == data.masks).all()
    assert loaded.held_out.tolist() == [part_of(name) == 2 for name in names]
