"""The commands ``leakage`` and ``dpa`` on files."""

import json

import numpy as np
import pandas as pd
import pytest

from pipeline.analyses.base import Kept
from pipeline.analyses.inputs import InputError
from pipeline.analyses.registry import analysis, compute
from pipeline.run.formats import decimal

# gender, cooking, prediction, count: balanced data; 90 % of the predictions are right, 60 % equal the gender
CELLS = [(0, 0, 0, 25), (0, 1, 0, 5), (0, 1, 1, 20), (1, 1, 1, 25), (1, 0, 1, 5), (1, 0, 0, 20)]


@pytest.fixture
def file(tmp_path):
    rows = [(gender, task, guess) for gender, task, guess, count in CELLS for _ in range(count)]
    frame = pd.DataFrame(rows, columns=["gender", "cooking", "guess"])
    frame["gender"] = np.where(frame["gender"], "masculine", "feminine")
    path = tmp_path / "predictions.csv"
    frame.assign(score=0.1 + 0.8 * frame["guess"], unknown=[None, *range(99)]).to_csv(path, index=False)
    return str(path)


def values(result):
    assert result.exit_code == 0, result.output
    return {(row.get("direction"), row["quantity"]): row["value"] for row in json.loads(result.stdout)}


def test_leakage_prints_the_known_values(invoke, file):
    arguments = ("leakage", file, "--attribute", "gender", "--task", "cooking", "--prediction", "guess")
    found = values(invoke(*arguments, "--format", "json"))
    assert found[None, "amplification"] == pytest.approx(0.1)
    assert found[None, "data"] == 0.5
    printed = invoke(*arguments)
    assert "Leakage of gender by cooking, 100 rows" in printed.output
    assert "0.600" in printed.output


def test_leakage_from_scores_with_repeats(run_command, file):
    result = run_command(
        "leakage", file, "--attribute", "gender", "--task", "cooking", "--prediction", "guess", "--output", "score",
        "--attacker", "logistic", "--held-out", "0.5", "--balance", "redraw", "--folded", "--repeats", "3",
        "--equalise", "macro_f1", "--format", "csv",
    )  # fmt: skip
    assert result.stdout.splitlines()[0].startswith("quantity,value,sd,repeats")
    assert "no interval over examples" in result.stderr


def test_dpa_prints_both_directions(invoke, file):
    arguments = ("dpa", file, "--attribute", "gender", "--task", "cooking", "--prediction", "guess")
    found = values(invoke(*arguments, "--predicted-attribute", "gender", "--format", "json"))
    assert found["A->T", "dpa"] == pytest.approx(1 / 11)
    assert found["T->A", "dpa"] == 0
    for format in ("md", "latex", "csv"):
        assert "dpa" in invoke(*arguments, "--format", format).output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--attribute", "sex", "--task", "cooking", "--prediction", "guess"), "no column 'sex'"),
        (("--attribute", "gender", "--task", "unknown", "--prediction", "guess"), "'unknown'"),
        (("--attribute", "gender", "--task", "score", "--prediction", "guess"), "which is not a category"),
        (("--attribute", "gender", "--task", "cooking"), "name --prediction"),
        (
            ("--attribute", "gender", "--task", "cooking", "--prediction", "guess", "--attacker", "oracle"),
            "attacker must be one of majority, logistic, network, wang, not 'oracle'",
        ),
    ],
)
def test_invalid_options_exit_with_2(error_of, file, arguments, message):
    assert message in error_of("dpa", file, *arguments)


@pytest.mark.parametrize("command", ["leakage", "dpa", "local"])
def test_help_shows_an_example(run_command, command):
    result = run_command(command, "--help")
    assert f"counterslope {command}" in " ".join(result.output.split())


