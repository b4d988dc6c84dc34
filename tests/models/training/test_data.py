from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_faces import SIDE, face_set

from models.precision import to_unit
from models.training.data import (
    CROP,
    MARGIN,
    balanced_weights,
    disturb,
    flip_some,
    load_faces,
    part_of,
    report_rows,
    selection_rows,
    shifts,
    smiling_proxy,
)
from models.training.loop import generator


@pytest.fixture(scope="module")
def faces():
    return face_set()


# Parts


@given(st.text(max_size=60))
def test_part_of_a_name_is_deterministic(name):
    assert part_of(name) in (0, 1, 2)
    assert part_of(name) == part_of(name)


def test_split_is_that_of_the_embedded_networks():
    # With another split, the judge would rate faces that the estimator was trained on.
    names = ["25_0_2_20170116.jpg", "1.jpg", "2.jpg", "3.jpg", "00042.jpg", "bioguide/B000944.jpg"]
    assert [part_of(name) for name in names] == [1, 1, 1, 1, 2, 0]


def test_sizes_of_the_parts():
    counts = np.bincount([part_of(f"face {number}.jpg") for number in range(4000)]) / 4000
    np.testing.assert_allclose(counts, [0.45, 0.45, 0.10], atol=0.02)


def test_parts_are_disjoint_and_complete(faces):
    rows = [set(faces.rows(part).tolist()) for part in range(3)]
    assert rows[0] | rows[1] | rows[2] == set(range(len(faces)))
    assert sum(map(len, rows)) == len(faces)
    assert set(faces.rows(0, 1).tolist()) == rows[0] | rows[1]


@pytest.mark.parametrize("count", [0, 1, 3, 24, 301])
def test_selection_and_report_rows_partition_the_held_out_faces(count):
    faces = face_set(count)
    chosen, reported = selection_rows(faces).tolist(), report_rows(faces).tolist()
    assert not set(chosen) & set(reported)
    assert sorted(chosen + reported) == faces.rows(2).tolist()
    assert len(chosen) == -(-len(faces.rows(2)) // 4)  # a quarter, rounded up


# Labels


def test_smiling_proxy_ranks_mouth_width_relative_to_eye_distance():
    def face(width, scale):
        return scale * np.array([[0, 0], [30, 0], [15, 20], [15 - width / 2, 40], [15 + width / 2, 40]])

    widths = [24, 18, 30, 21, 27]
    faces = [face(width, scale) for width, scale in zip(widths, (1, 5, 2, 0.5, 3), strict=True)]
    assert smiling_proxy(np.stack(faces)).tolist() == [0, -1, 1, -0.5, 0.5]


@given(st.integers(2, 40), st.integers(0, 1000))
def test_smiling_proxy_is_uniform_from_minus_one_to_one(count, seed):
    proxy = smiling_proxy(np.random.default_rng(seed).normal(size=(count, 5, 2)))
    np.testing.assert_allclose(np.sort(proxy), np.linspace(-1, 1, count), atol=1e-12)


def test_balanced_weights_give_equal_weight_to_cells():
    faces = face_set(60)
    faces = replace(faces, race=torch.zeros(60, dtype=torch.long), age=torch.full((60,), 30.0))
    rows = torch.cat([torch.arange(0, 60, 2), torch.arange(1, 20, 2)])  # 30 masculine, 10 feminine
    weights = balanced_weights(faces, rows, power=1.0)
    assert weights[:30].sum() == pytest.approx(weights[30:].sum())
    assert (balanced_weights(faces, rows, power=0.0) == 1).all()


def test_load_faces_reads_prepared_files(tmp_path):
    faces = face_set(6)
    names = [f"{number}.jpg" for number in range(6)]
    np.save(tmp_path / "crops.npy", faces.crops)
    labels = {name: getattr(faces, name).numpy() for name in ("gender", "race", "age", "smiling")}
    np.savez(tmp_path / "faces.npz", files=np.array(names), **labels)
    loaded = load_faces(tmp_path)
    assert len(loaded) == 6
    assert loaded.part.tolist() == [part_of(name) for name in names]
    assert torch.equal(loaded.race, faces.race)
    assert torch.equal(loaded.pixels(torch.tensor([1, 4])), faces.pixels(torch.tensor([1, 4])))


# Pixels


def test_shift_moves_the_crop_within_the_margin(faces):
    rows = torch.tensor([3, 3, 3])
    shift = torch.tensor([[0, 0], [-MARGIN, MARGIN], [5, -2]])
    batch = faces.pixels(rows, shift)
    assert batch.shape == (3, 3, CROP, CROP)
    whole = torch.from_numpy(faces.crops[3]).permute(2, 0, 1)
    assert torch.equal(batch[0], whole[:, MARGIN:-MARGIN, MARGIN:-MARGIN])
    assert torch.equal(batch[1], whole[:, :CROP, SIDE - CROP :])
    assert torch.equal(batch[2], whole[:, MARGIN + 5 : MARGIN + 5 + CROP, MARGIN - 2 : MARGIN - 2 + CROP])
    assert torch.equal(faces.pixels(rows), batch[[0, 0, 0]])


def test_shifts_cover_their_range():
    offsets = shifts(500, reach=3, random=generator(0, 0))
    assert offsets.shape == (500, 2)
    assert offsets.unique().tolist() == [-3, -2, -1, 0, 1, 2, 3]


def test_to_unit_maps_0_and_255_to_minus_1_and_1():
    assert to_unit(torch.tensor([0, 255], dtype=torch.uint8)).tolist() == [-1, 1]


# Augmentation


def test_flip_mirrors_some_faces():
    faces = torch.rand(40, 3, 8, 8)
    flipped = flip_some(faces, generator(0, 0))
    same = (flipped == faces).all(dim=3).all(dim=2).all(dim=1)
    mirrored = (flipped == faces.flip(3)).all(dim=3).all(dim=2).all(dim=1)
    assert (same ^ mirrored).all()
    assert 8 < same.sum() < 32


def test_disturbance_is_reproducible_by_seed():
    faces = torch.rand(6, 3, 32, 32) * 2 - 1
    first, again, other = (disturb(faces, generator(0, step)) for step in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.shape == faces.shape
    assert first.isfinite().all()


def test_same_seed_disturbs_both_images_of_an_edit_equally():
    # The training of the Fader network requires that only the edit differs.
    before = torch.rand(6, 3, 32, 32) * 2 - 1
    after = before.clone()
    after[:, :, 10:20, 10:20] += 0.3
    difference = disturb(after, generator(0, 3)) - disturb(before, generator(0, 3))
    assert difference[:, :, :2, :2].abs().max() < 1e-5
    assert (difference[:, :, 14, 14].mean(dim=1) > 0.1).all()


def test_zero_strength_keeps_brightness_and_colour():
    flat = torch.full((200, 3, 16, 16), 0.25)
    assert (disturb(flat, generator(0, 0), strength=0.0) - 0.25).abs().max() < 1e-5
