"""Selection of a run's photos for the report, with their films and the classifiers' scores.

Images are held in memory only while their film is made.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.config.attributes import EDIT_ARM, source_groups
from pipeline.report.thumbnails import Size, Window, affordable, film, outline, read_mask, window_of
from pipeline.report.viewer import Album, MissedCheck, Photo, Sweep, SweepScores
from pipeline.run.files import digest, write_bytes
from pipeline.run.folder import Run
from pipeline.run.tables import read_frame

if TYPE_CHECKING:
    import pandas as pd

STEEPEST = 6  # labels of each classifier with the steepest slopes
LIKELIEST = 6  # further labels of each classifier with the highest scores for the photo
PRINTED = 6  # photos of the contact sheet
FILMS = "films"  # folder in a run with the films of its last report
FACE_SIDE, FACE_BYTES = 96, 6_000  # pixels, bytes
SWEEP = ["photo", "attribute", "arm"]
ANSWERED_SWEEP = [*SWEEP, "adapter"]
NO_REASON = "no reason is recorded"

Kind = tuple[str, str]  # attribute, arm
SweepKey = tuple[str, str, str]  # photo, attribute, arm
Steepest = Mapping[tuple[str, str], Mapping[str, float]]  # attribute, adapter -> label -> slope, largest |slope| first


@dataclass(frozen=True)
class Versions:
    """A complete sweep of a run: values, files and their sha256 in the order of steps, and the mask's file."""

    values: Sequence[float]
    files: Sequence[str]
    digests: Sequence[str]
    mask: str


def album_of(
    run: Run,
    *,
    versions: "pd.DataFrame",
    slopes: "pd.DataFrame",
    failures: "pd.DataFrame",
    advance: Callable[[int], None] = lambda _: None,
) -> Album:
    """Return as many photos of a run as fit on the page, sorted by name, with all their complete sweeps.

    ``failures`` is the table of ``validity.photo_failures``. ``advance`` is called with numbers of photos, from several
    threads.
    """
    made = complete(versions)
    photos = sorted(made["photo"].astype(str).unique())
    steps = made.groupby(["attribute", "arm"])["step"].max()  # a placebo has fewer than the edit
    size = affordable(len(photos), versions=int(steps.sum()), twice=PRINTED)
    shown = chosen(photos, failing=set(failures["photo"]), most=size.photos)
    sweeps = sweeps_of_photos(made[made["photo"].isin(shown)])
    steepest, missed = strongest_labels(slopes), _missed(failures, sweeps)
    advance(len(photos) - len(shown))
    kept = {path.name for path in run.path(FILMS).glob("*.webp")}
    used: set[str] = set()
    found = []
    with ThreadPoolExecutor() as pool:
        pictures = pool.map(partial(_pictures, run, size=size, used=used, advance=advance), sweeps.values())
        scores = scores_of(run, sweeps, steepest)  # meanwhile the threads make films
        for (name, own), pictured in zip(sweeps.items(), pictures, strict=True):
            if pictured is not None:
                edge, films = pictured
                shown_sweeps = [
                    Sweep(*kind, made_of.values, film_bytes, scores[name, *kind])
                    for (kind, made_of), film_bytes in zip(own.items(), films, strict=True)
                ]
                found.append(Photo(name, edge, missed.get(name, ()), shown_sweeps))
    for name in kept - used:  # of versions or sizes that are no longer shown
        (run.path(FILMS) / name).unlink(missing_ok=True)
    groups = source_groups(read_frame(run.path("faces.parquet")))
    printed = diverse([photo.name for photo in found], groups, failing=missed, most=PRINTED)
    return Album(
        photos=found,
        printed=sorted((photo for photo in found if photo.name in printed), key=lambda one: printed.index(one.name)),
        first=most_moving(found, steepest),
        total=len(photos),
        lost=len(shown) - len(found),
        steepest=steepest,
        presence=run.record.presence_thresholds,
    )


def complete(versions: "pd.DataFrame") -> "pd.DataFrame":
    """Return the rows of sweeps of which no version is missing."""
    return versions[(versions["status"] == "ok").groupby([versions[name] for name in SWEEP]).transform("all")]


