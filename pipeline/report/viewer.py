"""The sweep viewer: photos with all their versions and the classifiers' scores, packed into the page.

``templates/scripts/viewer.js`` unpacks it; ``album`` chooses the photos, ``thumbnails`` makes their films.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.config.attributes import EDIT_ARM, Attribute
from pipeline.report.embedding import as_data_block, webp_address
from pipeline.report.words import Poles, poles_of
from pipeline.run.formats import MISSING, count, decimal, next_to_threshold, plain

PLAIN = 3  # sweeps that are shown where no script runs, and in print
PLAIN_LABELS = 3  # of each classifier
SCALE = 10_000  # scores are packed in ten thousandths
NOT_RETURNED = 0xFFFF
MISSED = {
    "background": ("pixels outside the mask kept", "share"),
    "monotone": ("rank correlation of the judge’s probability with a", ""),
    "dead": ("rise of the probability over the whole sweep, by the judge that sees less", ""),
    "clipping": ("pixels of the mask that hit black or white", "share"),
    "seam": ("mask’s outline at which a line shows", "share"),
    "identity": ("likeness to the unedited face", ""),
}


@dataclass(frozen=True, eq=False)
class SweepScores:
    """One classifier's scores along one sweep.

    Attributes:
        labels: the names of the rows.
        scores: ``(labels, steps)`` in 0-1, NaN where a label was not returned.
        unanswered: step, counted from 0 -> the reason why the classifier has no answer for it.
    """

    labels: Sequence[str]
    scores: NDArray[np.float64]
    unanswered: Mapping[int, str] = field(default_factory=dict)

    def of(self, label: str) -> NDArray[np.float64]:
        """The scores of one label; NaN where it was not returned."""
        found = [row for name, row in zip(self.labels, self.scores, strict=True) if name == label]
        return np.asarray(found[0] if found else np.full(self.scores.shape[1], np.nan))


@dataclass(frozen=True, eq=False)
class Sweep:
    """One sweep of a photo.

    Attributes:
        attribute, arm: what is edited, and whether it is the edit or a placebo.
        values: of a, ascending.
        film: a WebP image of all versions side by side.
        scores: adapter -> its scores.
    """

    attribute: str
    arm: str
    values: Sequence[float]
    film: bytes
    scores: Mapping[str, SweepScores]


@dataclass(frozen=True)
class MissedCheck:
    """A validity check that a photo's sweep misses."""

    attribute: str
    check: str
    figure: float
    threshold: float


@dataclass(frozen=True)
class Photo:
    """A photo, the edge of its mask (an SVG path in a square of ``thumbnails.GRID`` units), its missed checks and its
    sweeps, edits before placebos."""

    name: str
    outline: str
    missed: Sequence[MissedCheck]
    sweeps: Sequence[Sweep]


@dataclass(frozen=True)
class Album:
    """What the viewer shows.

    Attributes:
        photos: those with films, by name.
        total: how many photos have versions; more than are shown where not all fit.
        lost: photos that are left out because their files are no longer in the run.
        steepest: (attribute, adapter) -> label -> slope, the largest first.
        presence: adapter -> the score from which a label counts as present.
        printed: photos that are shown where no script runs, and in print; the first ones unless given.
        first: the number of the photo that the viewer opens on.
    """

    photos: Sequence[Photo]
    total: int
    lost: int = 0
    steepest: Mapping[tuple[str, str], Mapping[str, float]] = field(default_factory=dict)
    presence: Mapping[str, float] = field(default_factory=dict)
    printed: Sequence[Photo] = ()
    first: int = 0


def viewer_view(album: Album, *, swept: Mapping[str, Attribute]) -> dict[str, Any]:
    """What the viewer's template prints: its two data blocks, the contact sheets, and what is not shown."""
    sweeps = [sweep for photo in album.photos for sweep in photo.sweeps]
    films = [base64.b64encode(sweep.film).decode("ascii") for sweep in sweeps]
    printed = album.printed or album.photos[:PLAIN]
    return {
        "index": as_data_block(_index(album, sweeps, swept=swept), id="viewer-index"),
        "films": as_data_block(films, id="viewer-films"),
        "plain": [
            _plain_sweep(photo, sweep, album.steepest, poles_of(sweep.attribute, swept))
            for photo, sweep in _edits(printed)
        ],
        "shown": len(album.photos),
        "left_out": _left_out(album),
        "missed": sum(_is_flagged(photo) for photo in album.photos),
    }


