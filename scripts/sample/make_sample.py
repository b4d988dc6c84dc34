"""Make the embedded sample: portraits of people who do not exist, each a blend of at least five faces.

``python scripts/sample/make_sample.py`` blends the groups of pipeline/photos/sample/sources.csv into the portraits.
With ``--choose FILE`` it selects new groups, more than needed: delete the rows with poor portraits and keep the
file as sources.csv.
"""

import csv
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from io import BytesIO
from pathlib import Path
from typing import Annotated

import cv2
import numpy as np
import pandas as pd
import torch
import typer
from blending import Placed, Source, blend_face, blend_head, join, place
from canvas import studio_wall, to_rgb
from numpy.typing import NDArray
from PIL import Image
from selection import FACES, Candidate, choose_faces, choose_heads, describe, head_groups

from models.alignment import aligned_crop, rotation_degrees, similarity_to_template
from models.detector import FaceDetector
from models.parser import class_indices
from models.precision import unit_batch
from models.training.parser import TO_CLASSES
from models.weights import load_judge, load_parser
from pipeline.photos import SAMPLE

SEED = 20
QUALITY = 88
USES = 3  # no photo is blended into more portraits than this
AGES = ((18, 29), (30, 44), (45, 59), (60, 80))
# Portraits per gender, by race and band of AGES. There are too few photos of Others above 45.
WANTED = {
    "White": (3, 3, 3, 3),
    "Black": (3, 3, 2, 2),
    "Asian": (3, 3, 2, 2),
    "Indian": (3, 3, 2, 2),
    "Others": (2, 2, 0, 0),
}
PALE = 9.0  # b* of the cheeks below which a photo is bleached or has a blue cast
TRIALS = 3  # groups of faces tried per portrait; the best registered one is used
POOL = 70  # candidates per gender, race and band
PADDING = 100  # black pixels around UTKFace's tight crops, so that the detector sees the whole face
# Photos with text across the hair, which would be visible in the blend.
UNFIT = ("111eb00db3e4456098add42dc0d3d037.jpg", "80d007e132f84e2b9f9eac6ad84ea412.jpg")


@dataclass(frozen=True)
class Group:
    """One row of ``sources.csv``: a portrait and the photos blended into it, names separated by spaces."""

    photo: str
    gender: str
    race: str
    age: int
    faces: str
    heads: str