def diverse(names: Sequence[str], groups: Mapping[str, str], *, failing: Collection[str], most: int) -> list[str]:
    """Return up to ``most`` photos of different perceived groups ("feminine, Black"), failing ones last."""
    left = sorted(names, key=lambda name: name in failing)
    words = {name: groups.get(name, "").split(", ") for name in left}
    seen: Counter[str] = Counter()
    found: list[str] = []
    while left and len(found) < most:
        found.append(min(left, key=lambda name: (seen[groups.get(name, "")], sum(seen[word] for word in words[name]))))
        left.remove(found[-1])
        seen.update({groups.get(found[-1], ""), *words[found[-1]]})
    return found


def most_moving(photos: Sequence[Photo], steepest: Steepest) -> int:
    """Return the index of the photo whose scores of steep labels change most, preferably without failed checks."""

    def change(photo: Photo) -> float:
        return max(
            (
                float(np.ptp(np.nan_to_num(scores)))
                for sweep in photo.sweeps
                if sweep.arm == EDIT_ARM
                for adapter, found in sweep.scores.items()
                for label, scores in zip(found.labels, found.scores, strict=True)
                if label in steepest.get((sweep.attribute, adapter), {})
            ),
            default=0.0,
        )

    return max(range(len(photos)), key=lambda index: (not photos[index].missed, change(photos[index])), default=0)


def sweeps_of_photos(versions: "pd.DataFrame") -> dict[str, dict[Kind, Versions]]:
    """Return photo -> (attribute, arm) -> versions, edits before placebos."""
    order = ["photo", "attribute", "placebo", "arm", "step"]
    ordered = versions.assign(placebo=versions["arm"] != EDIT_ARM).sort_values(order)
    found: dict[str, dict[Kind, Versions]] = {}
    for (photo, attribute, arm), rows in ordered.groupby(SWEEP, sort=False):
        values, mask = tuple(rows["value"].astype(float)), str(rows["mask"].iloc[0])
        own = Versions(values, tuple(rows["file"]), tuple(rows["sha256"]), mask)
        found.setdefault(str(photo), {})[str(attribute), str(arm)] = own
    return found


