"""Statistics of an audit: pure functions over arrays and frames, without files or networks.

The module of a public name is imported when the name is first used.
"""
# ruff: noqa: F401
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from pipeline.config.lazy import lazy_names

if TYPE_CHECKING:
    from pipeline.statistics.amplification.average_precision import average_precision
    from pipeline.statistics.amplification.base_rates import amplification_of_rates
    from pipeline.statistics.amplification.counterfactual import COUNTERFACTUAL_COLUMNS, counterfactual_amplification
    from pipeline.statistics.amplification.directional import Amplification, attribute_to_task, task_to_attribute
    from pipeline.statistics.amplification.group_rates import group_rates
    from pipeline.statistics.amplification.mals import Mals, mals, mals_of_counts
    from pipeline.statistics.amplification.multi_attribute import (
        MultiAmplification,
        multi_amplification,
        multi_mals,
        task_sets,
    )
    from pipeline.statistics.amplification.signs import CODE, PAPER, SignRule, signs, signs_of_shares
    from pipeline.statistics.amplification.thresholds import (
        at_thresholds,
        calibrated_as_in_code,
        calibrated_as_in_paper,
        threshold_free,
    )
    from pipeline.statistics.comparison import COMPARISON_COLUMNS, compare, comparison_frame
    from pipeline.statistics.corrected_shares import corrected_interval, recall, true_shares
    from pipeline.statistics.inference import share_interval
    from pipeline.statistics.local.explanations import centred_by_group, cluster_topics, exemplars, topic_words
    from pipeline.statistics.local.figures import ClusterRules
    from pipeline.statistics.local.logan import LocalBias, local_bias
    from pipeline.statistics.multiplicity import benjamini_hochberg, within_families
    from pipeline.statistics.photo_slopes import stacked
    from pipeline.statistics.placebos import with_placebos
    from pipeline.statistics.power import POWER_COLUMNS, power_table
    from pipeline.statistics.predictability.attackers import ATTACKERS, Attacker
    from pipeline.statistics.predictability.bias_grid import COARSE, bias_grid
    from pipeline.statistics.predictability.continuous import dpa_of_numbers
    from pipeline.statistics.predictability.dpa import Dpa, dpa
    from pipeline.statistics.predictability.leakage import Leakage, leakage
    from pipeline.statistics.predictability.qualities import QUALITIES
    from pipeline.statistics.repeats import Repeats, across_runs
    from pipeline.statistics.representation import REPRESENTATION_COLUMNS, ShareMethod, represent, shares_by_group
    from pipeline.statistics.slopes import (
        CURVE_COLUMNS,
        SLOPE_COLUMNS,
        curve_frame,
        findings,
        slope_frame,
        slope_table,
        slopes_of,
    )
    from pipeline.statistics.subgroups import DIFFERENCE_COLUMNS, SUBGROUP_COLUMNS, subgroup_frames, subgroup_slopes
    from pipeline.statistics.sweep_tables import sweeps_of
    from pipeline.statistics.sweeps import Sweeps

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
