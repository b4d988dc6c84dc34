"""Local bias, for the page: ``tables/local_statistics.csv``, ``local_clusters.csv`` and ``local_exemplars.csv``."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.report.extras.shape import Extra, Gallery, Part, Picture, Sheet, kinds, things
from pipeline.report.words import quoted
from pipeline.run.formats import count, decimal, is_missing, p_equals, p_value
from pipeline.run.text import visible

KEY = "local"
SURE = 0.05
GALLERIES = 4


def local(
    statistics: pd.DataFrame,
    clusters: pd.DataFrame,
    exemplars: pd.DataFrame,
    *,
    pictures: Mapping[str, bytes],
    banners: Sequence[str] = (),
) -> Extra:
    """The section: one part for each adapter and label that was looked at.

    Args:
        statistics, clusters, exemplars: as ``counterslope local`` leaves them in a run.
        pictures: photo -> a small WebP image of its face; a photo without one is named only.
        banners: what stands over it.
    """
    parts = []
    for (adapter, label), rows in kinds(clusters, "adapter", "label"):
        own = [frame[(frame["adapter"] == adapter) & (frame["label"] == label)] for frame in (statistics, exemplars)]
        parts.append(_part(rows, *own, adapter=adapter, label=label, pictures=pictures))
    return Extra(
        key=KEY,
        heading="Local bias",
        explanation=(
            "Overall, two groups may fare alike while among similar faces they do not. Faces are clustered by what "
            "they look like, so as to widen the gap between the groups inside a cluster (LOGAN); the gap is the rate "
            "of the second group less that of the first."
        ),
        parts=parts,
        caveats=[
            "The clusters are searched for large gaps, so some gap is always found. p compares each with the largest "
            "gap found when the outcomes are shuffled; a small gap, or a p that is not small, is no evidence.",
            "The photos beside a cluster are those nearest its centre: they show what it is about, and are not cases "
            "of a mistake.",
            "The groups are of perceived gender, as the estimator sees the unchanged face. Faces of two groups that "
            "look alike may still differ in what the embedding does not hold.",
            "After Zhao and Chang, “LOGAN: Local Group Bias Detection by Clustering”, 2020.",
        ],
        banners=banners,
    )


def _part(
    clusters: pd.DataFrame,
    statistics: pd.DataFrame,
    exemplars: pd.DataFrame,
    *,
    adapter: str,
    label: str,
    pictures: Mapping[str, bytes],
) -> Part:
    first, second = (visible(clusters[name].iloc[0]) for name in ("first", "second"))
    order = clusters.assign(size=clusters["gap"].abs()).sort_values(
        ["reported", "size"], ascending=False, kind="stable", na_position="last"
    )
    reported = order[order["reported"].astype(bool)]
    shown = reported if len(reported) else order[:0]
    return Part(
        heading=f"{visible(adapter)}, {quoted(label)}",
        sentences=_sentences(reported, statistics, first, second, clusters=len(clusters)),
        sheets=[_sheet(order, first, second)],
        galleries=[
            _gallery(row, exemplars[exemplars["cluster"] == row["cluster"]], pictures)
            for row in shown[:GALLERIES].to_dict("records")
        ],
    )


def _sentences(
    reported: pd.DataFrame, statistics: pd.DataFrame, first: str, second: str, *, clusters: int
) -> list[str]:
    facts = statistics.iloc[0]
    if reported.empty:
        return [
            f"None of {count(clusters)} clusters has {count(facts['min_rows'])} faces of both groups, so nothing can "
            "be said of local bias."
        ]
    row = reported.iloc[0]
    rates = f"{second} {decimal(row['second_rate'])}, {first} {decimal(row['first_rate'])}"
    said = f"{decimal(row['gap'], sign=True)} in cluster {int(row['cluster'])} ({rates}; {p_equals('p', row['p'])})"
    if is_missing(row["p"]):
        opening = f"The largest gap is {said}; it was not tested, so nothing can be concluded."
    elif row["p"] < SURE:
        opening = f"In a cluster of similar faces the label is given more to one group: a gap of {said}."
    else:
        opening = f"No evidence of local bias: the largest gap is {said}, no larger than chance gives."
    tested = (
        f"{count(len(reported))} of {count(clusters)} clusters have {count(facts['min_rows'])} faces of both groups"
    )
    null = "searched anew for each" if facts["null"] == "rerun" else "the clusters held fixed, so p is too small"
    return [opening, f"{tested}; {count(facts['permutations'])} permutations under each of two nulls, {null}."]


def _sheet(order: pd.DataFrame, first: str, second: str) -> Sheet:
    return Sheet(
        caption=f"{things(len(order), 'cluster')}, largest gap first",
        columns=(
            "Cluster", "Faces", first.capitalize(), second.capitalize(), f"Rate, {first}", f"Rate, {second}", "Gap",
            "p", "Enough of both",
        ),
        rows=[
            (
                str(int(row["cluster"])),
                count(row["rows"]),
                count(row["first_rows"]),
                count(row["second_rows"]),
                decimal(row["first_rate"]),
                decimal(row["second_rate"]),
                decimal(row["gap"], sign=True),
                p_value(row["p"]),
                "yes" if row["reported"] else "no",
            )
            for row in order.to_dict("records")
        ],
    )  # fmt: skip


def _gallery(row: Mapping[Any, Any], exemplars: pd.DataFrame, pictures: Mapping[str, bytes]) -> Gallery:
    rows = []
    for (group,), own in kinds(exemplars, "group"):
        photos = [str(photo) for photo in own.sort_values("rank")["photo"] if str(photo) in pictures]
        rows.append((visible(group), [_picture(pictures[photo], photo) for photo in photos]))
    heading = f"Cluster {int(row['cluster'])}, gap {decimal(row['gap'], sign=True)}, {p_equals('p', row['p'])}"
    return Gallery(heading=heading, rows=rows)


def _picture(webp: bytes, photo: str) -> Picture:
    return Picture(f"data:image/webp;base64,{base64.b64encode(webp).decode()}", visible(photo))
