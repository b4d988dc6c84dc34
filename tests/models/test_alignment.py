import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from models.alignment import TEMPLATE, invert, rotation_degrees, similarity_to_template, warp_to_template

angles = st.floats(-180, 180)
scales = st.floats(0.05, 20)
shifts = st.tuples(st.floats(-500, 500), st.floats(-500, 500))
sizes = st.sampled_from([64, 128, 512])


def similarity(degrees, scale, shift):
    a, b = scale * np.cos(np.radians(degrees)), scale * np.sin(np.radians(degrees))
    return np.array([[a, -b, shift[0]], [b, a, shift[1]]])


def apply(points, transform):
    return points @ transform[:, :2].T + transform[:, 2]


def template_pixels(size):
    return TEMPLATE * size - 0.5


def landmarks_for(transform, size):
    """Landmarks that ``transform`` maps onto the template."""
    return apply(template_pixels(size), invert(transform))


@given(degrees=angles, scale=scales, shift=shifts, size=sizes)
def test_known_similarity_is_recovered(degrees, scale, shift, size):
    truth = similarity(degrees, scale, shift)
    found = similarity_to_template(landmarks_for(truth, size), size=size)
    np.testing.assert_allclose(found, truth, rtol=1e-7, atol=1e-6)


@given(degrees=angles, scale=scales, shift=shifts)
def test_inverse_transform_round_trip(degrees, scale, shift):
    transform = similarity(degrees, scale, shift)
    points = np.array([[0.0, 0.0], [17.0, -3.0], [200.0, 90.0]])
    np.testing.assert_allclose(apply(apply(points, transform), invert(transform)), points, atol=1e-6)


@given(
    noise=hnp.arrays(np.float64, (5, 2), elements=st.floats(-8, 8)),
    nudge=hnp.arrays(np.float64, 4, elements=st.floats(-0.05, 0.05)),
)
def test_similarity_is_the_least_squares_fit(noise, nudge):
    landmarks = template_pixels(128) + noise
    best = similarity_to_template(landmarks, size=128)
    a, b = best[0, 0] + nudge[0], best[1, 0] + nudge[1]
    other = np.array([[a, -b, best[0, 2] + nudge[2]], [b, a, best[1, 2] + nudge[3]]])

    def misfit(transform):
        return ((apply(landmarks, transform) - template_pixels(128)) ** 2).sum()

    assert misfit(best) <= misfit(other) + 1e-9


def test_similarity_never_mirrors():
    mirrored = template_pixels(128) * [-1, 1] + [127, 0]
    transform = similarity_to_template(mirrored, size=128)
    assert np.linalg.det(transform[:, :2]) >= 0


@pytest.mark.parametrize("degrees", [-70, -15, 0, 15, 70])
def test_rotation_is_positive_if_the_right_side_is_lower(degrees):
    upright = template_pixels(128)
    turned = apply(upright, similarity(degrees, 1.7, (30, 10)))  # y points down
    assert (turned[1, 1] > turned[0, 1]) == (degrees > 0)
    assert rotation_degrees(similarity_to_template(turned, size=128)) == pytest.approx(degrees)


@pytest.mark.parametrize(
    ("degrees", "scale"), [(0, 1.0), (25, 0.7), (-40, 2.5), (10, 0.2), (-160, 0.35)], ids=lambda x: f"{x:g}"
)
def test_warping_moves_landmarks_onto_the_template(degrees, scale):
    # Scales below one half are resampled by area, in other code.
    size = 128
    centre = template_pixels(size).mean(axis=0)
    side = int(size / scale * 1.6)
    to_crop = similarity(degrees, scale, (0, 0))
    to_crop[:, 2] = centre - to_crop[:, :2] @ (side / 2, side / 2)
    rows, columns = np.mgrid[:side, :side]
    for landmark, goal in zip(landmarks_for(to_crop, size), template_pixels(size), strict=True):
        spread = max(2.5 / scale, 2.5)
        blob = 255 * np.exp(-((columns - landmark[0]) ** 2 + (rows - landmark[1]) ** 2) / (2 * spread**2))
        photo = np.repeat(blob[..., None], 3, axis=2).astype(np.uint8)
        crop = warp_to_template(photo, to_crop, size=size)[..., 0].astype(float)
        y, x = np.mgrid[:size, :size]
        np.testing.assert_allclose([(crop * x).sum() / crop.sum(), (crop * y).sum() / crop.sum()], goal, atol=0.03)


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_warping_replicates_the_border(scale):
    photo = np.full((40, 60, 3), (200, 120, 40), dtype=np.uint8)
    crop = warp_to_template(photo, similarity(20, scale, (100, 90)), size=128)
    assert crop.shape == (128, 128, 3)
    assert crop.dtype == np.uint8
    np.testing.assert_array_equal(crop, np.broadcast_to(photo[0, 0], crop.shape))


@pytest.mark.parametrize(
    ("landmarks", "message"),
    [
        (np.zeros((4, 2)), r"shape \(4, 2\)"),
        (np.zeros(10), r"shape \(10,\)"),
        (np.vstack([TEMPLATE[:4], [[np.nan, 1.0]]]), "9 finite"),
        (np.full((5, 2), 33.0), "coincide"),
    ],
)
def test_invalid_landmarks_raise(landmarks, message):
    with pytest.raises(ValueError, match=message):
        similarity_to_template(landmarks, size=128)
