"""The script for COMPAS: figure 6 of Wang & Russakovsky 2021, and the setup of DPA."""

import pytest
from real_data import COMPAS, needs
from script_modules import load_script

script = load_script("reproduce/compas")
pytestmark = needs(COMPAS)

FILTERED = [0.020222, 0.042053, 0.051710, 0.056414, 0.053099, 0.041061, 0.013912, -0.010665, -0.042279]
FPR = [0.187425, 0.200765, 0.208278, 0.203241, 0.179348, 0.145125, 0.091747, 0.053679, 0.012729]
UNFILTERED = [0.024563, 0.044950, 0.053767, 0.059752, 0.059478, 0.047057, 0.022080, -0.003258, -0.034698]


def test_figure_6_is_reproduced_with_filtered_rows():
    table = script.people(COMPAS, filtered=True)
    assert table.groupby(["race", "two_year_recid"]).size().tolist() == [1514, 1661, 1281, 822]
    found = script.figure_6(table, resamples=50)
    assert found["decile_from"].tolist() == list(range(2, 11))
    assert found["amplification"].tolist() == pytest.approx(FILTERED, abs=5e-7)
    assert found["fpr_difference"].tolist() == pytest.approx(FPR, abs=5e-7)


def test_figure_6_is_reproduced_with_all_rows():
    table = script.people(COMPAS, filtered=False)
    assert table.groupby(["race", "two_year_recid"]).size().tolist() == [1795, 1901, 1488, 966]
    found = script.figure_6(table, resamples=0)
    assert found["amplification"].tolist() == pytest.approx(UNFILTERED, abs=5e-7)
    at_five = found[found["decile_from"] == 5].iloc[0]
    assert at_five["fpr_African-American"] == pytest.approx(0.4485, abs=5e-5)
    assert at_five["fpr_Caucasian"] == pytest.approx(0.2345, abs=5e-5)
    assert at_five["fpr_difference"] == pytest.approx(0.213925, abs=5e-7)


def test_constant_predictions_have_equal_error_rates():
    from pipeline.statistics.amplification.directional import attribute_to_task
    from pipeline.statistics.amplification.group_rates import group_rates

    table = script.people(COMPAS, filtered=True)
    attributes = (table["race"].to_numpy()[:, None] == list(script.GROUPS)).astype(int)
    for prediction in (0, 1):
        options = {"predictions": table[["two_year_recid"]] * 0 + prediction}
        found = attribute_to_task(attributes, table[["two_year_recid"]], resamples=0, **options)
        assert found.value == pytest.approx(-0.066140, abs=5e-7)
        rates = group_rates(attributes, table[["two_year_recid"]], **options)
        assert rates.loc[rates["metric"] == "fpr difference", "value"].tolist() == [0]


@pytest.mark.parametrize(("filtered", "rarest"), [(True, 822), (False, 966)])
def test_balanced_data_have_a_predictability_of_one_half(filtered, rarest):
    table = script.balanced(script.people(COMPAS, filtered=filtered, also=script.FEATURES), seed=0)
    assert table.groupby(["race", "two_year_recid"]).size().tolist() == [rarest] * 4
    found = script.amplification(table, depth=3, attacker="majority", quality="accuracy", seed=0)
    values = found.set_index(["direction", "quantity"])["value"]
    # Balanced labels do not predict the attribute, however many of them are flipped.
    assert [values[name, "data"] for name in ("A->T", "T->A", "leakage")] == pytest.approx([0.5] * 3)
    assert values["A->T", "dpa"] == pytest.approx((values["A->T", "model"] - 0.5) / (values["A->T", "model"] + 0.5))
    assert 0 < values["A->T", "dpa"] <= 1 / 3