def test_dpa_of_continuous_variables(tmp_path):
    rng = np.random.default_rng(0)
    age = rng.normal(size=60)
    pay = age + rng.normal(size=60)
    pd.DataFrame({"age": age, "pay": pay, "guess": pay + age}).to_csv(tmp_path / "rows.csv", index=False)
    given = {"attribute": ["age"], "task": ["pay"], "prediction": ["guess"], "quality": "inverse_rmse", "repeats": 3}
    found = compute("dpa", tmp_path / "rows.csv", given)
    assert found.tables["dpa"]["quantity"].tolist() == ["data", "model", "dpa", "dpa_shuffled"]
    assert "dpa_shuffled" in found.notes[0]
    assert len(found.kept()["dpa_grid"]) == 121
    with pytest.raises(InputError, match="no --cluster"):
        compute("dpa", tmp_path / "rows.csv", {**given, "cluster": "age"})


@pytest.mark.parametrize(("command", "quantity"), [("dpa", "dpa"), ("leakage", "amplification")])
def test_several_attackers_are_tabulated_with_their_range(tmp_path, command, quantity):
    rng = np.random.default_rng(0)
    gender, cooking, guess = (rng.integers(0, 2, 200) for _ in range(3))
    pd.DataFrame({"gender": gender, "cooking": cooking, "guess": guess}).to_csv(tmp_path / "rows.csv", index=False)
    given = {"attribute": "gender", "task": "cooking", "prediction": "guess", "resamples": 20}
    both = compute(command, tmp_path / "rows.csv", given | {"attacker": ["majority", "logistic"]})
    table = both.tables[command]
    for attacker in ("majority", "logistic"):
        alone = compute(command, tmp_path / "rows.csv", given | {"attacker": attacker}).tables[command]
        rows = table[table["attacker"] == attacker].reset_index(drop=True)
        pd.testing.assert_frame_equal(rows, alone, check_dtype=False)
    values = table.loc[table["quantity"] == quantity, "value"]
    (note,) = [note for note in both.notes if "over 2 attackers" in note]
    assert f"over 2 attackers: {decimal(values.min(), sign=True)} (" in note
    over = both.tables[f"{command}_robustness"].set_index("quantity").loc[quantity]
    assert (over["lowest"], over["highest"]) == (values.min(), values.max())
    assert over["sd"] == pytest.approx(values.std(ddof=1))
    assert over["attackers"] == 2
    assert set(both.kept()) == {command, f"{command}_robustness", f"{command}_grid"}
    kept = Kept(tables=both.kept(), about={"file": "rows.csv", **both.about}, swept={})
    (part,) = analysis(command).sections(kept)[0].parts
    assert [sheet.caption for sheet in part.tables] == ["All quantities", "Dependence on the attacker"]
    assert part.sentences == [note]


def test_networks_is_ten_attackers_and_invalid_networks_raise(tmp_path):
    rng = np.random.default_rng(0)
    age = rng.integers(0, 2, 80)
    pd.DataFrame({"a": age, "t": rng.integers(0, 2, 80), "guess": age}).to_csv(tmp_path / "rows.csv", index=False)
    given = {"attribute": "a", "task": "t", "prediction": "guess", "resamples": 0, "repeats": 1}
    found = compute("dpa", tmp_path / "rows.csv", given | {"attacker": "networks"}).tables
    assert found["dpa_robustness"]["attackers"].tolist() == [10, 10, 10]
    assert len(set(found["dpa"]["attacker"])) == 10
    for name in ("network:0", "network:4x", "network:4:-1", "network:4:x"):
        with pytest.raises(ValueError, match="is not a network"):
            compute("dpa", tmp_path / "rows.csv", given | {"attacker": name})


def test_several_attackers_of_continuous_variables(tmp_path):
    rng = np.random.default_rng(0)
    age = rng.normal(size=60)
    pd.DataFrame({"age": age, "pay": age + rng.normal(size=60), "guess": age}).to_csv(tmp_path / "r.csv", index=False)
    given = {"attribute": "age", "task": "pay", "prediction": "guess", "quality": "inverse_rmse", "repeats": 2}
    found = compute("dpa", tmp_path / "r.csv", given | {"attacker": ["linear", "forest"]}).tables
    assert found["dpa"]["attacker"].tolist() == ["linear"] * 4 + ["forest"] * 4
    assert set(found["dpa_robustness"]["attackers"]) == {2}