class Photos:
    """Photos of the two archives (or of the unpacked folders), with landmarks and classes."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._archives: dict[str, tarfile.TarFile] = {}
        self._detector = FaceDetector(smallest_face=0.25)
        self._parser = load_parser()

    def face(self, name: str) -> Source | None:
        """Read a UTKFace photo; None if no clear face is found."""
        pixels = self.pixels(f"utkface/{name}")
        edges = (PADDING,) * 4
        landmarks = self._landmarks(np.asarray(cv2.copyMakeBorder(pixels, *edges, cv2.BORDER_CONSTANT), np.uint8))
        if landmarks is None:
            return None
        side = self._parser.size
        small = cv2.resize(pixels, (side, side), interpolation=cv2.INTER_AREA)
        with torch.inference_mode():
            logits = self._parser(unit_batch([np.asarray(small, np.uint8)]))[0]
        classes = logits.argmax(0).numpy().astype(np.uint8)
        classes = cv2.resize(classes, pixels.shape[1::-1], interpolation=cv2.INTER_NEAREST)
        return Source(pixels, np.asarray(classes, np.uint8), landmarks - PADDING)

    def head(self, name: str) -> Source | None:
        """Read a photo and mask of CelebAMask-HQ; None if no clear face is found."""
        pixels = self.pixels(f"faceparsing/images/{name}")
        landmarks = self._landmarks(pixels)
        if landmarks is None:
            return None
        classes = TO_CLASSES[self.pixels(f"faceparsing/masks/{Path(name).stem}.png", colour=False)]
        return Source(pixels, classes, landmarks)

    def head_names(self) -> list[str]:
        """List the usable photos of CelebAMask-HQ."""
        folder = self._data / "faceparsing" / "images"
        names = [p.name for p in folder.iterdir()] if folder.is_dir() else self._archive("faceparsing").getnames()
        return sorted({Path(name).name for name in names if name.endswith(".jpg")} - set(UNFIT))

    def pixels(self, path: str, *, colour: bool = True) -> NDArray[np.uint8]:
        """Read an image by its path in the archive."""
        if (self._data / path).is_file():
            content = (self._data / path).read_bytes()
        else:
            member = self._archive(path.split("/")[0]).extractfile(path)
            assert member is not None
            content = member.read()
        image = Image.open(BytesIO(content))
        return np.array(image.convert("RGB") if colour else image)

    def _archive(self, name: str) -> tarfile.TarFile:
        if name not in self._archives:
            self._archives[name] = tarfile.open(self._data / f"{name}.tar")  # noqa: SIM115 - kept open
        return self._archives[name]

    def _landmarks(self, pixels: NDArray[np.uint8]) -> NDArray[np.float64] | None:
        centre = np.array([pixels.shape[1], pixels.shape[0]]) / 2
        faces = [face for face in self._detector.detect([pixels])[0] if face.score >= 0.99]
        found = sorted(faces, key=lambda face: float(np.hypot(*(face.landmarks[2] - centre))))
        return found[0].landmarks if found else None


def make(groups: Sequence[Group], photos: Photos, out: Path) -> None:
    """Blend every group; write the portraits and their manifest to ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / "manifest.csv").open("w", newline="") as table:
        manifest = csv.writer(table, lineterminator="\n")
        manifest.writerow(["photo", "gender", "race", "age", "sources"])
        for group in groups:
            faces, heads = group.faces.split(), group.heads.split()
            portrait = blend(_placed(photos.face, faces), _placed(photos.head, heads), seed=group.photo)
            Image.fromarray(portrait).save(out / group.photo, quality=QUALITY, optimize=True)
            manifest.writerow([group.photo, group.gender, group.race, group.age, len(faces)])
            print(f"{group.photo}: {len(faces)} faces, {len(heads)} heads", flush=True)


def blend(faces: Sequence[Placed], heads: Sequence[Placed], *, seed: str) -> NDArray[np.uint8]:
    """Blend a portrait ``(320, 320, 3)`` uint8 RGB; ``seed`` determines the wall's colour and the grain."""
    random = np.random.default_rng(list(seed.encode()))
    lightness, chroma, hue = random.uniform(58, 80), random.uniform(0, 7), random.uniform(0, 2 * np.pi)
    wall = studio_wall(lightness=lightness, chroma=chroma, hue=hue)
    portrait = join(blend_face(faces), blend_head(heads), wall)
    portrait[..., 0] += random.normal(0, 0.5, portrait.shape[:2])
    return to_rgb(portrait)


def choose(data: Path, photos: Photos) -> Iterator[Group]:
    """Select groups of faces similar in labels, expression, age and skin tone, with heads similar in shape and hair."""
    random = np.random.default_rng(SEED)
    everyone = list(head_candidates(photos))
    for gender in ("female", "male"):
        suited = [head for head in everyone if abs(head.masculine - (gender == "male")) < 0.3]
        heads = head_groups(suited, random)
        uses: Counter[str] = Counter()
        for race, counts in WANTED.items():
            for ages, count in zip(AGES, counts, strict=True):
                pool = list(face_candidates(data, photos, (gender, race), ages, random)) if count else []
                for number in range(count):
                    free = [c for c in pool if uses[c.name] < USES]
                    tries = [choose_faces(free, random, smiling=number % 2 == 0) for _ in range(TRIALS)]
                    faces = min(tries, key=lambda group: group[1])[0]
                    if len(faces) < FACES:
                        break
                    worn = choose_heads([h for h in heads if uses[h[0].name] < USES], faces, race)
                    uses.update(c.name for c in (*faces, *worn))
                    age = round(float(np.mean([c.age for c in faces])))
                    names = (" ".join(c.name for c in group) for group in (faces, worn))
                    yield Group(f"{gender}-{race.lower()}-{ages[0]}-{number + 1}.jpg", gender, race, age, *names)


