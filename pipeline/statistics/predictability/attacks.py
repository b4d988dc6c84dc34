"""Labels and predictions attacked side by side: repeats, intervals over examples, notes.

What ``dpa`` and ``leakage`` share; one attack is in ``measurement``.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from pipeline.statistics.arrays import (
    Categories,
    Codes,
    Floats,
    check_count,
    check_level,
    cluster_codes,
    row_numbers,
)
from pipeline.statistics.inference import Ratio, Units, interval, t_critical
from pipeline.statistics.predictability.label_noise import changed, expected_rows, labels_to_change
from pipeline.statistics.predictability.measurement import (
    LABELS,
    NO_WEIGHTS,
    Method,
    Predictability,
    gather_notes,
    measure,
)
from pipeline.statistics.predictability.tie_bounds import Bracket, Guessing, accuracy_bracket, ends
from pipeline.statistics.repeats import repeats_table

Flips = Literal["expected", "drawn"]
ONE_COLUMN = "flips='expected' is for one column, but {name} has {columns}: choose flips='drawn'"
SAME_ROWS = (
    "flips='expected' is for all rows, each as it is: choose flips='drawn' with held-out rows or balance='redraw'"
)
BAD_FLIPS = "flips must be 'expected' or 'drawn', not {flips!r}"
NO_INTERVAL = (
    "no interval over examples: it is for the majority's rule with nothing drawn, and for the accuracy of cross-fitted "
    "attackers"
)
F1_INTERVAL = "the F1 jumps where guesses are tied, and its interval is then too narrow: read the accuracy's"
EXAMPLES = 3  # what the random numbers are for, next to the purposes in ``measurement``


@dataclass(frozen=True, eq=False)
class Attack:
    """One thing guessed from another.

    Attributes:
        name: what results call how well it is guessed.
        inputs: ``n`` rows of labels, or ``(n, F)`` scores.
        target: ``n`` rows, what is guessed.
        noisy: which of the two is made as wrong as the predictions: "inputs", "target", or "" for neither.
    """

    name: str
    inputs: Categories | Floats
    target: Categories
    noisy: str = ""

    @property
    def features(self) -> Floats:
        """``(n, F)`` what the attacker is given."""
        return self.inputs.features() if isinstance(self.inputs, Categories) else self.inputs


@dataclass(frozen=True, eq=False)
class Attacked:
    """How predictable things are, side by side.

    Attributes:
        repeats: one row each: repeat, then a column for each quantity.
        intervals: a row for each quantity, ``low`` and ``high``: an interval over other examples of the same kind; NaN
            where there is none, which a note then explains.
        changed: how many labels of each column were changed to equalise.
        flips: "expected": from the counts to be expected; "drawn": the mean over random changes, which is larger near a
            tie, for E[max] > max(E).
        attacker, quality: names.
        units: examples, or clusters of them.
        notes: what one should know about the attacks.
    """

    repeats: pd.DataFrame
    intervals: pd.DataFrame
    changed: tuple[int, ...]
    flips: Flips
    attacker: str
    quality: str
    level: float
    units: int
    notes: tuple[str, ...]

    def mean(self, quantity: str) -> float:
        """The mean over repeats; NaN where a repeat has none."""
        return float(self.repeats[quantity].mean(skipna=False))

    def to_frame(self) -> pd.DataFrame:
        """A row for each quantity: see ``repeats_table``; and the interval over examples."""
        table = repeats_table(self.repeats.drop(columns="repeat"), level=self.level)
        over = self.intervals.loc[table["quantity"]]
        table = table.assign(examples_low=over["low"].to_numpy(), examples_high=over["high"].to_numpy())
        return table.assign(attacker=self.attacker, quality=self.quality, flips=self.flips)


@dataclass(frozen=True)
class Compared:
    """What the two predictabilities "model" and "data" come to: ``of`` (model, data), larger for a larger "model"."""

    name: str
    of: Callable[[Any, Any], Any]


@dataclass(frozen=True, eq=False)
class Plan:
    """How attacks are made and repeated; see ``leakage`` for the options."""

    method: Method
    equalise: str
    grid: Sequence[float] | None
    flips: str | None
    repeats: int
    resamples: int
    level: float
    clusters: Sequence[Hashable] | None

    def run(
        self,
        attacks: Sequence[Attack],
        compared: Compared,
        *,
        truth: Categories,
        predicted: Categories,
        groups: Categories,
        name: str,
        notes: Sequence[str] = (),
    ) -> Attacked:
        """All attacks, among them "model" and "data", and what these come to.

        Args:
            attacks: the attacks.
            compared: the quantity made of "model" and "data".
            truth, predicted: labels and predictions that say how many labels are to be made wrong.
            groups: what is balanced, if anything is.
            name: of the labels made wrong, for errors.
            notes: that come first.

        Raises:
            ValueError: an option out of range, or options that do not go together.
        """
        check_level(self.level)
        check_count(self.resamples, "resamples")
        check_count(self.repeats, "repeats", least=1)
        rows = len(truth)
        units = np.arange(rows) if self.clusters is None else cluster_codes(self.clusters, rows=rows)
        counts = labels_to_change(truth, predicted, rule=self.equalise, grid=self.grid)
        flips = self._flips(counts, name=name)
        drawn = not (self.method.exact and (flips == "expected" or not counts.any()))
        table, parts = [], []
        for repeat in range(self.repeats if drawn else 1):
            found = {
                attack.name: self._measured(attack, counts, flips, groups.joint(), units, repeat) for attack in attacks
            }
            parts.append(found)
            values = {quantity: part.value for quantity, part in found.items()}
            table.append({"repeat": repeat, **values, compared.name: compared.of(values["model"], values["data"])})
        repeats = pd.DataFrame(table)
        remarks = [*notes, *gather_notes([part for found in parts for part in found.values()])]
        intervals = pd.DataFrame(np.nan, index=repeats.columns[1:], columns=["low", "high"])
        by_row = self.method.folds and self.method.quality.name == "accuracy" and self.method.balance == "none"
        if self.resamples and not drawn and self.method.attacker.name == "majority":
            self._by_resampling(intervals, attacks, compared, truth, predicted, groups, units)
            remarks += [F1_INTERVAL] if self.method.quality.name == "f1" else []
        elif self.resamples and by_row and not self.method.folded:
            self._by_row(intervals, repeats, parts, compared, units)
        elif self.resamples:
            remarks.append(NO_INTERVAL)
        return Attacked(
            repeats=repeats,
            intervals=intervals,
            changed=tuple(int(count) for count in counts),
            flips=flips,
            attacker=self.method.attacker.name,
            quality=self.method.quality.name,
            level=self.level,
            units=int(units.max()) + 1,
            notes=tuple(remarks),
        )

    def _flips(self, counts: Codes, *, name: str) -> Flips:
        """Whether labels are changed on average or at random; by default the former if it can be."""
        if self.flips == "drawn":
            return "drawn"
        if self.flips not in (None, "expected"):
            raise ValueError(BAD_FLIPS.format(flips=self.flips))
        problem = None
        if not self.method.attacker.weighted:
            problem = NO_WEIGHTS.format(name=self.method.attacker.name)
        elif not self.method.in_sample:
            problem = SAME_ROWS
        elif len(counts) != 1 and counts.any():
            problem = ONE_COLUMN.format(name=name, columns=len(counts))
        elif self.flips is None and not self.method.attacker.exact:
            return "drawn"
        if problem and self.flips == "expected":
            raise ValueError(problem)
        return "drawn" if problem else "expected"

    def _measured(
        self, attack: Attack, counts: Codes, flips: Flips, groups: Codes, units: Codes, repeat: int
    ) -> Predictability:
        """One attack of one repeat."""
        features, target, rows, weights = attack.features, attack.target, None, None
        if attack.noisy and counts.any():
            labels = target if attack.noisy == "target" else attack.inputs
            if not isinstance(labels, Categories):
                raise TypeError("only labels can be made wrong")
            if flips == "expected":
                rows, wrong, weights = expected_rows(labels, counts)
            else:
                wrong = changed(labels, counts, generator=self.method.random(LABELS, repeat))
            everything = np.arange(len(target)) if rows is None else rows
            on_target = attack.noisy == "target"
            features = features[everything] if on_target else wrong.features()
            target = wrong if on_target else target.take(everything)
            groups, units = groups[everything], units[everything]
        return measure(self.method, features, target, groups=groups, weights=weights, units=units, repeat=repeat)

    def _by_resampling(
        self,
        intervals: pd.DataFrame,
        attacks: Sequence[Attack],
        compared: Compared,
        truth: Categories,
        predicted: Categories,
        groups: Categories,
        units: Codes,
    ) -> None:
        """Intervals of the majority's rule from counts of the different examples in every resample."""
        inputs = [attack.inputs.codes for attack in attacks if isinstance(attack.inputs, Categories)]
        joint = np.hstack(
            [truth.codes, predicted.codes, groups.codes, *inputs, *(attack.target.codes for attack in attacks)]
        )
        cells = row_numbers(joint)
        first = np.unique(cells, return_index=True)[1]
        counts = self._counts(cells, units)
        right, guess = truth.take(first), predicted.take(first)
        if self.equalise == "macro_f1":
            changes = [
                labels_to_change(right, guess, rule=self.equalise, grid=self.grid, weights=row) for row in counts
            ]
            wrong = np.array(changes) / counts.sum(axis=1, keepdims=True)
        else:
            wrong = (
                counts @ (right.codes != guess.codes) / counts.sum(axis=1, keepdims=True) * (self.equalise != "none")
            )
        weights = counts.astype(np.float64)
        if self.method.balance == "weights":
            group = groups.joint()[first]
            totals = weights @ (group[:, None] == np.arange(group.max() + 1))
            weights = np.divide(weights, totals[:, group], out=np.zeros_like(weights), where=totals[:, group] > 0)
        weights /= weights.sum(axis=1, keepdims=True)
        size = int(units.max()) + 1
        brackets = {}
        for attack in attacks:
            tables = _guessing(attack, first).tables(weights, wrong)
            seen, drawn = [table[:1] for table in tables], [table[1:] for table in tables]
            if self.method.quality.name == "accuracy":
                brackets[attack.name] = accuracy_bracket(seen, drawn, units=size, level=self.level)
            else:
                values = np.array([self._quality([table[row] for table in drawn]) for row in range(len(drawn[0]))])
                brackets[attack.name] = Bracket(values, values)
        model, data = brackets["model"], brackets["data"]
        brackets[compared.name] = Bracket(compared.of(model.low, data.high), compared.of(model.high, data.low))
        for name, bracket in brackets.items():
            if self.method.quality.name == "accuracy":
                intervals.loc[name] = ends(bracket.low, bracket.high, level=self.level)
            else:
                known = np.where(np.isfinite(bracket.low), bracket.low, np.nan)
                low, high = interval(known[None], self.level, units=size)
                intervals.loc[name] = float(low[0]), float(high[0])

    def _counts(self, cells: Codes, units: Codes) -> Floats:
        """``(1 + R, m)`` how often each different example is there: in all, and in every resample of the units."""
        random = np.random.default_rng([self.method.seed, EXAMPLES])
        here = np.bincount(cells).astype(np.float64)
        if self.clusters is None:
            drawn = random.multinomial(len(cells), here / len(cells), size=self.resamples).astype(np.float64)
            return np.vstack([here, drawn])
        size = int(units.max()) + 1
        often = (np.bincount(random.integers(size, size=size), minlength=size) for _ in range(self.resamples))
        return np.vstack([here, *(np.bincount(cells, weights=each[units], minlength=len(here)) for each in often)])

    def _quality(self, tables: Sequence[Floats]) -> float:
        """The quality of the majority's rule from ``(X, K)`` joint shares of each column."""
        measures = []
        for table in tables:
            total = table.sum(axis=1, keepdims=True)
            chances = np.divide(table, total, out=np.full(table.shape, 1 / table.shape[1]), where=total > 0)
            truth = np.tile(np.arange(table.shape[1]), len(table))
            measures.append(
                self.method.quality.measure(truth, np.repeat(chances, table.shape[1], axis=0), table.ravel())
            )
        return self.method.quality.of(measures)

    def _by_row(
        self,
        intervals: pd.DataFrame,
        repeats: pd.DataFrame,
        parts: Sequence[dict[str, Predictability]],
        compared: Compared,
        units: Codes,
    ) -> None:
        """Intervals of cross-fitted attackers: t over rows, guessed by attackers that have not learnt them.

        What differs from repeat to repeat (labels changed, folds) is added to the variance.
        """
        clusters = Units.of(len(units), clusters=None if self.clusters is None else units.tolist())
        rights = {name: np.mean([np.asarray(part[name].right) for part in parts], axis=0) for name in parts[0]}
        ratios = {name: Ratio.of(clusters.sums(right[None]), clusters.sizes[None]) for name, right in rights.items()}
        errors = {name: ratio.errors[0] for name, ratio in ratios.items()}
        values = {name: float(ratio.value[0]) for name, ratio in ratios.items()}
        model, data, step = values["model"], values["data"], 1e-6
        by_model = (compared.of(model + step, data) - compared.of(model - step, data)) / (2 * step)
        by_data = (compared.of(model, data + step) - compared.of(model, data - step)) / (2 * step)
        errors[compared.name] = by_model * errors["model"] + by_data * errors["data"]
        values[compared.name] = compared.of(model, data)
        for name, value in values.items():
            drawn = repeats[name].to_numpy(np.float64)
            repeated = drawn.var(ddof=1) / len(drawn) if len(drawn) > 1 else 0.0
            reach = t_critical(clusters, self.level) * float(np.sqrt((errors[name] ** 2).sum() + repeated))
            intervals.loc[name] = value - reach, value + reach


def _guessing(attack: Attack, first: Codes) -> Guessing:
    labels = attack.inputs
    if not isinstance(labels, Categories):
        raise TypeError("the majority's rule needs labels, not scores")
    alone = len(labels.sizes) == 1
    inputs = labels.codes[first, 0] if alone else labels.joint()[first]
    size = labels.sizes[0] if alone else int(labels.joint().max()) + 1
    return Guessing(inputs, attack.target.codes[first], attack.target.sizes, attack.noisy, size)
