"""The region of the embedded parser on portraits of all races: grey and dark photos, glasses, hats, beards, hands.

Objects are drawn onto the embedded sample. Held-out photos are used if the data set is present.
"""

import csv
import io
import tarfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from PIL import Image
from real_data import FOLDER, needs

from models.alignment import warp_to_template
from models.detector import FaceDetector
from models.parser import CLASSES, class_indices
from models.precision import unit_batch
from models.training.data import part_of
from models.training.parser import TO_CLASSES
from models.weights import load_parser
from pipeline.config.sweep_options import SweepOptions
from pipeline.counterfactuals.mask import parser_view
from pipeline.photos import SAMPLE

RACES = ("White", "Black", "Asian", "Indian", "Others")
FACE = list(class_indices(SweepOptions().region))
ARCHIVE = FOLDER / "faceparsing.tar"
PER_RACE = 3


@dataclass(frozen=True)
class Portrait:
    """The parser's input: ``image`` ``(S, S, 3)`` uint8, ``landmarks`` ``(5, 2)`` in its pixels."""

    name: str
    image: np.ndarray
    landmarks: np.ndarray

    @property
    def eyes(self):
        """The distance between the eyes, the unit of drawn objects."""
        return float(np.linalg.norm(self.landmarks[1] - self.landmarks[0]))

    def at(self, right, down):
        """The point at this offset, in eye distances, from the centre between the eyes."""
        x, y = self.landmarks[:2].mean(axis=0) + self.eyes * np.array([right, down])
        return round(x), round(y)


@pytest.fixture(scope="module")
def parser():
    return load_parser("small")


@pytest.fixture(scope="module")
def portraits(parser):
    """Race -> portraits of both genders and several ages."""
    with (SAMPLE / "manifest.csv").open(newline="") as table:
        rows = list(csv.DictReader(table))
    chosen = [row for race in RACES for row in evenly_spaced([row for row in rows if row["race"] == race], PER_RACE)]
    photos = [np.array(Image.open(SAMPLE / row["photo"]).convert("RGB")) for row in chosen]
    found = defaultdict(list)
    for row, photo, faces in zip(chosen, photos, FaceDetector().detect(photos), strict=True):
        view = parser_view(faces[0].landmarks, size=parser.size)
        points = faces[0].landmarks @ view[:, :2].T + view[:, 2]
        found[row["race"]].append(Portrait(row["photo"], warp_to_template(photo, view, size=parser.size), points))
    return found


def evenly_spaced(rows, count):
    return [rows[place] for place in np.linspace(0, len(rows) - 1, count).round().astype(int)]


@torch.inference_mode()
def face_share(parser, images):
    """The probability of the editable region for each pixel, ``(B, S, S)``."""
    return parser(unit_batch(images)).softmax(dim=1)[:, FACE].sum(dim=1).numpy()


def regions(parser, images):
    return face_share(parser, images) > 0.5


def iou(one, other):
    return (one & other).sum() / (one | other).sum()


# Photos


@pytest.mark.parametrize("race", RACES)
def test_region_covers_the_landmarks_but_not_the_corners(parser, portraits, race):
    images = [portrait.image for portrait in portraits[race]]
    for portrait, inside in zip(portraits[race], face_share(parser, images), strict=True):
        columns, rows = portrait.landmarks.round().astype(int).T
        assert inside[rows, columns].min() > 0.9, portrait.name
        assert inside[[0, 0, -1, -1], [0, -1, 0, -1]].max() < 0.1, portrait.name
        assert 0.2 < (inside > 0.5).mean() < 0.5, portrait.name
        # One connected component.
        pieces, _, stats, _ = cv2.connectedComponentsWithStats((inside > 0.5).astype(np.uint8))
        assert stats[1:, cv2.CC_STAT_AREA].max() > 0.98 * (inside > 0.5).sum(), (portrait.name, pieces)


def in_grey(image):
    return np.repeat(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)[..., None], 3, axis=2)


@pytest.mark.parametrize("race", RACES)
@pytest.mark.parametrize(
    ("change", "least"),
    [
        (in_grey, 0.92),
        (lambda image: (image * 0.35).astype(np.uint8), 0.93),
        (lambda image: (255 - (255 - image.astype(int)) * 0.6).astype(np.uint8), 0.93),
        (lambda image: cv2.GaussianBlur(image, (0, 0), 1.5), 0.93),
    ],
    ids=["grey", "dark", "pale", "blurred"],
)
def test_region_is_invariant_to_grey_dark_pale_and_blurred_photos(parser, portraits, race, change, least):
    images = [portrait.image for portrait in portraits[race]]
    after = regions(parser, [change(image) for image in images])
    for plain, changed in zip(regions(parser, images), after, strict=True):
        assert iou(plain, changed) > least


def test_region_of_a_mirrored_photo_is_mirrored(parser, portraits):
    images = [portrait.image for race in RACES for portrait in portraits[race][:1]]
    mirrored = regions(parser, [np.ascontiguousarray(image[:, ::-1]) for image in images])
    for plain, turned in zip(regions(parser, images), mirrored, strict=True):
        assert iou(plain, turned[:, ::-1]) > 0.95


# Objects and beards


def sunglasses(image, drawn, portrait):
    left, right = (tuple(point.round().astype(int).tolist()) for point in portrait.landmarks[:2])
    cv2.line(image, left, right, (15, 15, 18), 3)
    for eye in (left, right):
        axes = round(0.36 * portrait.eyes), round(0.27 * portrait.eyes)
        cv2.ellipse(image, eye, axes, 0, 0, 360, (15, 15, 18), -1, cv2.LINE_AA)
        cv2.ellipse(drawn, eye, axes, 0, 0, 360, 1, -1)


