"""Contact sheets: photos × steps of a sweep with their values and names, on demand with the scores under each image
(Joo & Kärkkäinen 2020, Figures 4 and 6)."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from textwrap import wrap

import cv2
import pandas as pd

from pipeline.config.attributes import ATTRIBUTES, EDIT_ARM, Attribute, source_groups
from pipeline.report.album import Versions, complete, diverse, scores_of, strongest_labels, sweeps_of_photos
from pipeline.report.charts import BLUE, INK, MUTED
from pipeline.report.figures import PAPER_FONT, WIDTHS, Figure
from pipeline.report.markup import environment
from pipeline.report.tables import slug
from pipeline.report.thumbnails import part_of, read_mask, window_of
from pipeline.report.viewer import SweepScores, score_cells
from pipeline.report.words import Poles, poles_of
from pipeline.run.folder import Run
from pipeline.run.formats import plain, pluralise
from pipeline.run.record import RunError
from pipeline.run.tables import read_frame
from pipeline.run.text import visible

FACES, SCORED = 6, 3  # photos of a sheet without scores, and with them
LABELS = 3  # of each classifier, the steepest
SIZE, LEADING, GAP = 6.5, 8.0, 2.0  # points: of text, from line to line, between two images
PIXELS_PER_POINT = 300 / 72
QUALITY = 92  # of JPEG
GONE = "an image of the run is gone or unreadable ({error}): make it again with the same audit"
SCORE_WORDS = "Under each image: scores in 0–1; a dash: not returned; a question mark: no answer."


@dataclass(frozen=True)
class SheetRow:
    """A photo, its versions as JPEG images from the first step, and the scores of (classifier, label)."""

    name: str
    images: Sequence[bytes]
    scores: Mapping[tuple[str, str], Sequence[str]]


@dataclass(frozen=True)
class Mark:
    """An image, words, or (without either) a bar, in points."""

    x: float
    y: float
    width: float = 0.0
    image: str = ""
    words: str = ""
    size: float = SIZE
    colour: str = INK
    anchor: str = "start"


@dataclass(frozen=True, eq=False)
class Sheet:
    """Photos × steps of one attribute's sweep."""

    poles: Poles
    values: Sequence[float]
    rows: Sequence[SheetRow]

    def svg(self, columns: int) -> str:
        """The sheet as wide as one or two columns of a page, in points."""
        width = WIDTHS[columns]
        room = width * (0.24 if columns == 1 else 0.18) if any(row.scores for row in self.rows) else 0.0
        side = (width - room + GAP) / len(self.values) - GAP
        places = [room + step * (side + GAP) for step in range(len(self.values))]
        marks, y = list(self._head(places, side)), 2 * LEADING + GAP
        for row in self.rows:
            name = visible(Path(row.name).name)  # the caption of a single photo has its folder
            lines = wrap(name, _letters(room)) if room else [name]
            marks += [Mark(0, y + SIZE + LEADING * place, words=line, colour=MUTED) for place, line in enumerate(lines)]
            y += 0 if room else LEADING + GAP / 2
            for x, image in zip(places, row.images, strict=True):
                address = f"data:image/jpeg;base64,{base64.b64encode(image).decode('ascii')}"
                marks.append(Mark(x, y, side, image=address))
            y += side
            scored, y = _score_marks(row, places, side, room, y + GAP)
            marks += scored
            y += 2 * GAP
        template = environment().get_template("figures/sheet.svg.j2")
        return template.render(width=width, height=round(y, 2), marks=marks, font=PAPER_FONT)

    @property
    def caption(self) -> str:
        """What is shown, in words."""
        (first, *others), low, high = self.rows, plain(self.values[0]), plain(self.values[-1])
        photos = pluralise(len(self.rows), "photo")
        which = f"{photos}, diverse by perceived group and those without a missed check first,"
        scored = f" {SCORE_WORDS}" if any(row.scores for row in self.rows) else ""
        return (
            f"{which if others else f'The photo {visible(first.name)}'} along {self.poles.subject}, from a = {low}, "
            f"{self.poles.short_low}, to a = {high}, {self.poles.short_high}.{scored}"
        )

    def _head(self, places: Sequence[float], side: float) -> Iterator[Mark]:
        right = places[-1] + side
        yield Mark(places[0], LEADING, words=f"← {self.poles.short_low}")
        yield Mark((places[0] + right) / 2, LEADING, words="a", anchor="middle")
        yield Mark(right, LEADING, words=f"{self.poles.short_high} →", anchor="end")
        for x, value in zip(places, self.values, strict=True):
            yield Mark(x + side / 2, 2 * LEADING, words=plain(round(value, 2)), anchor="middle")


