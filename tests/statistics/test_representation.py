import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from pipeline.statistics.corrected_shares import corrected_interval, recall, share_scores, true_shares
from pipeline.statistics.representation import (
    REPRESENTATION_COLUMNS,
    doubts,
    represent,
    share_interval,
    shares_by_group,
)

TWO = ("feminine", "masculine")
CONFUSION = [[90, 10], [5, 95]]


def genders(feminine, masculine):
    return ["feminine"] * feminine + ["masculine"] * masculine


@pytest.mark.parametrize(("method", "name"), [("wilson", "wilson"), ("exact", "beta")])
@given(data=st.data())
def test_share_intervals_equal_statsmodels(method, name, data):
    n = data.draw(st.integers(1, 400))
    k = data.draw(st.integers(0, n))
    expected = proportion_confint(k, n, method=name)
    np.testing.assert_allclose(share_interval(k, n, method=method), np.clip(expected, 0, 1), atol=1e-10)


def test_share_interval_of_no_photos_is_nan():
    assert np.isnan(share_interval(0, 0)).all()
    with pytest.raises(ValueError, match="between 0 and"):
        share_interval(3, 2)
    with pytest.raises(ValueError, match="wilson, exact"):
        share_interval(1, 2, method="wald")


@given(st.floats(0, 1))
def test_true_shares_are_recovered_from_expected_perceived_shares(feminine):
    true = np.array([feminine, 1 - feminine])
    np.testing.assert_allclose(true_shares(true @ recall(CONFUSION), recall(CONFUSION)), true, atol=1e-7)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 50), min_size=4, max_size=4).filter(sum), st.integers(0, 100))
def test_corrected_shares_are_the_best_fitting_distribution(counts, seed):
    random = np.random.default_rng(seed)
    matrix = recall(np.eye(4) * 30 + random.integers(1, 20, size=(4, 4)))
    shares = true_shares(counts, matrix)
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1)
    perceived = np.array(counts) / sum(counts)
    gap = ((shares @ matrix - perceived) ** 2).sum()
    for other in random.dirichlet(np.ones(4), size=200):
        assert gap <= ((other @ matrix - perceived) ** 2).sum() + 1e-7


def test_perfect_classifier_leaves_shares_uncorrected():
    found = represent(genders(30, 70), TWO, confusion=[[500, 0], [0, 500]])
    np.testing.assert_allclose(found.corrected, found.share)


