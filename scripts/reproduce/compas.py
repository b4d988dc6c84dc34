"""Directional bias amplification and false positive rates of COMPAS scores, as in Fig. 6 of Wang & Russakovsky 2021:

    python scripts/reproduce/compas.py --unfiltered

The scores are ProPublica's ``compas-scores-two-years.csv``: 7,214 people, of whom ProPublica's filter keeps 6,172.
Those of the two largest races count.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from pipeline.report.markup import FORMATS, render_frame
from pipeline.statistics.amplification.directional import attribute_to_task
from pipeline.statistics.amplification.group_rates import group_rates

GROUPS = ("Caucasian", "African-American")  # a difference is the last one less the first
DECILES = tuple(range(2, 11))


def data_path() -> Path:
    """Where the table lies: in ``COUNTERSLOPE_DATA``, else in ``../shared/data`` next to the repository."""
    folder = Path(os.environ.get("COUNTERSLOPE_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
    return folder / "compas-scores-two-years.csv"


def people(path: Path, *, filtered: bool, also: Sequence[str] = ()) -> pd.DataFrame:
    """The rows of both groups; ``filtered`` as by ProPublica: charge within 30 days, outcome known, no traffic case.

    ``also``: further columns to read.
    """
    columns = [
        *also,
        *("race", "decile_score", "two_year_recid"),
        *("days_b_screening_arrest", "is_recid", "c_charge_degree", "score_text"),
    ]
    table = pd.read_csv(path, usecols=columns, keep_default_na=False, na_values=[""])
    if filtered:
        near = table["days_b_screening_arrest"].between(-30, 30)
        known = (table["is_recid"] != -1) & (table["score_text"] != "N/A")
        table = table[near & known & (table["c_charge_degree"] != "O")]
    return table[table["race"].isin(GROUPS)].reset_index(drop=True)


def figure_6(table: pd.DataFrame, *, resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
    """A row for each threshold: A->T and the difference of false positive rates, with 95 % intervals.

    T is recidivism within two years, That a decile of at least the threshold, A the group; the sign is the data's own.
    """
    attributes = pd.DataFrame({group: (table["race"] == group).astype("int8") for group in GROUPS})
    tasks = table[["two_year_recid"]]
    rows = []
    for decile in DECILES:
        predictions = (table[["decile_score"]] >= decile).astype("int8")
        found = attribute_to_task(attributes, tasks, predictions=predictions, resamples=resamples, seed=seed)
        rates = group_rates(attributes, tasks, predictions=predictions)
        difference = rates.differences["fpr"]
        rows.append(
            {
                "decile_from": decile,
                "amplification": found.value,
                "amplification_low": found.low,
                "amplification_high": found.high,
                **{f"fpr_{group}": rate for group, rate in zip(GROUPS, rates.rates["fpr"].value[:, 0], strict=True)},
                "fpr_difference": difference.value[0],
                "fpr_low": difference.low[0],
                "fpr_high": difference.high[0],
            }
        )
    return pd.DataFrame(rows)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path, default=None, help="compas-scores-two-years.csv")
    parser.add_argument("--unfiltered", action="store_true", help="all rows of both groups")
    parser.add_argument("--format", choices=(*FORMATS, "text"), default="text")
    options = parser.parse_args()
    path = options.path or data_path()
    if not path.is_file():
        raise SystemExit(f"there is no {path}: name the file, or its folder in COUNTERSLOPE_DATA")
    table = people(path, filtered=not options.unfiltered)
    title = f"COMPAS, {len(table):,} people: A->T and the difference of false positive rates"
    print(render_frame(figure_6(table), options.format, title=title), end="")


if __name__ == "__main__":
    main()
