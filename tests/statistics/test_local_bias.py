"""Local bias: figures, merging of clusters, permutation tests, exemplars and topic words."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.statistics.local.explanations import centred_by_group, exemplars, topic_words
from pipeline.statistics.local.figures import STATISTICS, ClusterRules, figures_of, figures_of_cells, merge_small
from pipeline.statistics.local.logan import STRENGTHS, local_bias
from pipeline.statistics.local.outcomes import outcome_of

RULES = ClusterRules()
QUICK = {"clusters": 4, "starts": 2, "rules": ClusterRules(min_rows=10, fewest=2)}


def blobs(seed, *, rows=240, planted=0.0, overall=0.0, difficulty=False):
    random = np.random.default_rng(seed)
    blob = random.integers(4, size=rows)
    features = random.normal(size=(rows, 3)) + 6 * np.eye(4)[:, :3][blob]
    group = random.integers(2, size=rows)
    right = np.where(difficulty, np.array([0.95, 0.8, 0.6, 0.5])[blob], 0.8)
    right = right - planted * ((blob == 0) & (group == 1)) - overall * group
    return features, group, (random.random(rows) < right).astype(int)


def bias_of_blobs(seed, *, permutations=0, strength=5.0, objective="literal", **planted):
    features, group, present = blobs(seed, **planted)
    options = {"permutations": permutations, "strength": strength, "objective": objective, **QUICK}
    return local_bias(features, group, prediction=present, metric="presence", **options)


# Figures


def test_hand_computed_figures():
    counted = np.array([[40, 60], [30, 30], [25, 95], [10, 90]], dtype=float)
    metric = np.array([[0.90, 0.80], [0.80, 0.75], [0.60, 0.64], [0.10, 0.90]])
    figures = figures_of_cells(counted.sum(axis=1), counted, metric, rules=RULES)
    assert figures.reported.tolist() == [True, True, True, False]  # 10 rows of a group are too few
    assert figures.biased.tolist() == [True, True, False, False]  # 5 % itself counts
    assert figures.bcr == pytest.approx(2 / 3)
    assert figures.bir == pytest.approx(160 / 280)
    assert figures.mean_biased_gap == pytest.approx((0.10 + 0.05) / 2)
    assert figures.max_gap == pytest.approx(0.10)
    assert figures.mean_gap == pytest.approx((0.10 + 0.05 + 0.04) / 3)
    np.testing.assert_allclose(figures.gaps, [-0.10, -0.05, 0.04, 0.80])


def test_figures_of_rows_equal_figures_of_counts():
    labels, group = np.repeat([0, 1], 100), np.tile(np.repeat([0, 1], 50), 2)
    right = np.concatenate([np.arange(50) < n for n in (45, 30, 40, 39)]).astype(int)
    figures = figures_of(labels, group, outcome_of(right, metric="presence"), weights=np.ones(200), rules=RULES)
    np.testing.assert_allclose(figures.metric, [[0.9, 0.6], [0.8, 0.78]])
    assert (figures.bcr, figures.bir, figures.max_gap) == pytest.approx((0.5, 0.5, 0.3))


def test_cluster_without_a_group_has_no_gap():
    figures = figures_of_cells(
        np.array([50.0, 90.0]), np.array([[50.0, 0.0], [40.0, 50.0]]), np.array([[1.0, np.nan], [0.8, 0.8]]),
        rules=RULES,
    )  # fmt: skip
    assert (figures.bcr, figures.max_gap) == (0, 0)
    too_few_rows = figures_of_cells(np.array([5.0]), np.array([[2.0, 3.0]]), np.array([[1.0, 0.5]]), rules=RULES)
    assert np.isnan(too_few_rows.statistics).all()


# Merging


def test_small_clusters_are_merged_into_the_nearest():
    features = np.concatenate([np.full(60, 0.0), np.full(50, 10.0), np.full(6, 9.0), np.full(40, -5.0)])[:, None]
    labels, group = np.repeat([0, 1, 2, 3], [60, 50, 6, 40]), np.arange(156) % 2
    counted, rules = np.ones(156, dtype=bool), replace(RULES, fewest=1)
    merged = merge_small(features, labels, group, counted, weights=np.ones(156), rules=rules)
    assert merged.tolist() == [0] * 60 + [1] * 56 + [2] * 40  # 9 is merged into 10


def test_merging_keeps_the_minimal_number_of_clusters():
    features, labels = np.arange(12.0)[:, None], np.repeat(np.arange(6), 2)
    everyone = np.ones(12, dtype=bool)
    merged = merge_small(features, labels, np.arange(12) % 2, everyone, weights=np.ones(12), rules=RULES)
    assert len(set(merged)) == 5


# The search


@settings(max_examples=10)
@given(st.integers(0, 1000), st.sampled_from([("literal", 5.0), ("weighted", 1.0)]), st.booleans())
def test_clusters_are_invariant_to_row_order(seed, aim, rounded):
    features, group, present = blobs(seed)
    features = np.round(features) if rounded else features  # rounded: many rows are equal
    order = np.random.default_rng(seed).permutation(len(group))
    options = {"metric": "presence", "objective": aim[0], "strength": aim[1], "permutations": 5, **QUICK}
    once = local_bias(features, group, prediction=present, **options)
    again = local_bias(features[order], group[order], prediction=present[order], **options)
    assert (again.labels == once.labels[order]).all()
    assert again.to_frame().equals(once.to_frame())
    assert again.clusters_frame().equals(once.clusters_frame())
    assert once.found.objective <= once.kmeans.objective


def test_same_seed_gives_identical_results():
    features, group, present = blobs(0)
    once, again, other = (
        local_bias(features, group, prediction=present, metric="presence", permutations=9, seed=seed, **QUICK)
        for seed in (1, 1, 2)
    )
    assert once.to_frame().equals(again.to_frame())
    assert not once.to_frame()["p"].equals(other.to_frame()["p"])


def test_zero_strength_gives_k_means():
    features, group, present = blobs(3)
    result = local_bias(features, group, prediction=present, metric="presence", strength=0, permutations=19, **QUICK)
    frame = result.to_frame().set_index("statistic")
    assert (result.found.labels == result.kmeans.labels).all()
    assert frame["p"][:5].equals(frame["kmeans_p"][:5])
    assert result.inertia_ratio == 1


def test_variance_scaling_makes_results_independent_of_units():
    features, group, present = blobs(3)
    options = {"metric": "presence", "strength": 2, "objective": "weighted", "permutations": 0, **QUICK}
    small, large = (
        local_bias(features * factor, group, prediction=present, scale="variance", **options) for factor in (1, 256)
    )
    assert small.to_frame().equals(large.to_frame())


def test_tables_have_group_names_and_overall_figures():
    features, group, present = blobs(1, overall=0.2)
    names = np.where(group, "masculine", "feminine")
    result = local_bias(features, names, prediction=present, metric="presence", permutations=0, **QUICK)
    assert result.groups == ("feminine", "masculine")
    assert result.overall == pytest.approx([present[group == g].mean() for g in (0, 1)])
    assert {"rows feminine", "presence masculine", "gap"} <= set(result.clusters_frame().columns)
    assert result.clusters_frame()["rows"].is_monotonic_decreasing
    assert result.to_frame()["p"].isna().all()


# Permutation tests


def test_planted_local_bias_is_significant():
    result = bias_of_blobs(0, planted=0.6, rows=320, permutations=199)
    assert result.found.p["max_gap"] < 0.01
    assert result.kmeans.p["max_gap"] < 0.01
    clusters = result.clusters_frame()
    worst = clusters.loc[clusters["gap"].idxmin()]
    assert worst["p"] < 0.01
    assert worst["gap"] < -0.4


def rarely_significant(calls):
    """At 5 %, more than 5 of 40 tests are significant with a probability of 1.4 % per statistic."""
    return (np.sum(calls, axis=0) <= len(calls) / 8).all()


@pytest.mark.parametrize("kind", [{}, {"overall": 0.3}, {"difficulty": True}], ids=["none", "overall", "difficulty"])
def test_null_data_are_rarely_significant(kind):
    """Neither an equal gap in all clusters nor clusters of different difficulty is local bias."""
    found = [bias_of_blobs(seed, permutations=39, strength=0, **kind) for seed in range(40)]
    assert rarely_significant([[part.found.p[name] <= 0.05 for name in STATISTICS] for part in found])


def test_searched_clusters_of_null_data_are_rarely_significant():
    found = [bias_of_blobs(seed, permutations=19, strength=1, objective="weighted", rows=120) for seed in range(16)]
    assert rarely_significant([[part.found.p[name] <= 0.05 for name in STATISTICS] for part in found])


def test_p_is_the_larger_of_both_null_hypotheses():
    overall, difficulty = (
        bias_of_blobs(2, permutations=99, overall=0.5),
        bias_of_blobs(2, permutations=99, difficulty=True),
    )
    assert overall.found.p_within_cluster["mean_gap"] == 0.01  # the group matters everywhere
    assert overall.found.p_within_group["mean_gap"] > 0.05
    for part in (overall, difficulty):
        both = [part.found.p_within_group, part.found.p_within_cluster]
        assert part.found.p == {name: max(p[name] for p in both) for name in STATISTICS}


def test_fixed_null_after_a_search_is_noted_as_optimistic():
    features, group, present = blobs(5)
    options = {"metric": "presence", "objective": "weighted", "strength": 20, "permutations": 19, **QUICK}
    fixed = local_bias(features, group, prediction=present, null="fixed", **options)
    again = local_bias(features, group, prediction=present, **options)
    assert "too small" in fixed.notes[0]
    assert fixed.found.p["mean_gap"] < again.found.p["mean_gap"]
    assert len(again.notes) == 1
    assert "the tests of bcr and bir have almost no power" in again.notes[0]


def test_auc_can_be_searched_and_tested():
    features, group, truth = blobs(6)
    score = np.random.default_rng(0).random(len(truth)) + 0.5 * truth
    options = {"metric": "auc", "permutations": 3, "null": "fixed", **QUICK}
    result = local_bias(features, group, prediction=score, truth=truth, **options)
    assert result.metric == "auc"
    assert result.found.objective <= result.kmeans.objective


def test_too_small_clusters_skip_the_permutation_test_with_a_note():
    features, group, present = blobs(1, rows=30)
    done = []
    options = {"metric": "presence", "clusters": 3, "permutations": 10_000, "advance": done.append}
    result = local_bias(features, group, prediction=present, **options)
    assert "no cluster has 20 rows of both groups" in result.notes[0]
    assert "no permutation test was made" in result.notes[0]
    assert np.isnan(result.found.p["max_gap"])
    assert (result.permutations, sum(done), len(done)) == (0, 20_000, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups": [0, 1, 2, 0]}, "groups must hold two groups, but holds 3: 0, 1, 2"),
        ({"groups": [0, 0, 0, 0]}, "groups must hold two groups, but holds 1"),
        ({"groups": [0, 1]}, "groups has 2 rows, but features has 4"),
        ({"features": [[1.0], [np.nan], [2.0], [3.0]]}, "features"),
        ({"clusters": 5}, "clusters = 5 needs as many distinct rows of features, but there are 4"),
        ({"clusters": 1}, "clusters must be a whole number of 2 or more"),
        ({"strength": -1.0}, "strength must be 0 or more"),
        ({"objective": "mean"}, "objective must be one of literal, weighted"),
        ({"null": "both"}, "null must be one of rerun, fixed"),
        ({"scale": "unit"}, "scale must be 'none' or 'variance'"),
        ({"permutations": -1}, "permutations must be a whole number of 0 or more"),
    ],
)
def test_invalid_arguments_raise(changes, message):
    arguments = {"features": [[0.0], [1.0], [2.0], [3.0]], "groups": [0, 1, 0, 1], "prediction": [0, 1, 1, 0]}
    arguments |= {"clusters": 2, "metric": "presence"} | changes
    with pytest.raises(ValueError, match=message):
        local_bias(**arguments)


# Groups that are separable by features


def test_centring_by_group_makes_separable_groups_comparable():
    features, group, present = blobs(2)
    apart = features + 50 * group[:, None]
    options = {"prediction": present, "metric": "presence", "permutations": 0, **QUICK}
    assert not local_bias(apart, group, **options).found.figures.reported.any()
    centred = centred_by_group(apart, group)
    np.testing.assert_allclose(centred, centred_by_group(features, group), atol=1e-12)
    assert local_bias(centred, group, **options).found.figures.reported.sum() >= 3


# Explanations of clusters


def test_exemplars_are_nearest_to_the_cluster_centre():
    features = np.array([[0.0], [1.0], [2.0], [3.0], [14.0], [50.0], [52.0]])
    frame = exemplars(features, [0, 0, 0, 0, 0, 1, 1], ["f", "m", "m", "f", "f", "f", "m"], count=2)
    rows = {key: part["row"].tolist() for key, part in frame.groupby(["cluster", "group"])}
    assert rows == {(0, "f"): [3, 0], (0, "m"): [2, 1], (1, "f"): [5], (1, "m"): [6]}
    assert frame["distance"][0] == 1.0  # the centre is 4


def test_topic_words_distinguish_clusters():
    texts = ["The cat sat", "a cat ran", "cat and dog", "dog barks", "dog sat", "dogs and dog"] * 2
    frame = topic_words(texts, [0, 0, 0, 1, 1, 1] * 2, min_texts=2)
    first = frame[frame["rank"] == 1].set_index("cluster")
    assert first["word"].to_dict() == {0: "cat", 1: "dog"}
    assert (first.at[0, "texts"], first.at[0, "share_inside"], first.at[0, "share_outside"]) == (6, 1, 0)
    assert first.at[0, "chi2"] == pytest.approx(12)
    assert "the" not in set(frame["word"])


def test_topic_words_of_texts_without_words_are_empty():
    assert topic_words(["1 2", "…"], [0, 1]).empty
    with pytest.raises(ValueError, match="texts must hold text, but row 1 holds None"):
        topic_words(["one", None], [0, 1])


def test_gap_statistics_come_first_in_the_table():
    features, group, present = blobs(5)
    frame = local_bias(features, group, prediction=present, metric="presence", permutations=0, **QUICK).to_frame()
    assert frame["statistic"].tolist()[:3] == ["max_gap", "mean_gap", "mean_biased_gap"]


def test_strength_is_selected_by_the_biased_cluster_ratio():
    features, group, present = blobs(5)
    options = {"metric": "presence", "permutations": 9, "scale": "variance", **QUICK}
    results = [local_bias(features, group, prediction=present, strength=strength, **options) for strength in STRENGTHS]
    near = {
        result.strength: (result.found.figures.bcr, result.found.figures.mean_biased_gap)
        for result in results
        if result.inertia_ratio <= 1.05
    }
    chosen = local_bias(features, group, prediction=present, strength=STRENGTHS, **options)
    assert chosen.strength == max(near, key=near.get)
    # The strength is selected anew for every permutation, so the selection does not lower p.
    assert chosen.found.p["max_gap"] >= 0.1


def test_incomparable_labels_raise():
    features, group = np.arange(8.0)[:, None], [0, 1] * 4
    words = ["yes", "no"] * 4
    for truth, guess, message in (
        (words, [1, 0] * 4, "prediction holds numbers, but truth holds text"),
        (words, ["1", "0"] * 4, "no label occurs in both truth and prediction"),
        (np.array([0, 1, np.nan, 1] * 2, dtype=object), [0, 1] * 4, "truth has missing values"),
    ):
        with pytest.raises(ValueError, match=message):
            local_bias(features, group, prediction=guess, truth=truth, clusters=2)
