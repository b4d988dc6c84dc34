"""Detection and selection of the face of a photo."""

import re
import tarfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from drawn_faces import drawn_face
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from real_data import FOLDER, needs

from models.attributes import RACES
from models.detector import Detection, FaceDetector, central_face
from models.fader import ATTRIBUTES
from models.judge import Estimator
from pipeline.config.attributes import source_groups
from pipeline.config.options import FaceOptions, PhotoOptions
from pipeline.counterfactuals.editors.fader import own_values
from pipeline.photos import faces as module
from pipeline.photos.decoding import read_photo
from pipeline.photos.faces import Excluded, Face, check_face, face_rows, find_faces
from pipeline.photos.listing import find_photos
from pipeline.run.tables import FACES, to_table

OPTIONS = FaceOptions()
WIDTH, HEIGHT = 225, 275
UPRIGHT = np.array([[-30, -30], [30, -30], [0, 0], [-25, 35], [25, 35]], dtype=float)


def face_at(x: float, y: float, *, score: float = 0.99, scale: float = 1.0, degrees: float = 0.0) -> Detection:
    turn = np.radians(degrees)
    rotation = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    half = 60 * scale
    return Detection((x - half, y - half, x + half, y + half), score, UPRIGHT @ rotation * scale + [x, y])


def blank(width: int = WIDTH, height: int = HEIGHT) -> NDArray[np.uint8]:
    return np.full((height, width, 3), 127, np.uint8)


class FakeDetector:
    """A detector with given results for the first search, the finer search, and the photo with a border."""

    def __init__(
        self, first: Sequence[Detection] = (), finer: Sequence[Detection] = (), framed: Sequence[Detection] = ()
    ) -> None:
        self.found = {"first": list(first), "finer": list(finer), "framed": list(framed)}
        self.searches: list[str] = []

    def detect(
        self, photos: Sequence[NDArray[np.uint8]], *, smallest_face: float | None = None
    ) -> list[list[Detection]]:
        search = "finer" if smallest_face else "first" if photos[0].shape[1] == WIDTH else "framed"
        self.searches.append(search)
        return [self.found[search] for _ in photos]


@pytest.fixture(scope="module")
def detector() -> FaceDetector:
    return FaceDetector()


@pytest.fixture(scope="module")
def estimator() -> Estimator:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Estimator(widths=(8, 8, 8, 8)).eval().requires_grad_(False)


# Selection and checks


def test_central_face_is_nearest_the_centre() -> None:
    faces = [face_at(60, 60, scale=0.9), face_at(120, 140, scale=0.4), face_at(180, 220, score=1.0)]
    assert central_face(faces, width=WIDTH, height=HEIGHT, min_score=0.9) is faces[1]


def test_central_face_needs_the_minimal_score() -> None:
    faces = [face_at(112.5, 137.5, score=0.85), face_at(40, 40, score=0.95)]
    assert central_face(faces, width=WIDTH, height=HEIGHT, min_score=0.9) is faces[1]
    assert central_face(faces, width=WIDTH, height=HEIGHT, min_score=0.96) is None
    assert central_face([], width=WIDTH, height=HEIGHT, min_score=0) is None


def test_central_face_of_equal_distance_has_the_higher_score() -> None:
    faces = [face_at(100, 137.5, score=0.95), face_at(125, 137.5, score=0.98)]
    assert central_face(faces, width=WIDTH, height=HEIGHT, min_score=0.9) is faces[1]
    assert central_face(faces[::-1], width=WIDTH, height=HEIGHT, min_score=0.9) is faces[1]


@given(st.lists(st.tuples(st.integers(0, 224), st.integers(0, 274), st.integers(1, 99)), unique=True, max_size=8))
def test_central_face_is_invariant_to_order(spots: list[tuple[int, int, int]]) -> None:
    faces = [face_at(x, y, score=score / 100) for x, y, score in spots]
    first = central_face(faces, width=WIDTH, height=HEIGHT, min_score=0.5)
    other = central_face(faces[::-1], width=WIDTH, height=HEIGHT, min_score=0.5)
    assert (first is None) == (other is None)
    if first is not None and other is not None:
        centre = np.array([WIDTH / 2, HEIGHT / 2])
        distances = [
            np.hypot(*(np.array([f.box[0] + f.box[2], f.box[1] + f.box[3]]) / 2 - centre)) for f in (first, other)
        ]
        assert distances[0] == distances[1]
        assert first.score == other.score


