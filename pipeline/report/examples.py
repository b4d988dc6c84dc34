"""The report's album from a run: which photos are in it, and their films. What was said of them is read in ``said``.

No image is kept longer than it takes to make its film.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.report.album import Album, Missed, Photo, Sweep
from pipeline.report.thumbnails import Size, affordable, film, outline, read_mask, window_of
from pipeline.report.viewer_answers import said_of
from pipeline.run.folder import Run
from pipeline.run.tables import EDIT_ARM

if TYPE_CHECKING:
    import pandas as pd

STEEPEST = 6  # labels of each classifier
THREADS = 2
SWEEP = ["photo", "attribute", "arm"]

Kind = tuple[str, str]  # attribute, arm


@dataclass(frozen=True)
class Versions:
    """A complete sweep as a run has it: its values, its files from the first step to the last, its mask's file."""

    values: Sequence[float]
    files: Sequence[str]
    mask: str


def album_of(run: Run, *, versions: "pd.DataFrame", slopes: "pd.DataFrame", failures: "pd.DataFrame") -> Album:
    """As many photos as fit into a page, by name, with all their complete sweeps.

    Args:
        run: with its images, masks, answers and labels.
        versions: the counterfactuals table.
        slopes: as ``statistics.slopes_of`` gives it.
        failures: as ``validity.photo_failures`` gives it.
    """
    whole = (versions["status"] == "ok").groupby([versions[name] for name in SWEEP]).transform("all")
    made = versions[whole]
    photos = sorted(made["photo"].astype(str).unique())
    size = affordable(
        len(photos),
        sweeps=len(made[["attribute", "arm"]].drop_duplicates()),
        steps=0 if made.empty else int(made["step"].max()),
    )
    shown = chosen(photos, failing=set(failures["photo"]), most=size.photos)
    sweeps = sweeps_of_photos(made[made["photo"].isin(shown)])
    steepest = strongest_labels(slopes)
    steps = {(photo, *kind): len(own.values) for photo, kinds in sweeps.items() for kind, own in kinds.items()}
    said = said_of(run, steps, steepest)
    missed = _missed(failures, sweeps)
    with ThreadPoolExecutor(THREADS) as pool:
        pictures = list(pool.map(partial(_pictures, run.folder, size=size), sweeps.values()))
    found = []
    for (name, own), pictured in zip(sweeps.items(), pictures, strict=True):
        if pictured is not None:
            edge, films = pictured
            shots = [
                Sweep(attribute, arm, one.values, picture, said[name, attribute, arm])
                for ((attribute, arm), one), picture in zip(own.items(), films, strict=True)
            ]
            found.append(Photo(name, edge, missed.get(name, ()), shots))
    return Album(
        photos=found,
        total=len(photos),
        lost=len(shown) - len(found),
        steepest=steepest,
        presence=run.record.get("presence", {}),
    )


def sweeps_of_photos(versions: "pd.DataFrame") -> dict[str, dict[Kind, Versions]]:
    """Photo -> attribute and arm -> its versions; edits before placebos."""
    order = ["photo", "attribute", "placebo", "arm", "step"]
    ordered = versions.assign(placebo=versions["arm"] != EDIT_ARM).sort_values(order)
    found: dict[str, dict[Kind, Versions]] = {}
    for (photo, attribute, arm), rows in ordered.groupby(SWEEP, sort=False):
        own = Versions(tuple(rows["value"].astype(float)), tuple(rows["file"]), str(rows["mask"].iloc[0]))
        found.setdefault(str(photo), {})[str(attribute), str(arm)] = own
    return found


def chosen(names: Sequence[str], *, failing: set[str], most: int) -> list[str]:
    """All names where they fit; else those that miss a check for up to half of the places, and evenly from the others.

    Args:
        names: in the order that is kept.
        failing: names that miss a check.
        most: how many fit.
    """
    if len(names) <= most:
        return list(names)
    first = set(evenly([name for name in names if name in failing], most // 2))
    first |= set(evenly([name for name in names if name not in first], most - len(first)))
    return [name for name in names if name in first]


def evenly(names: Sequence[str], count: int) -> list[str]:
    """Up to ``count`` of the names, spread over the whole list."""
    places = np.linspace(0, len(names) - 1, min(count, len(names))).round().astype(int)
    return [names[place] for place in places]


def strongest_labels(slopes: "pd.DataFrame") -> dict[tuple[str, str], dict[str, float]]:
    """(attribute, adapter) -> the labels with the largest |slope| of the edits, largest first, and their slopes."""
    rows = slopes[(slopes["arm"] == EDIT_ARM) & slopes["estimable"].astype(bool)]
    rows = rows.sort_values("slope", key=lambda column: -column.abs(), kind="stable")
    return {
        (str(attribute), str(adapter)): {
            str(label): float(slope) for label, slope in own[["label", "slope"]].head(STEEPEST).itertuples(index=False)
        }
        for (attribute, adapter), own in rows.groupby(["attribute", "adapter"], sort=True)
    }


def _pictures(folder: Path, sweeps: Mapping[Kind, Versions], *, size: Size) -> tuple[str, list[bytes]] | None:
    """The mask's outline and the films of one photo's sweeps; None where a file is gone or spoilt."""
    made = list(sweeps.values())
    try:
        # The mask is the photo's: all its sweeps have the same.
        mask = read_mask(folder / made[0].mask)
        window = window_of(mask)
        films = [
            film([folder / file for file in one.files], window, side=size.side, most_bytes=size.film_bytes)
            for one in made
        ]
    except OSError:
        return None
    return outline(mask, window), films


def _missed(failures: "pd.DataFrame", sweeps: Mapping[str, Mapping[Kind, Versions]]) -> dict[str, list[Missed]]:
    missed: dict[str, list[Missed]] = {}
    for row in failures.to_dict("records"):
        photo, attribute = str(row["photo"]), str(row["attribute"])
        if (attribute, str(row["arm"])) in sweeps.get(photo, {}):
            one = Missed(attribute, str(row["check"]), float(row["figure"]), float(row["threshold"]))
            missed.setdefault(photo, []).append(one)
    return missed
