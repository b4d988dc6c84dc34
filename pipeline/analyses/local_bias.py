"""Local bias: clusters of similar photos or texts in which a metric differs between two groups."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.analyses import sections as page
from pipeline.analyses.artifacts import ANSWERED
from pipeline.analyses.base import Analysis, Kept, Result
from pipeline.analyses.local_rows import LocalOptions, LocalRows, rows_of_file, rows_of_run
from pipeline.run.formats import count, decimal, is_missing, p_equals, pluralise
from pipeline.run.progress import Watch, unwatched

if TYPE_CHECKING:
    import pandas as pd

GALLERIES = 4


class LocalBiasAnalysis(Analysis[LocalOptions]):
    """Local group bias (LOGAN, Zhao & Chang 2020) with permutation tests and descriptions of the clusters."""

    name = "local"
    reads = ("run", "file")
    options = LocalOptions
    tables = ("statistics", "clusters", "exemplars", "words", "topics")
    shows = ("local_clusters",)
    examples = (
        "counterslope local runs/portraits --adapter opencv --label smile",
        "counterslope local toxic.csv --attribute group --prediction guess --task toxic --text text "
        "--features bert.npy",
    )

    def compute(self, source: Path, options: LocalOptions, *, watch: Watch = unwatched) -> Result:
        """Tables statistics, clusters and exemplars, and for texts also words and topics."""
        from pipeline.statistics import (
            ClusterRules,
            centred_by_group,
            cluster_topics,
            exemplars,
            local_bias,
            topic_words,
        )

        of_run = source.is_dir()
        rows = rows_of_run(source, options, watch=watch) if of_run else rows_of_file(source, options)
        judged = of_run and options.features is None
        if (options.centre or ("group" if judged else "none")) == "group":
            rows = replace(rows, features=centred_by_group(rows.features, rows.groups))
        with watch(self.name, total=max(1, 2 * options.permutations)) as advance:
            found = local_bias(
                rows.features,
                rows.groups,
                prediction=rows.prediction,
                truth=rows.truth,
                metric=options.metric or ("presence" if rows.truth is None else "accuracy"),
                rules=ClusterRules(min_rows=options.min_rows, min_gap=options.min_gap),
                strength=options.strength[0] if len(options.strength) == 1 else options.strength,
                advance=advance,
                **options.model_dump(include={"clusters", "objective", "scale", "permutations", "null", "seed"}),
            )
        nearest = exemplars(rows.features, found.labels, rows.groups)
        tables = {
            "statistics": found.to_frame(),
            "clusters": found.clusters_frame(),
            "exemplars": nearest.assign(row=[rows.names[row] for row in nearest["row"]]),
        }
        if rows.texts is not None:
            tables["words"] = topic_words(rows.texts, found.labels)
            if options.topics:
                tables["topics"] = cluster_topics(rows.texts, found.labels, topics=options.topics, seed=options.seed)
        first, second = found.groups
        return Result(
            title=f"Local bias of {found.metric}, {second} less {first}",
            tables=tables,
            notes=(*rows.notes, *found.notes),
            kept=lambda: _kept(tables, rows, options, metric=found.metric, groups=found.groups),
            inputs=self.inputs(options, files=(*ANSWERED, "faces.parquet"), elsewhere=[options.features]),
            by=("adapter", "label"),
        )

    def sections(self, kept: Kept) -> Sequence[page.Section]:
        """A part for each adapter and label."""
        parts = []
        for (adapter, label), clusters in page.rows_by(kept.tables["local_clusters"], "adapter", "label"):
            statistics, exemplars = (
                frame[(frame["adapter"] == adapter) & (frame["label"] == label)]
                for frame in (kept.tables["local_statistics"], kept.tables["local_exemplars"])
            )
            parts.append(_part(clusters, statistics, exemplars, heading=f"{adapter}, {page.quoted(label)}"))
        section = page.Section(
            key=self.name,
            heading="Local bias",
            explanation="Two groups may have similar rates overall but not among similar faces. Faces are clustered by "
            "appearance so as to widen the gap between the groups inside a cluster (LOGAN); the gap is the rate of the "
            "second group less that of the first.",
            parts=parts,
            caveats=[
                "The search is for large gaps, so some gap is always found. p compares each gap with the largest one "
                "found after shuffling the outcomes; a small gap, or a p that is not small, is no evidence.",
                "The photos of a cluster are those nearest to its centre. They show what the cluster has in common, "
                "not cases of errors.",
                "The groups are of perceived gender, as estimated from the unchanged face. Similar faces of the two "
                "groups may still differ in ways that the embedding does not capture.",
                "After Zhao and Chang, “LOGAN: Local Group Bias Detection by Clustering”, 2020.",
            ],
        )
        return (section,)


def _kept(
    tables: "Mapping[str, pd.DataFrame]",
    rows: LocalRows,
    options: LocalOptions,
    *,
    metric: str,
    groups: tuple[str, str],
) -> "dict[str, pd.DataFrame]":
    """Tables to store in a run, with columns for adapter and label and fixed columns for the two groups."""
    keys, (first, second) = {"adapter": rows.adapter, "label": rows.label}, groups
    renamed = {f"rows {first}": "first_rows", f"rows {second}": "second_rows"}
    renamed |= {f"{metric} {first}": "first_rate", f"{metric} {second}": "second_rate"}
    parts = {
        "local_statistics": tables["statistics"].assign(min_rows=options.min_rows, min_gap=options.min_gap),
        "local_clusters": tables["clusters"].rename(columns=renamed).assign(metric=metric, first=first, second=second),
        "local_exemplars": tables["exemplars"].rename(columns={"row": "photo"}),
    }
    return {name: part.assign(**keys)[[*keys, *part.columns]] for name, part in parts.items()}


def _part(
    clusters: "pd.DataFrame", statistics: "pd.DataFrame", exemplars: "pd.DataFrame", *, heading: str
) -> page.Subsection:
    first, second = (str(clusters[name].iloc[0]) for name in ("first", "second"))
    order = clusters.assign(size=clusters["gap"].abs()).sort_values(
        ["reported", "size"], ascending=False, kind="stable", na_position="last"
    )
    reported = order["reported"].astype(bool)
    order = order.assign(enough=reported.map({True: "yes", False: "no"}), name=order["cluster"].astype(int).astype(str))
    columns: list[page.Column] = [
        ("Cluster", "name", "text"), ("Faces", "rows", "count"), (first.capitalize(), "first_rows", "count"),
        (second.capitalize(), "second_rows", "count"), (f"Rate, {first}", "first_rate", "decimal"),
        (f"Rate, {second}", "second_rate", "decimal"), ("Gap", "gap", "signed"), ("p", "p", "p"),
        ("Enough of both", "enough", "text"),
    ]  # fmt: skip
    return page.Subsection(
        heading=heading,
        sentences=_sentences(order[reported], statistics, first, second, clusters=len(clusters)),
        tables=[page.Table(f"{pluralise(len(order), 'cluster')}, largest gap first", order, columns)],
        galleries=[
            page.Gallery(
                f"Cluster {row['name']}, gap {decimal(row['gap'], sign=True)}, {p_equals('p', row['p'])}",
                [
                    (group, [str(photo) for photo in own.sort_values("rank")["photo"]])
                    for (group,), own in page.rows_by(exemplars[exemplars["cluster"] == row["cluster"]], "group")
                ],
            )
            for row in order[reported][:GALLERIES].to_dict("records")
        ],
    )


def _sentences(
    reported: "pd.DataFrame", statistics: "pd.DataFrame", first: str, second: str, *, clusters: int
) -> list[str]:
    facts = statistics.iloc[0]
    enough = f"{count(facts['min_rows'])} faces of both groups"
    if reported.empty:
        return [f"None of {count(clusters)} clusters has {enough}, so nothing can be concluded about local bias."]
    row = reported.iloc[0]
    rates = f"{second} {decimal(row['second_rate'])}, {first} {decimal(row['first_rate'])}"
    gap = f"{decimal(row['gap'], sign=True)} in cluster {row['name']} ({rates}; {p_equals('p', row['p'])})"
    if is_missing(row["p"]):
        opening = f"The largest gap is {gap}; it was not tested, so nothing can be concluded."
    elif row["p"] < page.SURE:
        opening = f"In a cluster of similar faces the label is more frequent for one group: a gap of {gap}."
    else:
        opening = f"No evidence of local bias: the largest gap is {gap}, no larger than expected by chance."
    null = "with a new search for each" if facts["null"] == "rerun" else "with fixed clusters, so p is too small"
    return [
        opening,
        f"{count(len(reported))} of {count(clusters)} clusters have {enough}; {count(facts['permutations'])} "
        f"permutations under each of two null hypotheses, {null}.",
    ]


LOCAL = LocalBiasAnalysis()
