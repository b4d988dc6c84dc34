import io
import tarfile

import numpy as np
import pytest
import torch
from PIL import Image

from models.alignment import TEMPLATE
from models.attributes import RACES
from models.detector import Detection
from models.judge import Estimator
from models.parser import CLASSES, SmallParser
from models.training import preparation
from models.training.data import CROP, MARGIN, load_faces
from models.training.parser import FILE_CLASSES, load_masks
from models.training.preparation import cut, main_faces, prepare_edits, prepare_faces, prepare_masks, read_archive

PHOTO = 160


def detection(centre, size=60.0):
    points = np.asarray(centre) + (TEMPLATE - 0.5) * size
    left, top = np.asarray(centre) - size / 2
    return Detection(box=(left, top, left + size, top + size), score=0.99, landmarks=points)


class FakeDetector:
    """Detects one face at the centre of every photo that is not black."""

    def __init__(self, **_):
        self.batches = []

    def detect(self, photos):
        self.batches.append(len(photos))
        return [[detection((p.shape[1] / 2, p.shape[0] / 2))] if p.any() else [] for p in photos]


def write_tar(path, files):
    with tarfile.open(path, "w") as tar:
        for name, image in files.items():
            content = io.BytesIO()
            image.save(content, "PNG" if name.endswith("png") else "JPEG")
            member = tarfile.TarInfo(name)
            member.size = len(content.getvalue())
            tar.addfile(member, io.BytesIO(content.getvalue()))


def photo(level):
    return Image.fromarray(np.full((PHOTO, PHOTO, 3), level, dtype=np.uint8))


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Archives of four labelled faces, one of a child and one not detectable, and of three masks."""
    monkeypatch.setattr(preparation, "FaceDetector", FakeDetector)
    rows = [("a.jpg", 30, "male", "White"), ("b.jpg", 5, "female", "Asian"), ("c.jpg", 60, "female", "Black")]
    rows.append(("dark.jpg", 40, "male", "Others"))
    lines = [f"{file},{age},{gender},{race}" for file, age, gender, race in rows]
    (tmp_path / "utkface.csv").write_text("\n".join(["file,age,gender,race", *lines]) + "\n")
    levels = {"a.jpg": 200, "b.jpg": 150, "c.jpg": 100, "dark.jpg": 0}
    write_tar(tmp_path / "utkface.tar", {f"utkface/{name}": photo(level) for name, level in levels.items()})
    mask = np.zeros((PHOTO, PHOTO), dtype=np.uint8)
    mask[40:120, 40:120] = FILE_CLASSES.index("skin")
    mask[60:80, 60:100] = FILE_CLASSES.index("hair")
    parsing = {f"faceparsing/images/{n}.jpg": photo(90 + 40 * n) for n in range(3)}
    parsing |= {f"faceparsing/masks/{n}.png": Image.fromarray(mask) for n in range(3)}
    write_tar(tmp_path / "faceparsing.tar", parsing)
    return tmp_path


def test_archive_yields_photos_and_masks(data):
    names = dict(read_archive(data / "faceparsing.tar"))
    assert set(names) == {f"images/{n}.jpg" for n in range(3)} | {f"masks/{n}.png" for n in range(3)}
    assert names["images/0.jpg"].shape == (PHOTO, PHOTO, 3)
    assert set(np.unique(names["masks/1.png"])) == {0, FILE_CLASSES.index("skin"), FILE_CLASSES.index("hair")}


@pytest.mark.parametrize("count", [0, 1, 4, 9])
def test_photos_with_a_face_are_yielded_in_order(count):
    photos = [(f"{n}", np.full((8, 8, 3), n % 3, dtype=np.uint8)) for n in range(count)]
    found = [name for name, *_ in main_faces(iter(photos), FakeDetector())]
    assert found == [f"{n}" for n in range(count) if n % 3]


def test_face_nearest_the_centre_is_the_main_face():
    class Crowd:
        def detect(self, photos):
            return [[detection((20, 20)), detection((70, 90)), detection((150, 80))] for _ in photos]

    ((_, _, face),) = main_faces(iter([("x", np.ones((160, 160, 3), np.uint8))]), Crowd())
    assert face.landmarks.mean(axis=0) == pytest.approx(detection((70, 90)).landmarks.mean(axis=0))


def test_prepared_faces_have_labels_and_exclude_children(data, tmp_path):
    assert prepare_faces(data, tmp_path / "faces") == 2
    faces = load_faces(tmp_path / "faces")
    assert faces.gender.tolist() == [1, -1]
    assert faces.age.tolist() == [30, 60]
    assert [RACES[index] for index in faces.race] == ["White", "Black"]
    assert faces.crops.shape == (2, CROP + 2 * MARGIN, CROP + 2 * MARGIN, 3)
    np.testing.assert_allclose(faces.crops[0], 200, atol=3)
    assert prepare_faces(data, tmp_path / "one", limit=1) == 1


def test_prepared_masks_have_the_parsers_classes(data, tmp_path):
    assert prepare_masks(data, tmp_path / "masks") == 3
    masks = load_masks(tmp_path / "masks")
    assert masks.photos.shape == (3, PHOTO, PHOTO, 3)
    assert set(np.unique(masks.masks)) == {0, CLASSES.index("skin"), CLASSES.index("hair")}


def test_prepared_edits_combine_both_sets_with_regions(data, tmp_path):
    prepare_faces(data, tmp_path / "faces")
    prepare_masks(data, tmp_path / "masks")
    torch.manual_seed(0)
    parser, guide = SmallParser(widths=(8, 8, 8, 8, 8)).eval(), Estimator(widths=(8, 8, 8, 8)).eval()
    count = prepare_edits(tmp_path / "faces", tmp_path / "masks", tmp_path / "edits", parser=parser, guide=guide)
    faces = load_faces(tmp_path / "edits")
    regions = np.load(tmp_path / "edits" / "masks.npy")
    assert count == len(faces) == len(regions) == 5
    assert regions.shape[1:] == faces.crops.shape[1:3]
    truth = regions[-1]  # a photo with a known mask of skin and hair
    assert truth.max() == 255
    assert truth.min() == 0
    assert set(faces.gender.tolist()) <= {-1, 1}


def test_landmarks_of_a_crop_lie_on_the_template():
    face = detection((80, 80), size=70)
    rows, columns = np.mgrid[:PHOTO, :PHOTO]
    for landmark, goal in zip(face.landmarks, TEMPLATE * CROP - 0.5 + MARGIN, strict=True):
        blob = 255 * np.exp(-((columns - landmark[0]) ** 2 + (rows - landmark[1]) ** 2) / 8)
        crop = cut(np.repeat(blob[..., None], 3, axis=2).astype(np.uint8), face.landmarks)[..., 0].astype(float)
        y, x = np.mgrid[: len(crop), : len(crop)]
        assert ((crop * x).sum() / crop.sum(), (crop * y).sum() / crop.sum()) == pytest.approx(goal, abs=0.3)
