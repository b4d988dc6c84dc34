"""Contact sheets: photos × steps of a sweep, optionally with scores (Joo & Kärkkäinen 2020, Figures 4 and 6)."""

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

FACES, SCORED = 6, 3  # photos of a sheet without and with scores
LABELS = 3  # steepest labels shown of each classifier
SIZE, LEADING, GAP = 6.5, 8.0, 2.0  # text size, line height and gap between images, in points
PIXELS_PER_POINT = 300 / 72
QUALITY = 92  # of JPEG
GONE = "an image of the run is missing or unreadable ({error}): repeat the audit to recreate it"
SCORE_WORDS = "Under each image: scores in 0–1; dash: not returned; question mark: no answer."


@dataclass(frozen=True)
class SheetRow:
    """A photo, its versions as JPEG images in the order of steps, and the scores by (classifier, label)."""

    name: str
    images: Sequence[bytes]
    scores: Mapping[tuple[str, str], Sequence[str]]


@dataclass(frozen=True)
class Mark:
    """An image, a text, or (without either) a bar, in points."""

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
        """Render the sheet at the width of one or two columns of a page, in points."""
        width = WIDTHS[columns]
        room = width * (0.24 if columns == 1 else 0.18) if any(row.scores for row in self.rows) else 0.0
        side = (width - room + GAP) / len(self.values) - GAP
        places = [room + step * (side + GAP) for step in range(len(self.values))]
        marks, y = list(self._head(places, side)), 2 * LEADING + GAP
        for row in self.rows:
            name = visible(Path(row.name).name)  # without the folder, which the caption of a single photo has
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
        """The caption."""
        (first, *others), low, high = self.rows, plain(self.values[0]), plain(self.values[-1])
        photos = pluralise(len(self.rows), "photo")
        which = f"{photos} of different perceived groups, preferably without failed checks,"
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
    """Return two sheets per attribute, without and with scores; or the sweep of each of ``photos``, with scores.

    Args:
        run: the run with its images, masks, answers and labels.
        attributes: the attributes to show.
        slopes: the slopes of the classifiers to show; their steepest labels are printed.
        failures: the table of ``validity.photo_failures``. Photos without failed checks come first.
        photos: names or file names of photos; default: photos of different groups whose images exist.
        swept: attributes of the sweeps by name.

    Raises:
        RunError: a photo has no complete sweep of these attributes, or its images are missing.
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
        for photo, sweep in own.items():
            try:
                images = _images(run, sweep)
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
    """Return the name of a photo given by its name, or by a file name that is unique in the run."""
    same = [name for name in names if photo in (name, Path(name).name)]
    if photo not in same and len(same) != 1:
        near = same or get_close_matches(photo, names, n=3) or names[:3]
        raise RunError(f"{run.folder} has no complete sweep of {photo!r}; similar: {', '.join(near) or 'none'}")
    return photo if photo in same else same[0]


def _images(run: Run, versions: Versions) -> list[bytes]:
    """Return the face in every version, at the resolution of the widest figure."""
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
    """Return the marks of all labels of a photo, one below the other, and the position of their end."""
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
    """Return the number of average letters that fit a line."""
    return max(8, int(room / (0.52 * SIZE)))
