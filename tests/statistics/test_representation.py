import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from pipeline.statistics.corrected_shares import recall, true_shares
from pipeline.statistics.representation import (
    REPRESENTATION_COLUMNS,
    represent,
    representation_frame,
    share_interval,
    shares_by_group,
)

TWO = ("feminine", "masculine")
CONFUSION = [[90, 10], [5, 95]]


def seen(feminine, masculine):
    return ["feminine"] * feminine + ["masculine"] * masculine


@pytest.mark.parametrize(("method", "name"), [("wilson", "wilson"), ("exact", "beta")])
@given(data=st.data())
def test_intervals_equal_statsmodels(method, name, data):
    n = data.draw(st.integers(1, 400))
    k = data.draw(st.integers(0, n))
    expected = proportion_confint(k, n, method=name)
    np.testing.assert_allclose(share_interval(k, n, method=method), np.clip(expected, 0, 1), atol=1e-10)


def test_a_share_of_nothing_has_no_interval():
    assert np.isnan(share_interval(0, 0)).all()
    with pytest.raises(ValueError, match="between 0 and"):
        share_interval(3, 2)
    with pytest.raises(ValueError, match="wilson and exact"):
        share_interval(1, 2, method="wald")


@given(st.floats(0, 1))
def test_the_true_shares_come_back_from_what_they_look_like(feminine):
    true = np.array([feminine, 1 - feminine])
    np.testing.assert_allclose(true_shares(true @ recall(CONFUSION), recall(CONFUSION)), true, atol=1e-7)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 50), min_size=4, max_size=4).filter(sum), st.integers(0, 100))
def test_corrected_shares_are_shares_and_explain_best(counts, seed):
    random = np.random.default_rng(seed)
    matrix = recall(np.eye(4) * 30 + random.integers(1, 20, size=(4, 4)))
    shares = true_shares(counts, matrix)
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1)
    perceived = np.array(counts) / sum(counts)
    gap = ((shares @ matrix - perceived) ** 2).sum()
    for other in random.dirichlet(np.ones(4), size=200):
        assert gap <= ((other @ matrix - perceived) ** 2).sum() + 1e-7


def test_a_classifier_that_never_errs_corrects_nothing():
    found = represent(seen(30, 70), TWO, confusion=[[500, 0], [0, 500]])
    np.testing.assert_allclose(found.corrected, found.share)


def test_fewer_are_perceived_than_there_are_is_told_with_both_uncertainties():
    few = represent(seen(140, 260), TWO, confusion=np.array(CONFUSION) // 5)
    many = represent(seen(140, 260), TWO, confusion=np.array(CONFUSION) * 50)
    # 0.35 = 0.9 x + 0.05 (1 - x)
    assert many.corrected[0] == pytest.approx(0.3 / 0.85)
    assert many.corrected_low[0] < 0.3 / 0.85 < many.corrected_high[0]
    assert few.corrected_high[0] - few.corrected_low[0] > 1.2 * (many.corrected_high[0] - many.corrected_low[0])
    assert many.corrected_high[0] - many.corrected_low[0] > many.high[0] - many.low[0]


@pytest.mark.parametrize("true", [0.0, 0.1, 0.5])
def test_corrected_intervals_hold_the_truth(true):
    random = np.random.default_rng(0)
    matrix = np.array([[0.93, 0.07], [0.04, 0.96]])
    inside = []
    for run in range(80):
        feminine = random.binomial(150, true)
        looks = random.binomial(feminine, 0.93) + random.binomial(150 - feminine, 0.04)
        confusion = [random.multinomial(300, row) for row in matrix]
        found = represent(seen(looks, 150 - looks), TWO, confusion=confusion, resamples=1000, seed=run)
        inside.append(found.corrected_low[0] <= true <= found.corrected_high[0])
    assert np.mean(inside) >= 0.86, "95 % but for chance in 80 runs"


def test_photos_of_one_person_are_no_independent_evidence():
    perceived = seen(60, 140)
    person = [index // 10 for index in range(200)]
    alone, together = represent(perceived, TWO), represent(perceived, TWO, clusters=person)
    assert together.share.tolist() == alone.share.tolist()
    assert together.high[0] - together.low[0] > 2 * (alone.high[0] - alone.low[0])
    one = represent(perceived, TWO, clusters=list(range(200)), resamples=4000)
    np.testing.assert_allclose([one.low, one.high], [alone.low, alone.high], atol=0.01)


def test_nobody_seen_does_not_mean_nobody_for_sure():
    found = represent(seen(0, 20), TWO, confusion=CONFUSION, clusters=[index // 2 for index in range(20)])
    assert found.share.tolist() == [0, 1]
    assert found.high[0] > 0.02
    assert found.corrected_low[0] == 0


@given(st.integers(0, 30), st.integers(1, 30), st.integers(0, 9))
def test_same_seed_same_numbers_and_renaming_turns_them(feminine, masculine, seed):
    found = represent(seen(feminine, masculine), TWO, confusion=CONFUSION, resamples=50, seed=seed)
    again = represent(seen(feminine, masculine)[::-1], TWO, confusion=CONFUSION, resamples=50, seed=seed)
    assert found.to_frame().equals(again.to_frame())
    turned = represent(seen(feminine, masculine), TWO[::-1], confusion=np.array(CONFUSION)[::-1, ::-1], resamples=50)
    np.testing.assert_allclose(found.corrected, turned.corrected[::-1], atol=1e-7)
    np.testing.assert_allclose(found.low, turned.low[::-1])


def test_groups_and_attributes_make_one_table():
    perceived = {"gender": seen(2, 4), "race": ["White", "Black", "White", "Black", "Black", "White"]}
    categories = {"gender": TWO, "race": ("White", "Black", "Asian")}
    groups = ["ceo", "ceo", "nurse", "nurse", "ceo", "ceo"]
    frame = representation_frame(shares_by_group(perceived, categories, groups, confusion={"gender": CONFUSION}))
    assert list(frame.columns) == list(REPRESENTATION_COLUMNS)
    shares = frame.set_index(["group", "attribute", "category"])["share"]
    assert shares["ceo", "gender", "feminine"] == 0.5
    assert shares["nurse", "race", "Asian"] == 0
    assert frame["corrected"].notna().tolist() == (frame["attribute"] == "gender").tolist()
    assert representation_frame([]).empty


@pytest.mark.parametrize(
    ("perceived", "options", "message"),
    [
        ([], {}, "group '' has no photo"),
        (["other"], {}, "holds other, but may hold feminine, masculine"),
        (["feminine"], {"clusters": [1, 2]}, "each of 1 photos, not 2"),
        (["feminine"], {"confusion": [[1, 2]]}, "square table of counts"),
        (["feminine"], {"confusion": [[1, 2], [0, 0]]}, "no face of the categories"),
    ],
)
def test_what_cannot_be_is_refused(perceived, options, message):
    with pytest.raises(ValueError, match=message):
        represent(perceived, TWO, **options)
