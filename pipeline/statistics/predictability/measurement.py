"""Predictability: how well an attacker predicts one variable from another, with its training and test rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pipeline.statistics.arrays import Categories, Codes, Floats, check_choice
from pipeline.statistics.predictability.attackers import Attacker, attacker_of
from pipeline.statistics.predictability.qualities import Quality, quality_of

Balance = Literal["none", "redraw", "weights"]
BALANCES = ("none", "redraw", "weights")
AUTO = "auto"
FOLDS = 5
# With more distinct rows and fewer rows of each, an attacker that is tested on its training rows memorises many.
FEW_PATTERNS, ROWS_PER_PATTERN = 16, 30

NO_WEIGHTS = "the attacker {name!r} takes no weights: choose balance='redraw' and flips='drawn'"
FOLDED = "folded is for the accuracy on two categories: 0.5 + |accuracy - 0.5|"
FEW_ROWS = "held_out = {held_out:g} of {rows} rows leaves no rows to train on or to test on"
BY_HEART = (
    "{patterns} distinct rows of labels among {rows}: the attacker 'majority' would memorise them. Leave the attacker "
    "out or choose 'logistic' (both are cross-fitted), or use held_out=0 to measure it nevertheless"
)
CROSS_FITTED = (
    "{patterns} distinct rows of labels among {rows}: attackers are cross-fitted in {folds} folds, each tested on "
    "held-out rows"
)
OVERFITTED = (
    "{patterns} distinct rows of labels among {rows}, and attackers are tested on their training rows: what they "
    "memorise counts as predictable"
)
# Purposes of random numbers: the same seed gives the same rows and attackers for labels and predictions.
ROWS, LABELS, ATTACK = range(3)


@dataclass(frozen=True)
class Method:
    """How predictability is measured."""

    attacker: Attacker
    quality: Quality
    # share 0-1 of the rows held out for testing, drawn in each repeat; 0: the training rows are the test rows (as in
    # Tokas et al.)
    held_out: float = 0.0
    folds: int = 0  # if positive, number of folds of a cross-validation
    # "none"; "redraw": as many rows of every group as of the smallest, drawn in each repeat, for training and testing
    # (the code of Wang et al.); "weights": groups of equal weight, the expectation of redrawing
    balance: Balance = "none"
    folded: bool = False  # report 0.5 + |accuracy - 0.5| (the code of Wang et al.)
    seed: int = 0

    @classmethod
    def of(
        cls,
        *,
        attacker: str | Attacker = AUTO,
        quality: str = "accuracy",
        held_out: float | None = None,
        balance: str = "none",
        folded: bool = False,
        seed: int = 0,
        patterns: int = 1,
        rows: int = 1,
    ) -> "tuple[Method, tuple[str, ...]]":
        """Check options (see ``attacks.Plan``) for data with ``patterns`` distinct rows; also return notes.

        Raises:
            ValueError: an unknown name, incompatible options, or too many distinct rows for "majority".
        """
        many = patterns > FEW_PATTERNS and rows < ROWS_PER_PATTERN * patterns
        chosen = attacker_of(("logistic" if many else "majority") if attacker == AUTO else attacker)
        if held_out is not None and not 0 <= held_out < 1:
            raise ValueError(f"held_out must lie in 0-1, below 1, not {held_out}")
        check_choice(balance, "balance", BALANCES)
        if balance == "weights" and not chosen.weighted:
            raise ValueError(NO_WEIGHTS.format(name=chosen.name))
        if folded and quality != "accuracy":
            raise ValueError(FOLDED)
        cross_fitted = many and held_out is None
        if cross_fitted and chosen.name == "majority":
            raise ValueError(BY_HEART.format(patterns=patterns, rows=rows))
        note = CROSS_FITTED if cross_fitted else OVERFITTED if many and held_out == 0 else ""
        notes = (note.format(patterns=patterns, rows=rows, folds=FOLDS),) if note else ()
        how: dict[str, Any] = {"balance": balance, "folded": folded, "seed": seed}
        return cls(chosen, quality_of(quality), held_out or 0.0, FOLDS if cross_fitted else 0, **how), notes

    @property
    def in_sample(self) -> bool:
        """Whether attackers are trained and tested on all rows."""
        return self.held_out == 0 and self.folds == 0 and self.balance != "redraw"

    @property
    def exact(self) -> bool:
        """Whether nothing is random, so that one repeat is enough."""
        return self.attacker.exact and self.in_sample

    def random(self, purpose: int, repeat: int, *more: int) -> np.random.Generator:
        """Random generator for a purpose and repeat."""
        return np.random.default_rng([self.seed, purpose, repeat, *more])


@dataclass(frozen=True, eq=False)
class AttackResult:
    """Result of an attack."""

    value: float  # the quality, larger = more predictable
    notes: tuple[str, ...] = ()  # on the training
    right: Floats | None = None  # (n,) share of each row's columns predicted correctly; None unless cross-fitted


def measure(
    method: Method,
    features: Floats,
    target: Categories,
    *,
    groups: Codes,
    weights: Floats | None = None,
    units: Codes | None = None,
    repeat: int = 0,
) -> AttackResult:
    """Measure how well the target is predicted from the features, in one repeat.

    With the majority rule, accuracy and all rows the value is exactly ``sum_x max_y n(x, y) / n``.

    Args:
        method: attacker, quality and choice of rows.
        features: ``(n, F)``.
        target: ``n`` rows; several columns are predicted separately and the quality is averaged.
        groups: ``(n,)`` groups to balance.
        weights: ``(n,)``, default 1.
        units: ``(n,)`` clusters that are in the same fold; default: each row is its own.
        repeat: number of the repeat, which determines the random numbers.

    Raises:
        ValueError: rows or categories that the method does not allow.
    """
    if method.folded and max(target.sizes) > 2:
        raise ValueError(FOLDED)
    weighed = np.ones(len(target)) if weights is None else weights
    splits = list(_splits(method, groups, np.arange(len(target)) if units is None else units, repeat))
    measures, notes, right = [], [], np.zeros(len(target))
    for column, size in enumerate(target.sizes):
        codes, chances, test_weights = target.codes[:, column], [], []
        for fold, (learn, ask) in enumerate(splits):
            seeds = (column,) if len(splits) == 1 else (column, fold)
            guess = method.attacker.attack(
                features[learn],
                codes[learn],
                _balanced(weighed[learn], groups[learn], method.balance),
                features[ask],
                classes=size,
                seed=int(method.random(ATTACK, repeat, *seeds).integers(2**31)),
            )
            chances.append(guess.chances)
            test_weights.append(_balanced(weighed[ask], groups[ask], method.balance))
            notes += [guess.note] if guess.note else []
            right[ask] += (guess.chances.argmax(axis=1) == codes[ask]) / len(target.sizes)
        tested = np.concatenate([ask for _, ask in splits])
        measures.append(method.quality.measure(codes[tested], np.concatenate(chances), np.concatenate(test_weights)))
    value = method.quality.of([0.5 + abs(part - 0.5) for part in measures] if method.folded else measures)
    return AttackResult(value, tuple(dict.fromkeys(notes)), right if method.folds else None)


def gather_notes(parts: Sequence[AttackResult]) -> tuple[str, ...]:
    """Merge the notes of attacks, each with the number of attacks that it is about."""
    counts = {note: sum(note in part.notes for part in parts) for part in parts for note in part.notes}
    return tuple(f"{note} ({count} of {len(parts)} attacks)" for note, count in counts.items())


def _splits(method: Method, groups: Codes, units: Codes, repeat: int) -> Iterator[tuple[Codes, Codes]]:
    """Training and test rows of each fold."""
    everything = np.arange(len(groups))
    if method.in_sample:
        yield everything, everything
        return
    random = method.random(ROWS, repeat)
    pairs = [(everything, everything)]
    if method.folds:
        fold = random.permutation(int(units.max()) + 1)[units] % method.folds
        pairs = [(everything[fold != number], everything[fold == number]) for number in range(method.folds)]
    elif method.held_out:
        tested = round(method.held_out * len(groups))
        shuffled = random.permutation(len(groups))
        pairs = [(np.sort(shuffled[tested:]), np.sort(shuffled[:tested]))]
    for learn, ask in pairs:
        if not len(learn) or not len(ask):
            raise ValueError(FEW_ROWS.format(held_out=method.held_out or 1 / FOLDS, rows=len(groups)))
        if method.balance != "redraw":
            yield learn, ask
            continue
        redrawn = _redrawn(learn, groups, random)
        yield redrawn, redrawn if learn is ask else _redrawn(ask, groups, random)


def _redrawn(rows: Codes, groups: Codes, random: np.random.Generator) -> Codes:
    """Draw as many rows of every group as the smallest has."""
    parts = [rows[groups[rows] == group] for group in np.unique(groups)]
    fewest = min(len(part) for part in parts)
    if fewest == 0:
        raise ValueError("balance='redraw' needs rows of every group to train on and to test on")
    return np.sort(np.concatenate([random.choice(part, size=fewest, replace=False) for part in parts]))


def _balanced(weights: Floats, groups: Codes, balance: Balance) -> Floats:
    """Weights, scaled with ``balance="weights"`` so that every group has the same total."""
    if balance != "weights":
        return weights
    return weights / np.bincount(groups, weights=weights)[groups]
