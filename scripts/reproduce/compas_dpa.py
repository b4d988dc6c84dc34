"""Directional predictability amplification of decision trees on COMPAS, the setup of Tokas, Nair & Kerner:

    python scripts/reproduce/compas_dpa.py --attacker network

One tree predicts recidivism (T), one the race (A), both from age, juvenile felonies, misdemeanours and other offences,
and priors; DPA is measured on the rows that they have learnt. Balanced: as many rows of each race and outcome.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from compas import data_path, people

from pipeline.report.markup import FORMATS, render_frame
from pipeline.statistics.predictability.attackers import ATTACKERS
from pipeline.statistics.predictability.dpa import dpa
from pipeline.statistics.predictability.leakage import leakage
from pipeline.statistics.predictability.qualities import QUALITIES

FEATURES = ["age", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"]
RACE, OUTCOME = "race", "two_year_recid"


def balanced(table: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    """As many rows of every race and outcome as of the rarest pair, drawn at random."""
    fewest = int(table.groupby([RACE, OUTCOME]).size().min())
    random = np.random.default_rng(seed)
    kept = [random.choice(rows, size=fewest, replace=False) for rows in table.groupby([RACE, OUTCOME]).indices.values()]
    return table.iloc[np.sort(np.concatenate(kept))].reset_index(drop=True)


def amplification(table: pd.DataFrame, *, depth: int | None, attacker: str, quality: str, seed: int) -> pd.DataFrame:
    """DPA in both directions and leakage amplification of two trees of at most ``depth`` (None: until pure)."""
    from sklearn.tree import DecisionTreeClassifier

    predicted = {
        name: DecisionTreeClassifier(max_depth=depth, random_state=seed)
        .fit(table[FEATURES], table[name])
        .predict(table[FEATURES])
        for name in (RACE, OUTCOME)
    }
    options: dict[str, Any] = {"attacker": attacker, "quality": quality, "seed": seed}
    directed = dpa(
        table[RACE],
        table[OUTCOME],
        task_predictions=predicted[OUTCOME],
        attribute_predictions=predicted[RACE],
        **options,
    )
    leaked = leakage(table[RACE], table[OUTCOME], predicted[OUTCOME], **options)
    parts = [part.to_frame() for part in directed]
    parts.append(leaked.to_frame().assign(direction="leakage"))
    return pd.concat(parts, ignore_index=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path, default=None, help="compas-scores-two-years.csv")
    parser.add_argument("--filtered", action="store_true", help="only the rows that ProPublica's filter keeps")
    parser.add_argument("--depth", type=int, default=None, help="of the trees; none unless given")
    parser.add_argument("--attacker", choices=tuple(ATTACKERS), default="majority")
    parser.add_argument("--quality", choices=tuple(QUALITIES), default="accuracy")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", choices=(*FORMATS, "text"), default="text")
    options = parser.parse_args()
    path = options.path or data_path()
    if not path.is_file():
        raise SystemExit(f"there is no {path}: name the file, or its folder in COUNTERSLOPE_DATA")
    everyone = people(path, filtered=options.filtered, also=FEATURES)
    parts = []
    for rows, table in (("all", everyone), ("balanced", balanced(everyone, seed=options.seed))):
        found = amplification(
            table, depth=options.depth, attacker=options.attacker, quality=options.quality, seed=options.seed
        )
        found.insert(0, "rows", rows)
        parts.append(found.assign(people=len(table)))
    title = "COMPAS: amplification by two decision trees"
    print(render_frame(pd.concat(parts, ignore_index=True), options.format, title=title), end="")


if __name__ == "__main__":
    main()