@pytest.mark.parametrize(
    ("face", "reason"),
    [
        (face_at(112, 137), None),
        (face_at(112, 137, degrees=39), None),
        (face_at(112, 137, degrees=41), r"rotated by more than the option max_rotation \(-?41 degrees, at most 40\)"),
        (face_at(112, 137, degrees=180), r"rotated by more .*\(-?180 degrees"),
        (face_at(112, 137, scale=0.2), r"too small: .* \(12.0 < 16 pixels\)"),
        (face_at(20, 137), "landmarks beyond the photo's edge"),
        (face_at(112, 260), "landmarks beyond the photo's edge"),
        (Detection((0, 0, 9, 9), 1.0, np.full((5, 2), 50.0)), "landmarks do not form a face"),
        (Detection((0, 0, 9, 9), 1.0, np.full((5, 2), np.nan)), "landmarks do not form a face"),
    ],
)
def test_unsuitable_faces_are_excluded_with_a_reason(face: Detection, reason: str | None) -> None:
    found = find_faces([blank()], detector=FakeDetector([face]), options=OPTIONS)[0]
    if reason is None:
        assert isinstance(found, Face)
    else:
        assert isinstance(found, Excluded)
        assert re.match(reason, found.reason)


def test_limits_are_options() -> None:
    turned = face_at(112, 137, degrees=60)
    strict, lax = FaceOptions(min_eye_distance=61), FaceOptions(max_rotation=90)
    assert check_face(turned.landmarks, width=WIDTH, height=HEIGHT, options=lax) is None
    reason = check_face(face_at(112, 137).landmarks, width=WIDTH, height=HEIGHT, options=strict)
    assert reason is not None
    assert reason.startswith(module.TOO_SMALL)


# Searches


def test_finer_search_follows_only_without_a_confident_face() -> None:
    detector = FakeDetector(first=[face_at(112, 137)])
    find_faces([blank(), blank()], detector=detector, options=OPTIONS)
    assert detector.searches == ["first", "first"]  # photo by photo, for the progress bar
    detector = FakeDetector(first=[face_at(112, 137, score=0.5)], finer=[face_at(100, 100, scale=0.5)])
    found = find_faces([blank()], detector=detector, options=OPTIONS)[0]
    assert detector.searches == ["first", "finer"]
    assert isinstance(found, Face)
    np.testing.assert_array_equal(found.landmarks, face_at(100, 100, scale=0.5).landmarks)


def test_face_found_with_a_border_is_in_photo_pixels() -> None:
    border = round(module.BORDER * WIDTH)
    detector = FakeDetector(framed=[face_at(112 + border, 137 + border)])
    found = find_faces([blank()], detector=detector, options=OPTIONS)[0]
    assert isinstance(found, Face)
    np.testing.assert_allclose(found.landmarks, face_at(112, 137).landmarks)
    np.testing.assert_allclose(found.box, face_at(112, 137).box)


def test_photo_without_a_confident_face_is_excluded_with_the_best_score() -> None:
    doubtful = FakeDetector(first=[face_at(112, 137, score=0.5)], finer=[face_at(50, 50, score=0.75)])
    excluded = Excluded("score below the option min_score (0.75 < 0.9)", 0)
    assert find_faces([blank()], detector=doubtful, options=OPTIONS) == [excluded]
    assert find_faces([blank()], detector=FakeDetector(), options=OPTIONS) == [Excluded("no face found", 0)]


def test_faces_found_counts_confident_faces() -> None:
    detector = FakeDetector([face_at(112, 137), face_at(70, 70, scale=0.4), face_at(180, 60, scale=0.4, score=0.89)])
    found = find_faces([blank()], detector=detector, options=OPTIONS)[0]
    assert found.faces_found == 2


# The detector


def test_detector_finds_the_landmarks_of_a_drawn_face(detector: FaceDetector) -> None:
    (found,) = detector.detect([drawn_face()])[0]
    drawn = np.array([[-26, -14], [26, -14], [0, 20], [-22, 46], [22, 46]]) + np.array([WIDTH / 2, HEIGHT / 2])
    assert np.linalg.norm(found.landmarks - drawn, axis=1).max() < 10
    assert found.score > 0.95