def moving_sweep(album: Album, attribute: str, adapter: str, label: str, poles: Poles) -> dict[str, Any] | None:
    """The photo with the largest movement of a label's score along an edit, as a plain table; None without one."""
    best, moved = None, 0.0
    for photo, sweep in _edits(album.photos):
        one = sweep.scores.get(adapter)
        if sweep.attribute != attribute or one is None or label not in one.labels or photo.missed:
            continue
        if (by := float(np.ptp(np.nan_to_num(one.of(label))))) > moved:
            best, moved = (photo, sweep), by
    return best and _plain_sweep(*best, {(attribute, adapter): {label: 0.0}}, poles, adapters=[adapter])


def reading(value: float, poles: Poles) -> str:
    """A value of a in figures and words: ``−1.33 · more feminine``."""
    if value == 0:
        return "0 · the middle"
    return f"{plain(round(value, 2))} · more {poles.short_low if value < 0 else poles.short_high}"


def packed(ids: Iterable[int], scores: NDArray[np.float64]) -> str:
    """Scores ``(labels, steps)`` as base64: of each label its id and then its scores, 16 bits each, low byte first."""
    whole = np.where(np.isnan(scores), NOT_RETURNED, np.nan_to_num(scores).clip(0, 1) * SCALE).round()
    table = np.column_stack([np.fromiter(ids, dtype=np.int64), whole])
    return base64.b64encode(table.astype("<u2").tobytes()).decode("ascii")


def score_cells(scores: SweepScores, label: str) -> list[tuple[str, str]]:
    """Of every step what is printed of a label and, where there is no score, why."""
    known = [decimal(float(score), places=2) for score in scores.of(label)]
    cells = [(cell, "not returned" if cell == MISSING else "") for cell in known]
    return [("?", scores.unanswered[step]) if step in scores.unanswered else cell for step, cell in enumerate(cells)]


def _index(album: Album, sweeps: Sequence[Sweep], *, swept: Mapping[str, Attribute]) -> dict[str, Any]:
    """What the script shows, names as numbers; the films are counted in the order of the sweeps."""
    attributes = _numbers(sweep.attribute for sweep in sweeps)
    adapters = _numbers(name for sweep in sweeps for name in sweep.scores)
    # A placebo is made at fewer values than the edit.
    dials = {key: number for number, key in enumerate(dict.fromkeys(map(_dial_key, sweeps)))}
    arms = _numbers(sorted({sweep.arm for sweep in sweeps}, key=lambda arm: (arm != EDIT_ARM, arm)))
    reasons = _numbers(why for sweep in sweeps for one in sweep.scores.values() for why in one.unanswered.values())
    labels = {adapter: _numbers(_labels_of(album, sweeps, adapter)) for adapter in adapters}
    films = iter(range(len(sweeps)))

    def steepest(adapter: str, attribute: str) -> list[list[Any]]:
        slopes = album.steepest.get((attribute, adapter), {})
        return [[labels[adapter][label], decimal(slope, sign=True)] for label, slope in slopes.items()]

    def scores(one: SweepScores | None, adapter: str) -> list[Any] | None:
        if one is None:
            return None
        unanswered = [[step, reasons[why]] for step, why in sorted(one.unanswered.items())]
        return [packed((labels[adapter][label] for label in one.labels), one.scores), unanswered]

    return {
        "scale": SCALE,
        "absent": NOT_RETURNED,
        "first": album.first,
        "attributes": [_attribute(name, poles_of(name, swept)) for name in attributes],
        "dials": [_dial(values, poles_of(name, swept)) for name, values in dials],
        "arms": ["the edit" if arm == EDIT_ARM else f"placebo “{arm}”" for arm in arms],
        "reasons": list(reasons),
        "adapters": [
            {
                "name": adapter,
                "presence": album.presence.get(adapter),
                "labels": list(labels[adapter]),
                "steepest": [steepest(adapter, attribute) for attribute in attributes],
            }
            for adapter in adapters
        ],
        "photos": [
            {
                "name": photo.name,
                "outline": photo.outline,
                "flagged": _is_flagged(photo),
                "missed": [[attributes[missed.attribute], _missed_words(missed)] for missed in photo.missed],
                "sweeps": [
                    {
                        "attribute": attributes[sweep.attribute],
                        "arm": arms[sweep.arm],
                        "dial": dials[_dial_key(sweep)],
                        "film": next(films),
                        "scores": [scores(sweep.scores.get(adapter), adapter) for adapter in adapters],
                    }
                    for sweep in photo.sweeps
                ],
            }
            for photo in album.photos
        ],
    }