def face_candidates(
    data: Path, photos: Photos, labels: tuple[str, str], ages: tuple[int, int], random: np.random.Generator
) -> Iterator[Candidate]:
    """Yield sharp, frontal UTKFace photos in colour, without glasses, of one labelled gender, race and band of ages."""
    table = pd.read_csv(data / "utkface.csv", keep_default_na=False)
    gender, race = labels
    table = table[(table["gender"] == gender) & (table["race"] == race) & table["age"].between(*ages)]
    rows, found = list(zip(table["file"], table["age"], strict=True)), 0
    for index in random.permutation(len(rows)):
        name, age = rows[index]
        pixels = photos.pixels(f"utkface/{name}")
        if not _sharp_and_coloured(pixels):
            continue
        source = photos.face(name)
        if source is None or not _frontal(source, most=0.055):
            continue
        eyes = [int((source.classes == k).sum()) for k in class_indices(("eyes",))]
        if min(eyes) < 14 or (source.classes == class_indices(("eyeglasses",))[0]).sum() > 60:
            continue
        candidate = describe(name, source, age)
        if candidate.tone[2] < PALE:
            continue
        yield candidate
        found += 1
        if found == POOL:
            return


def head_candidates(photos: Photos) -> Iterator[Candidate]:
    """Yield frontal photos of CelebAMask-HQ without hat, glasses and large earrings, with the judge's outputs."""
    judge = load_judge("judge")
    for name in photos.head_names():
        source = photos.head(name)
        if source is None or not _frontal(source, most=0.06):
            continue
        if np.isin(source.classes, class_indices(("hat", "eyeglasses", "earring"))).mean() > 0.002:
            continue
        if np.ptp(source.pixels.astype(int), axis=2).mean() < 15:
            continue
        crop = aligned_crop(source.pixels, source.landmarks, size=128)
        with torch.inference_mode():
            seen = judge.perceive(unit_batch([crop]))
        race = tuple(float(p) for p in seen.race[0])
        yield describe(name, source, float(seen.age), masculine=float(seen.masculine), race=race)


def _frontal(source: Source, *, most: float) -> bool:
    """Check that nose and mouth are central, within ``most`` face widths, and the head is upright."""
    move = similarity_to_template(source.landmarks, size=1)
    x = source.landmarks @ move[0, :2] + move[0, 2]
    return abs(x[2]) + abs((x[3] + x[4]) / 2) < most and abs(rotation_degrees(move)) < 12


def _sharp_and_coloured(pixels: NDArray[np.uint8]) -> bool:
    grey = cv2.GaussianBlur(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), (0, 0), 1)
    edges = cv2.Laplacian(grey, cv2.CV_32F)[30:-30, 30:-30]
    return bool(edges.std() > 2.6 and np.ptp(pixels.astype(int), axis=2).mean() > 9)


def _placed(find: Callable[[str], Source | None], names: Sequence[str]) -> list[Placed]:
    sources = [find(name) for name in names]
    return [place(source) for source in sources if source is not None]


def main(
    data: Annotated[Path, typer.Option(envvar="COUNTERSLOPE_DATA", help="Folder of the archives.")],
    out: Annotated[Path, typer.Option(help="Folder of the portraits.")] = SAMPLE,
    sources: Annotated[Path, typer.Option(help="Table of the groups to blend.")] = SAMPLE / "sources.csv",
    chosen: Annotated[
        Path | None, typer.Option("--choose", help="Select new groups and write them to this file.")
    ] = None,
) -> None:
    """Blend portraits, or select the photos to blend."""
    torch.set_num_threads(1)  # the same sums in the same order on every machine
    cv2.setNumThreads(1)
    photos = Photos(data)
    if chosen is None:
        groups = pd.read_csv(sources, keep_default_na=False).to_dict("records")
        make([Group(**{str(name): value for name, value in row.items()}) for row in groups], photos, out)
        return
    with chosen.open("w", newline="") as table:
        rows = csv.writer(table, lineterminator="\n")
        rows.writerow([field.name for field in fields(Group)])
        for group in choose(data, photos):
            rows.writerow(astuple(group))
            print(group.photo, flush=True)


if __name__ == "__main__":
    typer.run(main)
