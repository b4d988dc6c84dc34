"""The papers' measures on ProPublica's COMPAS scores (``compas-scores-two-years.csv``: 7,214 people):

    python scripts/reproduce/compas.py figure-6 --unfiltered
    python scripts/reproduce/compas.py dpa --attacker network

Only the two largest races are used. The file is in the folder ``COUNTERSLOPE_DATA``, or given with --path.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from pipeline.report.markup import FORMATS, render_frame
from pipeline.statistics.amplification.directional import attribute_to_task
from pipeline.statistics.amplification.group_rates import group_rates
from pipeline.statistics.predictability.attackers import ATTACKERS
from pipeline.statistics.predictability.dpa import dpa
from pipeline.statistics.predictability.leakage import leakage
from pipeline.statistics.predictability.qualities import QUALITIES

GROUPS = ("Caucasian", "African-American")  # differences are last minus first
RACE, OUTCOME, DECILE = "race", "two_year_recid", "decile_score"
FEATURES = ["age", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"]
FILTER = ["days_b_screening_arrest", "is_recid", "c_charge_degree", "score_text"]

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)
Table = Annotated[Path | None, typer.Option("--path", help="compas-scores-two-years.csv")]
Format = Annotated[str, typer.Option("--format", help=f"{', '.join(FORMATS)} or text")]
Depth = Annotated[int | None, typer.Option(help="Depth of the trees. [default: unlimited]")]


def data_path() -> Path:
    """Return the path of the table in ``COUNTERSLOPE_DATA`` or, without it, the current folder."""
    return Path(os.environ.get("COUNTERSLOPE_DATA", "")) / "compas-scores-two-years.csv"


def people(path: Path, *, filtered: bool, also: Sequence[str] = ()) -> pd.DataFrame:
    """Read the rows of both groups.

    Args:
        path: the table.
        filtered: apply ProPublica's filter: charge within 30 days, outcome known, no traffic case.
        also: further columns to read.
    """
    if not path.is_file():
        raise SystemExit(f"{path} does not exist: give the file with --path, or its folder in COUNTERSLOPE_DATA")
    table = pd.read_csv(path, usecols=[*also, RACE, DECILE, OUTCOME, *FILTER], keep_default_na=False, na_values=[""])
    if filtered:
        near = table["days_b_screening_arrest"].between(-30, 30)
        known = (table["is_recid"] != -1) & (table["score_text"] != "N/A")
        table = table[near & known & (table["c_charge_degree"] != "O")]
    return table[table[RACE].isin(GROUPS)].reset_index(drop=True)


def figure_6(table: pd.DataFrame, *, resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Compute A->T and the difference of false positive rates for each threshold, with 95 % intervals.

    T is recidivism within two years, A the group, and the prediction a decile of at least the threshold. The sign is
    that of the same data.
    """
    attributes = pd.DataFrame({group: (table[RACE] == group).astype("int8") for group in GROUPS})
    tasks, rows = table[[OUTCOME]], []
    for decile in range(2, 11):
        predictions = (table[[DECILE]] >= decile).astype("int8")
        found = attribute_to_task(attributes, tasks, predictions=predictions, resamples=resamples, seed=seed)
        rates = group_rates(attributes, tasks, predictions=predictions)
        line = {"amplification": found.value, "amplification_low": found.low, "amplification_high": found.high}
        fpr, (apart,) = (rates[rates["metric"] == name].to_dict("records") for name in ("fpr", "fpr difference"))
        line |= {f"fpr_{row['attribute']}": row["value"] for row in fpr}
        line |= {"fpr_difference": apart["value"], "fpr_low": apart["low"], "fpr_high": apart["high"]}
        rows.append({"decile_from": decile} | line)
    return pd.DataFrame(rows)


def balanced(table: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    """Draw as many rows of each race and outcome as the rarest pair has."""
    groups = table.groupby([RACE, OUTCOME])
    fewest, random = int(groups.size().min()), np.random.default_rng(seed)
    kept = [random.choice(rows, size=fewest, replace=False) for rows in groups.indices.values()]
    return table.iloc[np.sort(np.concatenate(kept))].reset_index(drop=True)


def amplification(table: pd.DataFrame, *, depth: int | None, attacker: str, quality: str, seed: int) -> pd.DataFrame:
    """Compute DPA in both directions and leakage amplification of two trees on their training rows.

    One tree predicts recidivism (T), the other race (A), with at most ``depth`` levels (None: until pure), as in Tokas,
    Nair & Kerner.
    """
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(max_depth=depth, random_state=seed)
    race, outcome = (tree.fit(table[FEATURES], table[of]).predict(table[FEATURES]) for of in (RACE, OUTCOME))
    options: dict[str, Any] = {"attacker": attacker, "quality": quality, "seed": seed}
    directed = dpa(table[RACE], table[OUTCOME], predictions=outcome, predicted_attributes=race, **options)
    leaked = leakage(table[RACE], table[OUTCOME], outcome, **options).to_frame().assign(direction="leakage")
    return pd.concat([*(part.to_frame() for part in directed), leaked], ignore_index=True)


@app.command("figure-6")
def print_figure_6(path: Table = None, unfiltered: bool = False, format: Format = "text") -> None:
    """Print bias amplification and false positive rates, as in Fig. 6 of Wang & Russakovsky 2021."""
    table = people(path or data_path(), filtered=not unfiltered)
    title = f"COMPAS, {len(table):,} people: A->T and the difference of false positive rates"
    print(render_frame(figure_6(table), format, title=title), end="")


@app.command("dpa")
def print_dpa(
    path: Table = None,
    filtered: bool = False,
    depth: Depth = None,
    attacker: Annotated[str, typer.Option(help=", ".join(ATTACKERS))] = "majority",
    quality: Annotated[str, typer.Option(help=", ".join(QUALITIES))] = "accuracy",
    seed: int = 0,
    format: Format = "text",
) -> None:
    """Print directional predictability amplification of two decision trees, on all and on balanced rows."""
    everyone = people(path or data_path(), filtered=filtered, also=FEATURES)
    parts = []
    for rows, table in (("all", everyone), ("balanced", balanced(everyone, seed=seed))):
        found = amplification(table, depth=depth, attacker=attacker, quality=quality, seed=seed)
        found.insert(0, "rows", rows)
        parts.append(found.assign(people=len(table)))
    title = "COMPAS: amplification by two decision trees"
    print(render_frame(pd.concat(parts, ignore_index=True), format, title=title), end="")


if __name__ == "__main__":
    app()