def test_landmarks_of_a_large_photo_are_in_its_pixels(detector: FaceDetector) -> None:
    small, large = (detector.detect([drawn_face(width=w, height=h)])[0][0] for w, h in ((450, 550), (1800, 2200)))
    # The eyes are 104 and 416 pixels apart; pixel centres are integers.
    difference = (large.landmarks + 0.5) / 4 - (small.landmarks + 0.5)
    assert np.abs(difference).max() < 0.05 * 104
    assert np.allclose(np.array(large.box) / 4, small.box, atol=6)


def test_face_cut_off_by_the_photo_keeps_its_landmarks(detector: FaceDetector) -> None:
    whole = drawn_face(width=450, height=550)
    (face,) = detector.detect([whole])[0]
    left, top, right, bottom = 110, 130, 340, 400  # cuts off hair, chin and sides
    cut = find_faces([np.ascontiguousarray(whole[top:bottom, left:right])], detector=detector, options=OPTIONS)[0]
    assert isinstance(cut, Face)
    eyes = np.linalg.norm(face.landmarks[1] - face.landmarks[0])
    assert np.linalg.norm(cut.landmarks + np.array([left, top]) - face.landmarks, axis=1).max() < 0.15 * eyes


def test_detector_restores_the_number_of_threads(detector: FaceDetector) -> None:
    before = torch.get_num_threads()
    detector.detect([blank(40, 40)])
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("shape", [(1, 1), (1, 500), (500, 1), (19, 19), (20, 20), (33, 700)])
def test_noise_of_any_shape_has_no_face(detector: FaceDetector, shape: tuple[int, int]) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    assert all(isinstance(face, Excluded) for face in find_faces([noise], detector=detector, options=OPTIONS))


# Rows


def test_row_of_a_photo_is_independent_of_the_batch(detector: FaceDetector, estimator: Estimator) -> None:
    photos = [drawn_face(), blank(), drawn_face(width=300, height=320), drawn_face()[:, 10:], drawn_face()]
    photos = [np.ascontiguousarray(photo) for photo in photos]
    names = [f"{number}.png" for number in range(len(photos))]

    def rows(chosen: Sequence[int]) -> list[dict[str, object]]:
        some_names, some_photos = [names[i] for i in chosen], [photos[i] for i in chosen]
        return face_rows(some_names, some_photos, detector=detector, estimator=estimator, options=OPTIONS)

    together = rows(range(len(photos)))
    assert repr(together) == repr([row for i in range(len(photos)) for row in rows([i])])
    assert repr(together[::-1]) == repr(rows(range(len(photos) - 1, -1, -1)))
    assert [row["status"] for row in together] == ["ok", "excluded", "ok", "ok", "ok"]
    table = to_table(together, FACES)
    assert table["reason"].to_pylist()[1] == module.NO_FACE
    assert all(column.null_count == 1 for name, column in zip(FACES, table.columns, strict=True) if name == "smiling")


def test_rows_have_own_values_and_source_group(estimator: Estimator) -> None:
    detector = FakeDetector([face_at(112, 137)])
    (row,) = face_rows(["a"], [blank()], detector=detector, estimator=estimator, options=OPTIONS)
    own_row = own_values([row])[0].numpy()
    assert own_row.shape == (len(ATTRIBUTES),)
    assert own_row[1:6].sum() == pytest.approx(1, abs=1e-5)
    assert own_row[0] == np.float32(row["gender"])
    shares = dict.fromkeys((f"race_{race}" for race in RACES), 0.1)
    rows = [
        {"photo": "a", "status": "ok", "gender": -0.8, **shares, "race_Black": 0.6},
        {"photo": "b", "status": "ok", "gender": 0.3, **shares, "race_Indian": 0.6},
        {"photo": "c", "status": "excluded"},
    ]
    assert source_groups(pd.DataFrame(rows)) == {"a": "feminine, Black", "b": "masculine, Indian"}


PORTRAITS = FOLDER / "congress.tar"


@needs(PORTRAITS)
def test_faces_are_found_in_real_portraits(detector: FaceDetector, tmp_path: Path) -> None:
    with tarfile.open(PORTRAITS) as archive:
        archive.extractall(tmp_path, members=archive.getmembers()[::20], filter="data")
    paths = find_photos([tmp_path]).paths
    photos = [read_photo(path, options=PhotoOptions()).pixels for path in paths]
    faces = find_faces(photos, detector=detector, options=OPTIONS)
    assert sum(isinstance(face, Face) for face in faces) >= 0.99 * len(photos)