def sheet_figures(
    run: Run,
    attributes: Sequence[str],
    *,
    slopes: pd.DataFrame,
    failures: pd.DataFrame,
    photos: Sequence[str] = (),
    swept: Mapping[str, Attribute] = ATTRIBUTES,
) -> list[Figure]:
    """Of each attribute a sheet of diverse faces, and one with scores; or the sweep of each of ``photos``, with scores.

    Args:
        run: with its images, masks, answers and labels.
        attributes: of the sweeps that are shown.
        slopes: of the run; the steepest labels of the classifiers in it are shown.
        failures: as ``validity.photo_failures`` gives it; photos without missed checks come first.
        photos: by name, or by the name of the file alone; diverse ones that have their images unless given.
        swept: the attributes of the sweeps by their names.

    Raises:
        RunError: a photo has no complete sweep of these attributes, or its images are gone.
    """
    versions = complete(read_frame(run.path("counterfactuals.parquet")))
    versions = versions[(versions["arm"] == EDIT_ARM) & versions["attribute"].isin(list(attributes))]
    names = sorted(versions["photo"].astype(str).unique())
    photos = [_named(photo, names, run) for photo in photos]
    groups = source_groups(read_frame(run.path("faces.parquet")))
    shown = list(photos) or diverse(names, groups, failing=set(failures["photo"]), most=FACES)
    sweeps = sweeps_of_photos(versions[versions["photo"].isin(shown)])
    steepest = strongest_labels(slopes)
    scores = scores_of(run, sweeps, steepest)
    found = []
    for attribute in attributes:
        own = {photo: sweeps[photo][attribute, EDIT_ARM] for photo in shown if (attribute, EDIT_ARM) in sweeps[photo]}
        labels = {adapter: list(kept)[:LABELS] for (name, adapter), kept in steepest.items() if name == attribute}
        poles, rows = poles_of(attribute, swept), []
        for photo, one in own.items():
            try:
                images = _images(run, one)
            except OSError as error:
                if photos:
                    raise RunError(GONE.format(error=error)) from error
                continue
            rows.append(SheetRow(photo, images, _scores(scores[photo, attribute, EDIT_ARM], labels)))
        if not rows:
            continue
        if photos:
            sheets = [(f"{slug(row.name)}-{slug(attribute)}-sweep", [row]) for row in rows]
        else:
            faces = [replace(row, scores={}) for row in rows]
            sheets = [(f"{slug(attribute)}-faces", faces), (f"{slug(attribute)}-scores", rows[:SCORED])]
        values = next(iter(own.values())).values
        for name, kept in sheets:
            if not name.endswith("scores") or any(row.scores for row in kept):
                sheet = Sheet(poles, values, kept)
                found.append(Figure(name, sheet, sheet.caption))
    return found


def _named(photo: str, names: Sequence[str], run: Run) -> str:
    """The photo of that name, or of the only file of that name in any folder."""
    same = [name for name in names if photo in (name, Path(name).name)]
    if photo not in same and len(same) != 1:
        near = same or get_close_matches(photo, names, n=3) or names[:3]
        raise RunError(f"{run.folder} has no sweep of one photo {photo!r}; there are {', '.join(near) or 'none'}")
    return photo if photo in same else same[0]


def _images(run: Run, versions: Versions) -> list[bytes]:
    """The face in every version, fine enough for the widest figure."""
    side = round(WIDTHS[2] / len(versions.files) * PIXELS_PER_POINT)
    window = window_of(read_mask(run.images.file(versions.mask)))
    parts = [part_of(run.images.file(file), window, side=side) for file in versions.files]
    return [cv2.imencode(".jpg", part, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1].tobytes() for part in parts]


def _scores(scores: Mapping[str, SweepScores], labels: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], list[str]]:
    return {
        (adapter, label): [printed for printed, _ in score_cells(scores[adapter], label)]
        for adapter, kept in labels.items()
        if adapter in scores
        for label in kept
    }


def _score_marks(
    row: SheetRow, places: Sequence[float], side: float, room: float, y: float
) -> tuple[list[Mark], float]:
    """The marks of all labels of a photo, one below the other, and where they end."""
    marks: list[Mark] = []
    before = ""
    for (adapter, label), cells in row.scores.items():
        if adapter != before:
            marks.append(Mark(0, y + SIZE, words=visible(adapter), colour=MUTED))
            before, y = adapter, y + LEADING
        lines = wrap(visible(label), _letters(room)) or [""]
        marks += [Mark(0, y + SIZE + LEADING * number, words=line) for number, line in enumerate(lines)]
        for x, cell in zip(places, cells, strict=True):
            marks.append(Mark(x + side / 2, y + SIZE, words=cell, anchor="middle"))
            if cell[0].isdigit():
                marks.append(Mark(x, y + SIZE + 1.2, side * float(cell), colour=BLUE))
        y += LEADING * len(lines) + GAP
    return marks, y


def _letters(room: float) -> int:
    """How many letters of usual width a line has."""
    return max(8, int(room / (0.52 * SIZE)))
