"""Comparison of attacks on labels and on predictions: options, repeats, intervals over examples, notes.

``dpa`` and ``leakage`` are such comparisons; a single attack is in ``measurement``.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from pipeline.statistics.arrays import Categories, Codes, Floats, check_count, check_level, cluster_codes, row_numbers
from pipeline.statistics.inference import RESAMPLES, Ratio, Units, interval, t_critical
from pipeline.statistics.predictability.attackers import Attacker
from pipeline.statistics.predictability.label_noise import changed, expected_rows, labels_to_change
from pipeline.statistics.predictability.measurement import (
    AUTO,
    LABELS,
    NO_WEIGHTS,
    AttackResult,
    Method,
    gather_notes,
    measure,
)
from pipeline.statistics.predictability.tie_bounds import Guessing, accuracy_bracket, ends
from pipeline.statistics.repeats import repeats_table

Flips = Literal["expected", "drawn"]
ONE_COLUMN = "flips='expected' takes one column, but {name} has {columns}: use flips='drawn'"
SAME_ROWS = "flips='expected' needs all rows once: use flips='drawn' with held-out rows or balance='redraw'"
BAD_FLIPS = "flips must be 'expected' or 'drawn', not {flips!r}"
NO_INTERVAL = (
    "no interval over examples: there is one only for the majority rule without random draws and for the accuracy of "
    "cross-fitted attackers"
)
F1_INTERVAL = "the F1 jumps where guesses are tied, and its interval is then too narrow: use that of the accuracy"
EXAMPLES = 3  # purpose of random numbers, next to those in ``measurement``


@dataclass(frozen=True, eq=False)
class Plan:
    """The options that ``leakage`` and ``dpa`` share.

    Attributes:
        attacker: "auto", "majority", "logistic", "network", "wang", or an ``Attacker``. "auto" is the majority rule if
            there are few distinct rows, else logistic regression.
        quality: "accuracy", "f1", "inverse_mse", "inverse_bce".
        equalise, grid: how many errors are added to the labels, see ``labels_to_change``.
        flips: whether label errors enter as "expected" counts or are "drawn" at random. Default: "expected" where
            possible (one column, an attacker that takes weights, all rows).
        repeats: number of draws of label errors, rows and attackers; 1 if nothing is random.
        held_out: share of rows held out for testing; 0 tests on the training rows. Default: 0 if there are few distinct
            rows, else attackers are cross-fitted and a note says so.
        balance: "none", "redraw" (as many rows of every group as of the smallest), or "weights" (groups of equal
            weight).
        folded: report 0.5 + |accuracy - 0.5|.
        resamples: of the rows, for ``intervals``; 0 for none.
        level: of the intervals, 0-1.
        clusters: the cluster of each row (e.g. the person); clusters are then resampled.
        seed: of all random numbers.
    """

    attacker: str | Attacker = AUTO
    quality: str = "accuracy"
    equalise: str = "accuracy"
    grid: Sequence[float] | None = None
    flips: str | None = None
    repeats: int = 5
    held_out: float | None = None
    balance: str = "none"
    folded: bool = False
    resamples: int = RESAMPLES
    level: float = 0.95
    clusters: Sequence[Hashable] | None = None
    seed: int = 0

    def method(self, *features: Floats) -> tuple[Method, tuple[str, ...]]:
        """The method for rows with these features, and notes on the choice."""
        names = ("attacker", "quality", "held_out", "balance", "folded", "seed")
        patterns = max(int(row_numbers(table).max()) + 1 for table in features)
        return Method.of(**{name: getattr(self, name) for name in names}, patterns=patterns, rows=len(features[0]))


@dataclass(frozen=True, eq=False)
class Attack:
    """One variable predicted from another."""

    name: str  # of the predictability in results
    inputs: Categories | Floats  # n rows of labels, or (n, F) scores
    target: Categories  # n rows
    noisy: str = ""  # the variable to which label errors are added: "inputs", "target", or "" for neither

    @property
    def features(self) -> Floats:
        """``(n, F)`` features for the attacker."""
        return self.inputs.features() if isinstance(self.inputs, Categories) else self.inputs

    @property
    def labels(self) -> Categories:
        """The inputs, which must be labels."""
        if not isinstance(self.inputs, Categories):
            raise TypeError("the inputs must be labels, not scores")
        return self.inputs


@dataclass(frozen=True, eq=False)
class Attacked:
    """Predictability of labels and of predictions."""

    repeats: pd.DataFrame  # a row per repeat: repeat, then a column per quantity
    # a row per quantity, with low and high: the interval over examples; NaN if there is none, which a note explains
    intervals: pd.DataFrame
    changed: tuple[int, ...]  # number of labels of each column that were changed to equalise
    # "expected": from expected counts; "drawn": mean over random changes, which is larger near a tie since
    # E[max] > max(E)
    flips: Flips
    attacker: str
    quality: str
    level: float
    units: int  # number of examples or clusters
    notes: tuple[str, ...]  # on how to read the results

    def mean(self, quantity: str) -> float:
        """Mean over repeats; NaN if it is NaN in a repeat."""
        return float(self.repeats[quantity].mean(skipna=False))

    @property
    def data(self) -> float:
        """Mean predictability with the labels, after label errors are added."""
        return self.mean("data")

    @property
    def model(self) -> float:
        """Mean predictability with the predictions."""
        return self.mean("model")

    def to_frame(self) -> pd.DataFrame:
        """A row per quantity: the columns of ``repeats_table``, and the interval over examples."""
        table = repeats_table(self.repeats.drop(columns="repeat"), level=self.level)
        over = self.intervals.loc[table["quantity"]]
        table = table.assign(examples_low=over["low"].to_numpy(), examples_high=over["high"].to_numpy())
        return table.assign(attacker=self.attacker, quality=self.quality, flips=self.flips)


@dataclass(frozen=True, eq=False)
class AttackComparison:
    """Attacks, among them "model" and "data", and a quantity that compares these two."""

    plan: Plan
    method: Method  # the plan's, for these rows
    attacks: tuple[Attack, ...]
    # name, of: the quantity as a function of (model, data), increasing in "model"
    name: str
    of: Callable[[Any, Any], Any]
    # truth, predicted: labels and predictions, which determine the number of label errors to add
    truth: Categories
    predicted: Categories
    groups: Categories  # groups to balance
    noisy: str  # name of the labels that are changed, for errors

    @cached_property
    def units(self) -> Codes:
        """``(n,)`` number of each row or of its cluster."""
        rows = len(self.truth)
        return np.arange(rows) if self.plan.clusters is None else cluster_codes(self.plan.clusters, rows=rows)

    @cached_property
    def counts(self) -> Codes:
        """``(C,)`` number of labels of each column to change."""
        return labels_to_change(self.truth, self.predicted, rule=self.plan.equalise, grid=self.plan.grid)

    @cached_property
    def flips(self) -> Flips:
        """The plan's choice, or by default "expected" where possible; ValueError if it is not possible."""
        wanted, attacker = self.plan.flips, self.method.attacker
        if wanted not in (None, "expected", "drawn"):
            raise ValueError(BAD_FLIPS.format(flips=wanted))
        if not attacker.weighted:
            problem = NO_WEIGHTS.format(name=attacker.name)
        elif not self.method.in_sample:
            problem = SAME_ROWS
        elif len(self.counts) != 1 and self.counts.any():
            problem = ONE_COLUMN.format(name=self.noisy, columns=len(self.counts))
        else:
            problem = ""
        if problem and wanted == "expected":
            raise ValueError(problem)
        expected = not problem and wanted != "drawn" and (wanted == "expected" or attacker.exact)
        return "expected" if expected else "drawn"

    def run(self, notes: Sequence[str] = ()) -> dict[str, Any]:
        """Compute the fields of an ``Attacked``; its notes start with ``notes``.

        Raises:
            ValueError: an option out of range, or incompatible options.
        """
        plan, method = self.plan, self.method
        check_level(plan.level)
        check_count(plan.resamples, "resamples")
        check_count(plan.repeats, "repeats", least=1)
        drawn = not (method.exact and (self.flips == "expected" or not self.counts.any()))
        table, parts = [], []
        for repeat in range(plan.repeats if drawn else 1):
            found = {attack.name: self._measured(attack, repeat) for attack in self.attacks}
            parts.append(found)
            values = {quantity: part.value for quantity, part in found.items()}
            table.append({"repeat": repeat, **values, self.name: self.of(values["model"], values["data"])})
        repeats = pd.DataFrame(table)
        remarks = [*notes, *gather_notes([part for found in parts for part in found.values()])]
        by_row = method.folds and method.quality.name == "accuracy" and method.balance == "none"
        known: dict[str, tuple[float, float]] = {}
        if plan.resamples and not drawn and method.attacker.name == "majority":
            known = self._by_resampling()
            remarks += [F1_INTERVAL] if method.quality.name == "f1" else []
        elif plan.resamples and by_row and not method.folded:
            known = self._by_row(repeats, parts)
        elif plan.resamples:
            remarks.append(NO_INTERVAL)
        rows = [known.get(quantity, (np.nan, np.nan)) for quantity in repeats.columns[1:]]
        return {
            "repeats": repeats,
            "intervals": pd.DataFrame(rows, index=repeats.columns[1:], columns=["low", "high"]),
            "changed": tuple(int(count) for count in self.counts),
            "flips": self.flips,
            "attacker": method.attacker.name,
            "quality": method.quality.name,
            "level": plan.level,
            "units": int(self.units.max()) + 1,
            "notes": tuple(remarks),
        }

    def _measured(self, attack: Attack, repeat: int) -> AttackResult:
        """Measure one attack in one repeat."""
        features, target, weights = attack.features, attack.target, None
        groups, units = self.groups.joint(), self.units
        if attack.noisy and self.counts.any():
            on_target = attack.noisy == "target"
            labels = target if on_target else attack.labels
            rows = np.arange(len(target))
            if self.flips == "expected":
                rows, wrong, weights = expected_rows(labels, self.counts)
            else:
                wrong = changed(labels, self.counts, generator=self.method.random(LABELS, repeat))
            features = features[rows] if on_target else wrong.features()
            target = wrong if on_target else target.take(rows)
            groups, units = groups[rows], units[rows]
        return measure(self.method, features, target, groups=groups, weights=weights, units=units, repeat=repeat)

    def _by_resampling(self) -> dict[str, tuple[float, float]]:
        """Intervals of the majority rule, from counts of the distinct examples in every resample."""
        plan, size = self.plan, int(self.units.max()) + 1
        inputs = [attack.inputs.codes for attack in self.attacks if isinstance(attack.inputs, Categories)]
        labels = [self.truth.codes, self.predicted.codes, self.groups.codes]
        cells = row_numbers(np.hstack([*labels, *inputs, *(attack.target.codes for attack in self.attacks)]))
        first = np.unique(cells, return_index=True)[1]
        counts = self._counts(cells)
        totals = counts.sum(axis=1, keepdims=True)
        right, guess = self.truth.take(first), self.predicted.take(first)
        if plan.equalise == "macro_f1":
            changes = [labels_to_change(right, guess, rule="macro_f1", grid=plan.grid, weights=row) for row in counts]
            wrong = np.array(changes) / totals
        else:
            wrong = counts @ (right.codes != guess.codes) / totals * (plan.equalise != "none")
        weights = counts.astype(np.float64)
        if plan.balance == "weights":
            group = self.groups.joint()[first]
            of_group = (weights @ (group[:, None] == np.arange(group.max() + 1)))[:, group]
            weights = np.divide(weights, of_group, out=np.zeros_like(weights), where=of_group > 0)
        weights /= weights.sum(axis=1, keepdims=True)
        brackets: dict[str, tuple[Floats, Floats]] = {}
        for attack in self.attacks:
            tables = _guessing(attack, first).tables(weights, wrong)
            observed, drawn = [table[:1] for table in tables], [table[1:] for table in tables]
            if plan.quality == "accuracy":
                brackets[attack.name] = accuracy_bracket(observed, drawn, units=size, level=plan.level)
            else:
                values = np.array([self._quality([table[row] for table in drawn]) for row in range(len(drawn[0]))])
                brackets[attack.name] = values, values
        model, data = brackets["model"], brackets["data"]
        brackets[self.name] = self.of(model[0], data[1]), self.of(model[1], data[0])
        if plan.quality == "accuracy":
            return {name: ends(low, high, level=plan.level) for name, (low, high) in brackets.items()}
        samples = np.array([np.where(np.isfinite(low), low, np.nan) for low, _ in brackets.values()])
        lows, highs = interval(samples, plan.level, units=size)
        return dict(zip(brackets, zip(lows.tolist(), highs.tolist(), strict=True), strict=True))

    def _counts(self, cells: Codes) -> Floats:
        """Counts ``(1 + R, m)`` of each distinct example in the sample and in every resample of the units."""
        random = np.random.default_rng([self.plan.seed, EXAMPLES])
        observed = np.bincount(cells).astype(np.float64)
        if self.plan.clusters is None:
            drawn = random.multinomial(len(cells), observed / len(cells), size=self.plan.resamples)
            return np.vstack([observed, drawn])
        size = int(self.units.max()) + 1
        times = (np.bincount(random.integers(size, size=size), minlength=size) for _ in range(self.plan.resamples))
        rows = (np.bincount(cells, weights=each[self.units], minlength=len(observed)) for each in times)
        return np.vstack([observed, *rows])

    def _quality(self, tables: Sequence[Floats]) -> float:
        """Quality of the majority rule, from joint shares ``(X, K)`` of each column."""
        measures = []
        for table in tables:
            size, total = table.shape[1], table.sum(axis=1, keepdims=True)
            chances = np.divide(table, total, out=np.full(table.shape, 1 / size), where=total > 0)
            truth = np.tile(np.arange(size), len(table))
            measures.append(self.method.quality.measure(truth, np.repeat(chances, size, axis=0), table.ravel()))
        return self.method.quality.of(measures)

    def _by_row(
        self, repeats: pd.DataFrame, parts: Sequence[dict[str, AttackResult]]
    ) -> dict[str, tuple[float, float]]:
        """Intervals of cross-fitted attackers: t over rows, plus the variance between repeats."""
        clusters = Units.of(len(self.units), clusters=None if self.plan.clusters is None else self.units.tolist())
        rights = {name: np.mean([np.asarray(part[name].right) for part in parts], axis=0) for name in parts[0]}
        ratios = {name: Ratio.of(clusters.sums(right[None]), clusters.sizes[None]) for name, right in rights.items()}
        errors = {name: ratio.errors[0] for name, ratio in ratios.items()}
        values = {name: float(ratio.value[0]) for name, ratio in ratios.items()}
        model, data, step = values["model"], values["data"], 1e-6
        by_model = (self.of(model + step, data) - self.of(model - step, data)) / (2 * step)
        by_data = (self.of(model, data + step) - self.of(model, data - step)) / (2 * step)
        errors[self.name] = by_model * errors["model"] + by_data * errors["data"]
        values[self.name] = self.of(model, data)
        found = {}
        for name, value in values.items():
            drawn = repeats[name].to_numpy(np.float64)
            repeated = drawn.var(ddof=1) / len(drawn) if len(drawn) > 1 else 0.0
            reach = t_critical(clusters, self.plan.level) * float(np.sqrt((errors[name] ** 2).sum() + repeated))
            found[name] = (value - reach, value + reach)
        return found


def _guessing(attack: Attack, first: Codes) -> Guessing:
    labels, target = attack.labels, attack.target
    alone = len(labels.sizes) == 1
    joint = labels.codes[:, 0] if alone else labels.joint()
    size = labels.sizes[0] if alone else int(joint.max()) + 1
    return Guessing(joint[first], target.codes[first], target.sizes, attack.noisy, size)
