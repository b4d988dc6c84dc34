"""The DPA setup on COMPAS: its rows, and what holds whatever the trees; needs ProPublica's table."""

import pytest
from script_modules import load_script


@pytest.fixture
def script():
    return load_script("reproduce/compas")


@pytest.fixture
def path(script):
    found = script.data_path()
    if not found.is_file():
        pytest.skip(f"{found.name} is not here (COUNTERSLOPE_DATA)")
    return found


@pytest.mark.parametrize(("filtered", "rarest"), [(True, 822), (False, 966)])
def test_balanced_rows(script, path, filtered, rarest):
    table = script.balanced(script.people(path, filtered=filtered, also=script.FEATURES), seed=0)
    assert table.groupby(["race", "two_year_recid"]).size().tolist() == [rarest] * 4
    found = script.amplification(table, depth=3, attacker="majority", quality="accuracy", seed=0)
    values = found.set_index(["direction", "quantity"])["value"]
    # Balanced labels give nothing away, however many of them are changed.
    assert [values[name, "data"] for name in ("A->T", "T->A", "leakage")] == pytest.approx([0.5] * 3)
    assert values["A->T", "dpa"] == pytest.approx((values["A->T", "model"] - 0.5) / (values["A->T", "model"] + 0.5))
    assert 0 < values["A->T", "dpa"] <= 1 / 3
