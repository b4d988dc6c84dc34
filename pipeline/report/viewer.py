"""The data of the sweep viewer: photos with all their versions and the classifiers' scores, packed into the page.

``album`` selects the photos, ``thumbnails`` makes their films, ``templates/scripts/viewer.js`` unpacks the data.
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

PLAIN = 3  # photos shown without JavaScript and in print, if the album names none
PLAIN_LABELS = 3  # labels of each classifier shown there
SCALE = 10_000  # scores are packed as integers of 1/10,000
NOT_RETURNED = 0xFFFF
MISSED = {
    "background": ("unchanged pixels outside the mask", "share"),
    "monotone": ("rank correlation of the judge’s probability with a", ""),
    "dead": ("rise of the probability over the whole sweep, by the less sensitive judge", ""),
    "clipping": ("clipped pixels of the mask", "share"),
    "seam": ("part of the mask’s outline with a visible line", "share"),
    "identity": ("similarity to the unedited face", ""),
}


@dataclass(frozen=True, eq=False)
class SweepScores:
    """One classifier's scores along one sweep.

    Attributes:
        labels: the labels of the rows.
        scores: ``(labels, steps)`` in 0-1; NaN if a label was not returned.
        unanswered: step, counted from 0 -> the reason why there is no answer.
    """

    labels: Sequence[str]
    scores: NDArray[np.float64]
    unanswered: Mapping[int, str] = field(default_factory=dict)

    def of(self, label: str) -> NDArray[np.float64]:
        """Return the scores of one label; NaN if it was not returned."""
        found = [row for name, row in zip(self.labels, self.scores, strict=True) if name == label]
        return np.asarray(found[0] if found else np.full(self.scores.shape[1], np.nan))


@dataclass(frozen=True, eq=False)
class Sweep:
    """One sweep of a photo.

    Attributes:
        attribute, arm: the attribute, and the edit or a placebo of it.
        values: the values of a, ascending.
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
    """A validity check that a photo's sweep fails."""

    attribute: str
    check: str
    figure: float
    threshold: float


@dataclass(frozen=True)
class Photo:
    """A photo with its failed checks and its sweeps, edits before placebos.

    ``outline`` is the edge of its mask as an SVG path in a square of ``thumbnails.GRID`` units.
    """

    name: str
    outline: str
    missed: Sequence[MissedCheck]
    sweeps: Sequence[Sweep]


@dataclass(frozen=True)
class Album:
    """The content of the viewer.

    Attributes:
        photos: the photos with films, sorted by name.
        total: number of photos with versions, of which not all may fit.
        lost: number of photos omitted because their files cannot be read.
        steepest: (attribute, adapter) -> label -> slope, largest |slope| first.
        presence: adapter -> the smallest score at which a label counts as present.
        printed: photos shown without JavaScript and in print; default: the first ones.
        first: index of the photo that the viewer shows first.
    """

    photos: Sequence[Photo]
    total: int
    lost: int = 0
    steepest: Mapping[tuple[str, str], Mapping[str, float]] = field(default_factory=dict)
    presence: Mapping[str, float] = field(default_factory=dict)
    printed: Sequence[Photo] = ()
    first: int = 0


def viewer_view(album: Album, *, swept: Mapping[str, Attribute]) -> dict[str, Any]:
    """Return the template's data: two data blocks, the contact sheets, and a note on omitted photos."""
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
    """Return the plain table of the photo without failed checks whose score for a label changes most; None if none."""
    best, largest = None, 0.0
    for photo, sweep in _edits(album.photos):
        scores = sweep.scores.get(adapter)
        if sweep.attribute != attribute or scores is None or label not in scores.labels or photo.missed:
            continue
        if (change := float(np.ptp(np.nan_to_num(scores.of(label))))) > largest:
            best, largest = (photo, sweep), change
    return best and _plain_sweep(*best, {(attribute, adapter): {label: 0.0}}, poles, adapters=[adapter])


def reading(value: float, poles: Poles) -> str:
    """Return a value of a in figures and words: ``−1.33 · more feminine``."""
    if value == 0:
        return "0 · the middle"
    return f"{plain(round(value, 2))} · more {poles.short_low if value < 0 else poles.short_high}"


def packed(ids: Iterable[int], scores: NDArray[np.float64]) -> str:
    """Encode scores ``(labels, steps)`` in base64: per label its id and its scores as little-endian 16-bit integers."""
    whole = np.where(np.isnan(scores), NOT_RETURNED, np.nan_to_num(scores).clip(0, 1) * SCALE).round()
    table = np.column_stack([np.fromiter(ids, dtype=np.int64), whole])
    return base64.b64encode(table.astype("<u2").tobytes()).decode("ascii")