def _numbers(names: Iterable[str]) -> dict[str, int]:
    """Names in the order of their first occurrence, counted from 0."""
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def _labels_of(album: Album, sweeps: Sequence[Sweep], adapter: str) -> Iterable[str]:
    yield from (label for (_, name), found in album.steepest.items() if name == adapter for label in found)
    yield from (label for sweep in sweeps if adapter in sweep.scores for label in sweep.scores[adapter].labels)


def _attribute(name: str, poles: Poles) -> dict[str, Any]:
    return {"name": name, "subject": poles.subject, "low": poles.short_low, "high": poles.short_high}


def _dial_key(sweep: Sweep) -> tuple[str, tuple[float, ...]]:
    return sweep.attribute, tuple(sweep.values)


def _dial(values: Sequence[float], poles: Poles) -> dict[str, Any]:
    """The values that a sweep stops at, ascending, and which of them is the middle."""
    return {
        "values": [round(value, 4) for value in values],
        "readings": [reading(value, poles) for value in values],
        "middle": int(np.abs(np.asarray(values)).argmin()),
    }


def _is_flagged(photo: Photo) -> bool:
    """Whether a check is missed or a classifier gave no answer."""
    return bool(photo.missed) or any(one.unanswered for sweep in photo.sweeps for one in sweep.scores.values())


def _missed_words(missed: MissedCheck) -> str:
    words, unit = MISSED.get(missed.check, (missed.check, ""))
    figure, limit = next_to_threshold(missed.figure, missed.threshold, unit)
    return f"{words}: {figure}, threshold {limit}"


def _left_out(album: Album) -> str:
    shown, parts = len(album.photos), []
    if album.total > shown + album.lost:
        parts.append(
            f"{count(shown)} of {count(album.total)} photos are here, so that the file stays small: photos that miss a "
            "check first, for up to half of the places, then evenly from all."
        )
    if album.lost:
        photos = "1 photo is" if album.lost == 1 else f"{count(album.lost)} photos are"
        parts.append(f"{photos} not here: the images are no longer in the run’s folder, or cannot be read.")
    return " ".join(parts)


def _edits(photos: Sequence[Photo]) -> Iterable[tuple[Photo, Sweep]]:
    return ((photo, sweep) for photo in photos for sweep in photo.sweeps if sweep.arm == EDIT_ARM)


def _plain_sweep(
    photo: Photo,
    sweep: Sweep,
    steepest: Mapping[tuple[str, str], Mapping[str, float]],
    poles: Poles,
    *,
    adapters: Sequence[str] = (),
) -> dict[str, Any]:
    """A sweep with the scores of the steepest labels of each classifier (or of ``adapters``), for a table."""
    values = [plain(round(value, 2)) for value in sweep.values]
    ends = f"from a = {values[0]}, {poles.short_low}, to a = {values[-1]}, {poles.short_high}"
    return {
        "photo": photo.name,
        "poles": poles,
        "film": webp_address(sweep.film),
        "alt": f"{photo.name}: {len(values)} versions {ends}",
        "values": values,
        "rows": [
            (adapter, label, score_cells(one, label))
            for adapter, one in sweep.scores.items()
            if not adapters or adapter in adapters
            for label in list(steepest.get((sweep.attribute, adapter), {}))[:PLAIN_LABELS]
        ],
    }