def test_corrected_interval_includes_both_sampling_errors():
    few = represent(genders(140, 260), TWO, confusion=np.array(CONFUSION) // 5)
    many = represent(genders(140, 260), TWO, confusion=np.array(CONFUSION) * 50)
    # 0.35 = 0.9 x + 0.05 (1 - x)
    assert many.corrected[0] == pytest.approx(0.3 / 0.85)
    assert many.corrected_low[0] < 0.3 / 0.85 < many.corrected_high[0]
    assert few.corrected_high[0] - few.corrected_low[0] > 1.2 * (many.corrected_high[0] - many.corrected_low[0])
    assert many.corrected_high[0] - many.corrected_low[0] > many.share_high[0] - many.share_low[0]


RACE_CONFUSION = [[0.75, 0.25, 0, 0], [0.05, 0.85, 0.05, 0.05], [0, 0.3, 0.7, 0], [0.1, 0.1, 0.1, 0.7]]


@pytest.mark.parametrize("matrix", [[[0.93, 0.07], [0.04, 0.96]], RACE_CONFUSION], ids=["two", "four"])
@pytest.mark.parametrize("true", [0.0, 0.02, 0.1, 0.5, 0.98])
@pytest.mark.parametrize(("photos", "faces"), [(20, 50), (150, 1000), (1000, 50)])
def test_coverage_of_corrected_intervals(matrix, true, photos, faces):
    random = np.random.default_rng(photos)
    runs, matrix = 600, np.array(matrix)
    shares = np.array([true, 1 - true] if len(matrix) == 2 else [true, *((1 - true) * np.array([0.8, 0.15, 0.05]))])
    counts = random.multinomial(photos, shares @ matrix, size=runs)
    confusion = np.stack([random.multinomial(faces, row, size=runs) for row in matrix], axis=1)
    inside = scores_within_limits(shares, counts, confusion).mean(axis=0)
    # The standard error of 600 runs is 0.9 %.
    assert inside.min() >= 0.93


def scores_within_limits(shares, counts, confusion):
    """Whether each true share is in the interval, without computing the interval."""
    from_truth = share_scores(np.tile(shares, (len(counts), 1)), counts, confusion)
    from_best = share_scores(true_shares(counts, recall(confusion)), counts, confusion)
    return np.abs(from_truth - from_best).min(axis=0) <= 1.959964


def test_corrected_interval_is_the_score_test_inverted():
    counts, confusion = np.array([30, 60, 9, 1]), np.array(RACE_CONFUSION) * 200
    low, high = corrected_interval(counts, confusion, level=0.95)
    for end, way in ((low, -1), (high, 1)):
        just_inside, just_outside = np.clip(end - 1e-3 * way, 0, 1), end + 1e-3 * way
        free = (just_outside > 0) & (just_outside < 1)
        for share, inside in ((just_inside, True), (just_outside, False)):
            scores = share_scores(share, counts, confusion) - share_scores(
                true_shares(counts, recall(confusion)), counts, confusion
            )
            assert ((np.abs(scores).min(axis=0) <= 1.959964) == inside)[free].all()


def test_batched_intervals_equal_single_intervals():
    counts = np.array([[30, 60, 9, 1], [0, 20, 0, 0], [1, 0, 0, 0]])
    confusion = np.array(RACE_CONFUSION) * 60
    together = corrected_interval(counts, confusion, level=0.9)
    for row, sample in enumerate(counts):
        alone = corrected_interval(sample, confusion, level=0.9)
        np.testing.assert_allclose(alone, [end[row] for end in together], atol=1e-3)


def test_corrected_interval_of_a_perfect_classifier_is_wilsons():
    low, high = corrected_interval([30, 70], [[10**7, 0], [0, 10**7]], level=0.95)
    wilson = proportion_confint(30, 100, method="wilson")
    assert wilson[0] - 0.004 < low[0] < wilson[0] + 1e-4  # skewness widens it slightly
    assert wilson[1] - 1e-4 < high[0] < wilson[1] + 0.004
    assert (low + high[::-1]).tolist() == pytest.approx([1, 1], abs=1e-4)


def test_indistinguishable_categories_have_the_interval_from_0_to_1():
    low, high = corrected_interval([5, 95], [[50, 50], [50, 50]], level=0.95)
    assert (low.tolist(), high.tolist()) == ([0, 0], [1, 1])


def test_upper_end_is_positive_if_fewer_are_perceived_than_errors_expected():
    # 4 % of masculine faces are classified as feminine, yet 0 of 1,000 photos are.
    low, high = corrected_interval([0, 1000], [[279, 21], [12, 288]], level=0.95)
    assert low[0] == 0
    assert 0.01 < high[0] < 0.1


def test_clusters_widen_the_interval():
    perceived = genders(60, 140)
    person = [index // 10 for index in range(200)]
    alone, together = represent(perceived, TWO), represent(perceived, TWO, clusters=person)
    assert together.share.tolist() == alone.share.tolist()
    assert together.share_high[0] - together.share_low[0] > 2 * (alone.share_high[0] - alone.share_low[0])
    singletons, ends = represent(perceived, TWO, clusters=list(range(200)), resamples=4000), ["share_low", "share_high"]
    np.testing.assert_allclose(singletons[ends], alone[ends], atol=0.01)


def test_zero_count_has_an_upper_end_above_zero():
    found = represent(genders(0, 20), TWO, confusion=CONFUSION, clusters=[index // 2 for index in range(20)])
    assert found.share.tolist() == [0, 1]
    assert found.share_high[0] > 0.02
    assert found.corrected_low[0] == 0


@settings(max_examples=15)
@given(st.integers(0, 30), st.integers(1, 30), st.integers(0, 9))
def test_results_are_reproducible_and_equivariant_to_category_order(feminine, masculine, seed):
    found = represent(genders(feminine, masculine), TWO, confusion=CONFUSION, resamples=50, seed=seed)
    again = represent(genders(feminine, masculine)[::-1], TWO, confusion=CONFUSION, resamples=50, seed=seed)
    assert found.equals(again)
    turned = represent(genders(feminine, masculine), TWO[::-1], confusion=np.array(CONFUSION)[::-1, ::-1], resamples=50)
    np.testing.assert_allclose(found.corrected, turned.corrected[::-1], atol=1e-7)
    np.testing.assert_allclose(found.share_low, turned.share_low[::-1])


def test_table_covers_groups_and_attributes():
    perceived = {"gender": genders(2, 4), "race": ["White", "Black", "White", "Black", "Black", "White"]}
    categories = {"gender": TWO, "race": ("White", "Black", "Asian")}
    groups = ["ceo", "ceo", "nurse", "nurse", "ceo", "ceo"]
    frame = shares_by_group(perceived, categories, groups, confusion={"gender": CONFUSION})
    assert list(frame.columns) == [*REPRESENTATION_COLUMNS, "contradicted"]
    shares = frame.set_index(["group", "attribute", "category"])["share"]
    assert shares["ceo", "gender", "feminine"] == 0.5
    assert shares["nurse", "race", "Asian"] == 0
    assert frame["corrected"].notna().tolist() == (frame["attribute"] == "gender").tolist()
    assert shares_by_group({"gender": []}, categories, []).empty


@pytest.mark.parametrize(
    ("perceived", "options", "message"),
    [
        ([], {}, "group '' has no photo"),
        (["other"], {}, "holds other, but may hold feminine, masculine"),
        (["feminine"], {"clusters": [1, 2]}, "each of 1 rows, not 2"),
        (["feminine"], {"confusion": [[1, 2]]}, "square table of counts"),
        (["feminine"], {"confusion": [[1, 2], [0, 0]]}, "no face of the categories"),
    ],
)
def test_invalid_arguments_raise(perceived, options, message):
    with pytest.raises(ValueError, match=message):
        represent(perceived, TWO, **options)


def test_confusion_contradicted_by_classifier_confidence_is_flagged():
    """4.4 % are classified as one group with high confidence, but the confusion matrix expects as many errors."""
    perceived = ["Black"] * 22 + ["White"] * 478
    confusion = [[190, 10], [20, 480]]  # rows: Black, White
    sure = np.where(np.array(perceived)[:, None] == ["Black", "White"], 0.99, 0.01)
    found = represent(perceived, ["Black", "White"], group="all", confusion=confusion, probabilities=sure)
    assert found.share[0] == 0.044
    assert found.corrected[0] < 0.01
    assert found.contradicted.tolist() == [True, True]
    (doubt,) = doubts(found)
    assert doubt.startswith("all: ")
    assert "corrected shares of Black, White. " in doubt
    assert "read the uncorrected shares" in doubt
    # These probabilities expect as many errors as the matrix.
    unsure = np.where(np.array(perceived)[:, None] == ["Black", "White"], [0.05, 0.998], [0.002, 0.95])
    unsure /= unsure.sum(axis=1, keepdims=True)
    fitting = represent(perceived, ["Black", "White"], group="all", confusion=confusion, probabilities=unsure)
    assert not fitting.contradicted.any()
    assert doubts(fitting) == ()
    with pytest.raises(ValueError, match="rows that sum to 1"):
        represent(perceived, ["Black", "White"], confusion=confusion, probabilities=sure / 2)