def score_cells(scores: SweepScores, label: str) -> list[tuple[str, str]]:
    """Return the printed score of a label at every step, with the reason if there is none."""
    known = [decimal(float(score), places=2) for score in scores.of(label)]
    cells = [(cell, "not returned" if cell == MISSING else "") for cell in known]
    return [("?", scores.unanswered[step]) if step in scores.unanswered else cell for step, cell in enumerate(cells)]


def _index(album: Album, sweeps: Sequence[Sweep], *, swept: Mapping[str, Attribute]) -> dict[str, Any]:
    """Return the script's data, with names replaced by indices. Films are numbered in the order of the sweeps."""
    attributes = _numbers(sweep.attribute for sweep in sweeps)
    adapters = _numbers(name for sweep in sweeps for name in sweep.scores)
    # A placebo has fewer values than the edit.
    dials = {key: number for number, key in enumerate(dict.fromkeys(map(_dial_key, sweeps)))}
    arms = _numbers(sorted({sweep.arm for sweep in sweeps}, key=lambda arm: (arm != EDIT_ARM, arm)))
    reasons = _numbers(why for sweep in sweeps for found in sweep.scores.values() for why in found.unanswered.values())
    labels = {adapter: _numbers(_labels_of(album, sweeps, adapter)) for adapter in adapters}
    films = iter(range(len(sweeps)))

    def steepest(adapter: str, attribute: str) -> list[list[Any]]:
        slopes = album.steepest.get((attribute, adapter), {})
        return [[labels[adapter][label], decimal(slope, sign=True)] for label, slope in slopes.items()]

    def scores(found: SweepScores | None, adapter: str) -> list[Any] | None:
        if found is None:
            return None
        unanswered = [[step, reasons[why]] for step, why in sorted(found.unanswered.items())]
        return [packed((labels[adapter][label] for label in found.labels), found.scores), unanswered]

    return {
        "scale": SCALE,
        "absent": NOT_RETURNED,
        "first": album.first,
        "attributes": [
            {"name": name, "subject": poles.subject, "low": poles.short_low, "high": poles.short_high}
            for name, poles in ((name, poles_of(name, swept)) for name in attributes)
        ],
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
    """Return name -> index, in the order of first occurrence."""
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def _labels_of(album: Album, sweeps: Sequence[Sweep], adapter: str) -> Iterable[str]:
    yield from (label for (_, name), found in album.steepest.items() if name == adapter for label in found)
    yield from (label for sweep in sweeps if adapter in sweep.scores for label in sweep.scores[adapter].labels)


def _dial_key(sweep: Sweep) -> tuple[str, tuple[float, ...]]:
    return sweep.attribute, tuple(sweep.values)


def _dial(values: Sequence[float], poles: Poles) -> dict[str, Any]:
    """Return the values of a sweep, ascending, and the index of the middle one."""
    return {
        "values": [round(value, 4) for value in values],
        "readings": [reading(value, poles) for value in values],
        "middle": int(np.abs(np.asarray(values)).argmin()),
    }


def _is_flagged(photo: Photo) -> bool:
    """Return whether a check fails or a classifier gave no answer."""
    return bool(photo.missed) or any(scores.unanswered for sweep in photo.sweeps for scores in sweep.scores.values())


def _missed_words(missed: MissedCheck) -> str:
    words, unit = MISSED.get(missed.check, (missed.check, ""))
    figure, limit = next_to_threshold(missed.figure, missed.threshold, unit)
    return f"{words}: {figure}, threshold {limit}"


def _left_out(album: Album) -> str:
    shown, parts = len(album.photos), []
    if album.total > shown + album.lost:
        parts.append(
            f"To keep the file small, {count(shown)} of {count(album.total)} photos are shown: up to half of them fail "
            "a check, and the others are spread evenly over all photos."
        )
    if album.lost:
        photos = "1 photo is" if album.lost == 1 else f"{count(album.lost)} photos are"
        parts.append(f"{photos} not shown, because the images are missing from the run’s folder or unreadable.")
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
    """Return a sweep with the scores of the steepest labels of each classifier (or of ``adapters``), for a table."""
    values = [plain(round(value, 2)) for value in sweep.values]
    ends = f"from a = {values[0]}, {poles.short_low}, to a = {values[-1]}, {poles.short_high}"
    return {
        "photo": photo.name,
        "poles": poles,
        "film": webp_address(sweep.film),
        "alt": f"{photo.name}: {len(values)} versions {ends}",
        "values": values,
        "rows": [
            (adapter, label, score_cells(scores, label))
            for adapter, scores in sweep.scores.items()
            if not adapters or adapter in adapters
            for label in list(steepest.get((sweep.attribute, adapter), {}))[:PLAIN_LABELS]
        ],
    }