def hat(colour):
    def draw(image, drawn, portrait):
        brim, edge = portrait.at(1.5, -0.55), portrait.at(1.3, -0.55)
        left = portrait.at(-1.3, -0.55)[0]
        cv2.rectangle(image, (left, 0), edge, colour, -1)
        cv2.rectangle(image, (portrait.at(-1.5, 0)[0], brim[1] - 6), brim, tuple(round(0.6 * c) for c in colour), -1)
        cv2.rectangle(drawn, (left, 0), edge, 1, -1)

    return draw


def hand(image, drawn, portrait):
    """A fist of the face's skin tone, next to the face."""
    x, y = portrait.landmarks[2].round().astype(int)
    tone = image[y - 3 : y + 4, x - 3 : x + 4].reshape(-1, 3).mean(axis=0)
    thick = round(0.2 * portrait.eyes)
    for finger in range(4):
        ends = portrait.at(1.35, 0.7 + 0.24 * finger), portrait.at(1.9, 0.75 + 0.24 * finger)
        cv2.line(image, *ends, tuple(0.55 * tone), round(1.3 * thick))
        cv2.line(image, *ends, tuple(tone), thick)
        cv2.line(drawn, *ends, 1, thick)


def beard(image, drawn, portrait):
    random, side = np.random.default_rng(0), image.shape[0]
    place = np.zeros((side, side), np.float32)
    below = portrait.landmarks[3:].mean(axis=0) + np.array([0, 0.15 * portrait.eyes])
    mouth = tuple(below.round().astype(int).tolist())
    cv2.ellipse(place, mouth, (round(0.62 * portrait.eyes), round(0.5 * portrait.eyes)), 0, 0, 180, 1, -1)
    stubble = cv2.GaussianBlur(random.normal(0, 1, (side, side)).astype(np.float32), (0, 0), 0.7)
    weight = (cv2.GaussianBlur(place, (0, 0), 3) * np.clip(0.75 + 0.5 * stubble, 0, 1))[..., None]
    image[:] = (image * (1 - weight) + np.array([45, 35, 30]) * weight).astype(np.uint8)
    drawn[place > 0] = 1


def parse_with(parser, portrait, draw):
    """The share of the region kept around an object; whether its pixels are in the region after and before drawing."""
    image, drawn = portrait.image.copy(), np.zeros(portrait.image.shape[:2], np.uint8)
    draw(image, drawn, portrait)
    plain, changed = regions(parser, [portrait.image, image])
    item = drawn > 0
    return (
        (changed & plain & ~item).sum() / (plain & ~item).sum(),
        changed[item],
        plain[item],
    )


OBJECTS = {
    "sunglasses": sunglasses,
    "red hat": hat((150, 30, 40)),
    "blue hat": hat((40, 60, 140)),
    "black hat": hat((25, 25, 28)),
}


@pytest.mark.parametrize("race", RACES)
@pytest.mark.parametrize("item", OBJECTS)
def test_glasses_and_hats_are_excluded_from_the_region(parser, portraits, race, item):
    for portrait in portraits[race]:
        kept, swallowed, _ = parse_with(parser, portrait, OBJECTS[item])
        assert swallowed.mean() < 0.12, portrait.name
        assert kept > 0.92, portrait.name


@pytest.mark.parametrize("race", RACES)
def test_bearded_chin_stays_in_the_region(parser, portraits, race):
    for portrait in portraits[race]:
        kept, bearded, chin = parse_with(parser, portrait, beard)
        assert bearded[chin].mean() > 0.7, portrait.name
        assert kept > 0.93, portrait.name


@pytest.mark.parametrize("race", RACES)
def test_hand_next_to_the_face_is_excluded(parser, portraits, race):
    for portrait in portraits[race]:
        kept, included, before = parse_with(parser, portrait, hand)
        assert included[~before].mean() < 0.15, portrait.name
        assert kept > 0.95, portrait.name


# Held-out photos


def held_out_photos(archive, *, most):
    """Held-out photos with glasses or a hat: name, ``(256, 256, 3)`` pixels, ``(256, 256)`` classes."""
    things = {CLASSES.index("eyeglasses"): 800, CLASSES.index("hat"): 3000}
    found = []
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            if not member.name.endswith(".jpg") or part_of(Path(member.name).name) != 2 or len(found) == most:
                continue
            file = member.name.replace("images", "masks").replace(".jpg", ".png")
            mask = TO_CLASSES[np.array(Image.open(io.BytesIO(tar.extractfile(file).read())))]
            if any((mask == item).sum() >= pixels for item, pixels in things.items()):
                photo = np.array(Image.open(io.BytesIO(tar.extractfile(member).read())).convert("RGB"))
                small = cv2.resize(photo, (256, 256), interpolation=cv2.INTER_AREA)
                found.append((member.name, small, cv2.resize(mask, (256, 256), interpolation=cv2.INTER_NEAREST)))
    return found


@needs(ARCHIVE)
def test_regions_of_held_out_photos_with_glasses_or_hats(parser):
    photos = held_out_photos(ARCHIVE, most=12)
    assert len(photos) >= 5
    scores = []
    for (name, _, truth), inside in zip(photos, regions(parser, [photo for _, photo, _ in photos]), strict=True):
        scores.append(iou(inside, np.isin(truth, FACE)))
        assert scores[-1] > 0.87, name
        for item in ("eyeglasses", "hat"):
            pixels = truth == CLASSES.index(item)
            assert pixels.sum() < 200 or inside[pixels].mean() < 0.12, (name, item)
    assert np.mean(scores) > 0.92
