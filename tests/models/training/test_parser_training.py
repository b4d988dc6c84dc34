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
STEP = 12  # level of red per class


def paint(mask):
    """A photo whose colours encode the classes."""
    return np.stack([mask * STEP, 255 - mask * STEP, np.full_like(mask, 40)], axis=-1).astype(np.uint8)


def mask_set(count=4):
    masks = np.zeros((count, SIDE, SIDE), dtype=np.uint8)
    masks[:, 20:120, 20:108] = CLASSES.index("skin")
    masks[:, 40:55, 30:55] = CLASSES.index("l_eye")
    masks[:, 40:55, 75:100] = CLASSES.index("r_eye")
    masks[:, 85:100, 45:85] = CLASSES.index("mouth")
    masks[:, :20] = CLASSES.index("hair")
    return MaskSet(
        photos=np.stack([paint(mask) for mask in masks]),
        masks=masks,
        landmarks=np.repeat((TEMPLATE * SIDE)[None], count, axis=0),
        held_out=np.arange(count) == count - 1,
    )


class ColourReader(nn.Module):
    """A parser that decodes the colours, except for the classes ``blind``."""

    def __init__(self, blind=()):
        super().__init__()
        self.blind = list(blind)

    def forward(self, photos):
        level = ((photos[:, 0] + 1) * 127.5 / STEP)[:, None]
        logits = -((level - torch.arange(len(CLASSES))[:, None, None]) ** 2)
        logits[:, self.blind] = -1e6
        return logits


def test_classes_of_the_files_are_mapped_by_name():
    assert sorted(TO_CLASSES.tolist()) == list(range(len(CLASSES)))
    assert all(CLASSES[TO_CLASSES[FILE_CLASSES.index(name)]] == name for name in ("nose", "hair", "l_eye"))


# Augmentation


@pytest.mark.parametrize("step", range(12))
def test_photo_and_mask_are_augmented_together(step):
    photo, mask = vary(mask_set(), 0, generator(1, step), size=96)
    assert photo.shape == (96, 96, 3)
    assert mask.shape == (96, 96)
    assert set(np.unique(mask)) <= {0, 1, *MIRRORED[4:6], 11, 17}
    # Pixels away from outlines, where colours blend, still encode their class, up to left and right.
    same = np.array([min(index, MIRRORED[index]) for index in range(len(CLASSES))])
    classes = same[np.rint(photo[..., 0] / STEP).astype(int).clip(0, 18)]
    flat = np.ones_like(mask, dtype=bool)
    for axis in (0, 1):
        for distance in (-2, -1, 1, 2):
            flat &= mask == np.roll(mask, distance, axis)
    flat[:3], flat[-3:], flat[:, :3], flat[:, -3:] = False, False, False, False
    assert flat.mean() > 0.3
    assert (classes[flat] == same[mask[flat]]).mean() > 0.999


def test_mirroring_swaps_left_and_right_eye():
    for step in range(12):
        _, mask = vary(mask_set(), 0, generator(2, step), size=96)
        left, right = ((mask == CLASSES.index(name)).nonzero()[1] for name in ("l_eye", "r_eye"))
        if len(left) and len(right):
            assert left.mean() < right.mean()


def test_augmentation_is_reproducible():
    first, again, other = (vary(mask_set(), 0, generator(1, step), size=64)[0] for step in (3, 3, 4))
    assert (first == again).all()
    assert (first != other).any()


# Sampling of photos


def test_photos_with_rare_classes_are_weighted_up_to_a_maximum():
    pixels = np.zeros((100, len(CLASSES)), dtype=np.int64)
    pixels[:, :3] = 500  # in every photo
    pixels[:25, CLASSES.index("eyeglasses")] = 40
    pixels[0, CLASSES.index("hat")] = 1
    weights = rare_photo_weights(pixels)
    assert weights.shape == (100,)
    assert weights[0] == 3  # without the maximum, 1 in 100 would weigh 10
    np.testing.assert_allclose(weights[1:25], 2)  # 1 in 4
    np.testing.assert_allclose(weights[25:], 1)


def test_photo_weights_do_not_depend_on_the_area_of_classes():
    few, many = (np.array([[900, pixels], [900, 0], [900, 0], [900, 0]]) for pixels in (1, 800))
    np.testing.assert_allclose(rare_photo_weights(few), rare_photo_weights(many))


# Losses and scores


def test_soft_dice_loss_of_correct_and_wrong_logits():
    masks = torch.from_numpy(mask_set(2).masks[:, ::4, ::4].astype(np.int64))
    truth = 50 * nn.functional.one_hot(masks, len(CLASSES)).permute(0, 3, 1, 2).float()
    assert soft_dice_loss(truth, masks).item() == pytest.approx(0, abs=1e-4)
    assert soft_dice_loss(truth.roll(1, dims=1), masks).item() == pytest.approx(1, abs=0.35)
    assert 0 < soft_dice_loss(torch.zeros_like(truth), masks) < 1


def test_perfect_parser_scores_1():
    data = mask_set()
    figures = evaluate(ColourReader(), data, device="cpu", size=SIDE)
    assert figures == pytest.approx({"skin_f1": 1, "face_iou": 1, "mean_iou": 1})


def test_scores_ignore_sides_but_not_missing_classes():
    data = mask_set()
    eyes = [CLASSES.index("l_eye"), CLASSES.index("r_eye")]
    swapped = replace(data, masks=np.array(MIRRORED, dtype=np.uint8)[data.masks])
    assert evaluate(ColourReader(), swapped, device="cpu", size=SIDE)["mean_iou"] == pytest.approx(1)
    figures = evaluate(ColourReader(blind=eyes), data, device="cpu", size=SIDE)
    assert figures["mean_iou"] < 0.9


def test_training_changes_the_network(tmp_path, capsys):
    network = SmallParser(widths=(8, 8, 8, 8, 8))
    network.size = 64
    before = {name: value.clone() for name, value in network.named_parameters()}
    train(network, mask_set(), ParserPlan(steps=2, batch=2), tmp_path, device="cpu")
    assert any((value != before[name]).any() for name, value in network.named_parameters())
    assert all(value.isfinite().all() for value in network.state_dict().values())
    assert not network.training
    assert network(torch.zeros(1, 3, 64, 64)).shape == (1, len(CLASSES), 64, 64)
    assert "skin_f1" in (tmp_path / "log.jsonl").read_text()


def test_load_masks_reads_prepared_files(tmp_path):
    data, names = mask_set(), [f"{number}.jpg" for number in range(4)]
    np.save(tmp_path / "photos.npy", data.photos)
    np.save(tmp_path / "masks.npy", data.masks)
    np.savez(tmp_path / "masks.npz", files=np.array(names), landmarks=data.landmarks)
    loaded = load_masks(tmp_path)
    assert (loaded.masks == data.masks).all()
    assert loaded.held_out.tolist() == [part_of(name) == 2 for name in names]
