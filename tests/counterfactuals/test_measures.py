"""Measures of an editor, on images and values with known results."""

import numpy as np
import pytest

from pipeline.counterfactuals import measures


def test_measures_distinguish_a_spot_from_a_uniform_change():
    photos = np.full((3, 64, 64, 3), 120, np.uint8)
    masks = np.ones((3, 64, 64))
    even, spot = photos.copy(), photos.copy()
    even += 30
    spot[:, 28:34, 10:16] = 20
    assert measures.stencil(measures.lightness_map(photos, even, masks)) < 0.01
    assert measures.stencil(measures.lightness_map(photos, spot, masks)) > 20
    in_spot, everywhere = (measures.lightness_change(photos, versions) for versions in (spot, even))
    assert measures.concentration(in_spot, masks).min() > 0.99
    assert measures.concentration(everywhere, masks).max() < 0.06
    assert measures.asymmetry(everywhere, masks).max() < 0.01
    assert measures.asymmetry(in_spot, masks).min() > 1.5


def test_falling_share_dead_faces_auc_and_group_effects():
    rising = np.linspace(0.1, 0.9, 5)[None]
    falling = np.array([[0.1, 0.5, 0.45, 0.6, 0.9]])
    still = np.full((1, 5), 0.3)
    rows = np.concatenate([rising, falling, still])
    assert measures.falling_share(rows) == pytest.approx(1 / 3)
    assert measures.dead_faces(rows).tolist() == [False, False, True]
    scores, positive = np.array([0.1, 0.2, 0.8, 0.9]), np.array([False, False, True, True])
    assert measures.auc(scores, positive) == 1
    low, high = measures.auc_interval(scores, positive, np.array([0, 1, 0, 1]), draws=50)
    assert (low, high) == (1, 1)
    changes = measures.years_moved(np.array([30.0, 40]), np.array([32.0, 38]))
    assert (changes.mean, changes.most) == (0, 2)
    effects = measures.group_effects(np.zeros(3), np.ones(3), np.array(["a", "a", "b"]), least=2)
    assert effects == {"a": 1.0}


def test_shift_gap_is_the_difference_between_face_and_neck():
    images = np.full((1, 20, 20, 3), 120, np.uint8)
    masks = np.ones((1, 20, 20))
    before = measures.median_colours(images, masks)
    lighter = measures.median_colours(images + 40, masks)
    assert measures.shift_gap((before, before), (lighter, lighter)) == pytest.approx(0)
    gap = measures.shift_gap((before, before), (lighter, before))
    assert gap == pytest.approx(lighter[0, 0] - before[0, 0], rel=0.01)
    assert np.isnan(measures.median_colours(images, 0 * masks)).all()