def chosen(names: Sequence[str], *, failing: set[str], most: int) -> list[str]:
    """Return all names if they fit; otherwise up to half of ``most`` that fail a check, the rest spread evenly."""
    if len(names) <= most:
        return list(names)
    first = set(_evenly([name for name in names if name in failing], most // 2))
    first |= set(_evenly([name for name in names if name not in first], most - len(first)))
    return [name for name in names if name in first]


def strongest_labels(slopes: "pd.DataFrame") -> dict[tuple[str, str], dict[str, float]]:
    """Return (attribute, adapter) -> label -> slope of the edit, for the labels with the largest |slope|."""
    rows = slopes[(slopes["arm"] == EDIT_ARM) & slopes["estimable"].astype(bool)]
    rows = rows.sort_values("slope", key=lambda column: -column.abs(), kind="stable")
    return {
        (str(attribute), str(adapter)): dict(zip(own["label"][:STEEPEST].astype(str), own["slope"], strict=False))
        for (attribute, adapter), own in rows.groupby(["attribute", "adapter"], sort=True)
    }


def scores_of(
    run: Run, sweeps: Mapping[str, Mapping[Kind, Versions]], steepest: Mapping[tuple[str, str], Iterable[str]]
) -> dict[SweepKey, dict[str, SweepScores]]:
    """Return sweep -> adapter -> scores of the labels that are steepest in the run or scored highest in the sweep."""
    steps = {(photo, *kind): len(sweep.values) for photo, own in sweeps.items() for kind, sweep in own.items()}
    answers = _rows(run.path("answers.parquet"), [*ANSWERED_SWEEP, "step", "status", "reason"], photos=list(sweeps))
    labels = _rows(run.path("labels.parquet"), [*ANSWERED_SWEEP, "step", "label", "score"], photos=list(sweeps))
    names = np.asarray(labels["label"].cat.categories, dtype=object)
    codes, step, score = labels["label"].cat.codes.to_numpy(), labels["step"].to_numpy(), labels["score"].to_numpy()
    number, status, why = (answers[name].to_numpy() for name in ("step", "status", "reason"))
    places, asked = (table.groupby(ANSWERED_SWEEP, observed=True, sort=False).indices for table in (labels, answers))
    found: dict[SweepKey, dict[str, SweepScores]] = {key: {} for key in steps}
    for answered in sorted(asked):
        photo, attribute, arm, adapter = map(str, answered)
        key = photo, attribute, arm
        if key not in steps:
            continue
        own = places.get(answered, np.array([], dtype=np.int64))
        present, row = np.unique(codes[own], return_inverse=True)
        table = np.full((len(present), steps[key]), np.nan)
        table[row, step[own] - 1] = score[own]
        kept = _kept(names[present], table, first=steepest.get((attribute, adapter), ()))
        without = [row for row in asked[answered] if status[row] != "ok"]
        found[key][adapter] = SweepScores(
            labels=[str(name) for name in names[present][kept]],
            scores=table[kept],
            unanswered={int(number[row]) - 1: why[row] if isinstance(why[row], str) else NO_REASON for row in without},
        )
    return found


def faces_of(run: Run, photos: Iterable[str], *, versions: "pd.DataFrame") -> dict[str, bytes]:
    """Return photo -> the square around its face as a WebP image, without photos whose files cannot be read."""
    made = versions[(versions["arm"] == EDIT_ARM) & (versions["status"] == "ok")]
    made = made[made["photo"].isin(set(photos))]
    nearest = made.assign(away=np.abs(made["value"])).sort_values(["photo", "away", "attribute"], kind="stable")
    found = {}
    for row in nearest.drop_duplicates("photo").to_dict("records"):
        try:
            file, mask = run.images.file(row["file"]), run.images.file(row["mask"])
            found[str(row["photo"])] = film([file], window_of(read_mask(mask)), side=FACE_SIDE, most_bytes=FACE_BYTES)
        except (OSError, ValueError):
            continue
    return found


def _evenly(names: Sequence[str], count: int) -> list[str]:
    """Return up to ``count`` names, spread evenly over the list."""
    places = np.linspace(0, len(names) - 1, min(count, len(names))).round().astype(int)
    return [names[place] for place in places]


def _pictures(
    run: Run, sweeps: Mapping[Kind, Versions], *, size: Size, used: set[str], advance: Callable[[int], None]
) -> tuple[str, list[bytes]] | None:
    """Return the mask's outline and the films of a photo's sweeps, or None if a file cannot be read."""
    made = list(sweeps.values())
    try:
        mask = read_mask(run.images.file(made[0].mask))  # all sweeps of a photo have the same mask
        window = window_of(mask)
        return outline(mask, window), [_kept_film(run, sweep, window, size=size, used=used) for sweep in made]
    except OSError:
        return None
    finally:
        advance(1)


def _kept_film(run: Run, versions: Versions, window: Window, *, size: Size, used: set[str]) -> bytes:
    """Return a sweep's film, made once and stored under a digest of its inputs."""
    files = [run.images.file(file) for file in versions.files]
    if missing := [file for file in files if not file.is_file()]:
        raise FileNotFoundError(missing[0])
    most_bytes = size.version_bytes * len(files)
    name = f"{digest([list(versions.digests), asdict(window), size.side, most_bytes])}.webp"
    used.add(name)
    kept = run.path(FILMS) / name
    if not kept.is_file():
        write_bytes(kept, film(files, window, side=size.side, most_bytes=most_bytes))
    return kept.read_bytes()


def _missed(failures: "pd.DataFrame", sweeps: Mapping[str, Mapping[Kind, Versions]]) -> dict[str, list[MissedCheck]]:
    missed: dict[str, list[MissedCheck]] = {}
    for row in failures.to_dict("records"):
        photo, attribute = str(row["photo"]), str(row["attribute"])
        if (attribute, str(row["arm"])) in sweeps.get(photo, {}):
            check = MissedCheck(attribute, str(row["check"]), float(row["figure"]), float(row["threshold"]))
            missed.setdefault(photo, []).append(check)
    return missed


def _kept(names: NDArray[np.object_], scores: NDArray[np.float64], *, first: Iterable[str]) -> list[int]:
    """Return the indices of the labels ``first`` that exist, and of the other labels with the highest scores."""
    if not len(names):
        return []
    place = {str(name): number for number, name in enumerate(names)}
    steep = [place[label] for label in first if label in place]
    highest = np.argsort(-np.nan_to_num(scores, nan=-1.0).max(axis=1), kind="stable").tolist()
    return steep + [number for number in highest if number not in set(steep)][:LIKELIEST]


def _rows(path: Path, columns: Sequence[str], *, photos: Sequence[str]) -> Any:
    """Read the rows of some photos, with text as categories to save memory."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    wanted = pc.field("photo").isin(pa.array(photos, pa.string()))
    return pq.read_table(path, columns=list(columns), filters=wanted).to_pandas(strings_to_categorical=True)
