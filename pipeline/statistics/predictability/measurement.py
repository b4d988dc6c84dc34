"""Predictability: how well an attacker guesses one variable from another, on which rows, and over how many repeats.

Who attacks is in ``attackers``; what is compared with what, in ``leakage`` (Wang et al.) and ``dpa`` (Tokas et al.).
"""

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
# In fewer rows of each different kind, an attacker that is tested on the rows it has learnt knows many by heart.
FEW_PATTERNS, ROWS_A_PATTERN = 16, 30

NO_WEIGHTS = "the attacker {name!r} takes no weights: choose balance='redraw' and flips='drawn'"
FOLDED = "folded is for the accuracy on two categories: 0.5 + |accuracy - 0.5|"
FEW_ROWS = "held_out = {held_out:g} of {rows} rows leaves nothing to learn from or to ask about"
BY_HEART = (
    "{patterns} different rows of labels among {rows}: the attacker 'majority' would learn them by heart. Leave the "
    "attacker out or choose 'logistic' (both cross-fitted), or give held_out=0 to measure it all the same"
)
CROSS_FITTED = (
    "{patterns} different rows of labels among {rows}: attackers are cross-fitted in {folds} folds, each tested on "
    "rows that it has not learnt"
)
OVERFITTED = (
    "{patterns} different rows of labels among {rows}, and attackers are tested on the rows that they have learnt: "
    "what they know by heart counts as predictable"
)
# What random numbers are for: the same seed draws the same rows and starts the same attackers for both sides.
ROWS, LABELS, ATTACK = range(3)


@dataclass(frozen=True)
class Method:
    """How predictability is measured."""

    attacker: Attacker  # who guesses
    quality: Quality  # how well
    # share 0-1 of the rows, drawn anew each repeat, that the attacker is tested on and has not learnt; 0: it is tested
    # on the rows that it has learnt (as Tokas et al. do)
    held_out: float = 0.0
    folds: int = 0  # above 0, every row is tested on once, by an attacker that has learnt the other folds
    # "none"; "redraw": of every group as many rows as of the smallest, drawn anew each repeat, for learning and for
    # asking (the code of Wang et al.); "weights": every group weighs the same, which is what redrawing comes to on
    # average
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
        """Checked options (see ``attacks.Plan``) for so many different rows among all, and notes on the choice.

        Raises:
            ValueError: an unknown name, options that do not go together, or too many kinds of rows for "majority".
        """
        many = patterns > FEW_PATTERNS and rows < ROWS_A_PATTERN * patterns
        chosen = attacker_of(("logistic" if many else "majority") if attacker == AUTO else attacker)
        if held_out is not None and not 0 <= held_out < 1:
            raise ValueError(f"held_out must lie in 0-1, below 1, not {held_out}")
        check_choice(balance, "balance", BALANCES)
        if balance == "weights" and not chosen.weighted:
            raise ValueError(NO_WEIGHTS.format(name=chosen.name))
        if folded and quality != "accuracy":
            raise ValueError(FOLDED)
        folded_in = many and held_out is None
        if folded_in and chosen.name == "majority":
            raise ValueError(BY_HEART.format(patterns=patterns, rows=rows))
        note = CROSS_FITTED if folded_in else OVERFITTED if many and held_out == 0 else ""
        notes = (note.format(patterns=patterns, rows=rows, folds=FOLDS),) if note else ()
        how: dict[str, Any] = {"balance": balance, "folded": folded, "seed": seed}
        return cls(chosen, quality_of(quality), held_out or 0.0, FOLDS if folded_in else 0, **how), notes

    @property
    def in_sample(self) -> bool:
        """Whether attackers are tested on all rows, which they have learnt."""
        return self.held_out == 0 and self.folds == 0 and self.balance != "redraw"

    @property
    def exact(self) -> bool:
        """Whether nothing is drawn, so that one repeat is all there is."""
        return self.attacker.exact and self.in_sample

    def random(self, purpose: int, repeat: int, *more: int) -> np.random.Generator:
        """Random numbers for one purpose and repeat."""
        return np.random.default_rng([self.seed, purpose, repeat, *more])


@dataclass(frozen=True, eq=False)
class AttackResult:
    """A quality, larger = more predictable, and what one should know about how it came about.

    ``right`` ``(n,)``: the share of each row's columns that was guessed rightly, of cross-fitted attackers.
    """

    value: float
    notes: tuple[str, ...] = ()
    right: Floats | None = None


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
    """How well the target is guessed from features, once.

    With the majority rule, accuracy and all rows it is exact: ``sum_x max_y n(x, y) / n``.

    Args:
        method: who guesses, how well, on which rows.
        features: ``(n, F)`` what the attacker is given.
        target: ``n`` rows, what it guesses; of several columns each by itself, and the quality is averaged.
        groups: ``(n,)`` what is balanced, if anything is.
        weights: ``(n,)``, 1 unless given.
        units: ``(n,)`` rows or clusters that stay together when rows are held out; each row by itself unless given.
        repeat: which one; each draws its own rows and starts its own attackers.

    Raises:
        ValueError: rows or categories that do not fit the method.
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
    """Every note once, with how many attacks it is about."""
    counts = {note: sum(note in part.notes for part in parts) for part in parts for note in part.notes}
    return tuple(f"{note} ({count} of {len(parts)} attacks)" for note, count in counts.items())


def _splits(method: Method, groups: Codes, units: Codes, repeat: int) -> Iterator[tuple[Codes, Codes]]:
    """Rows to learn from and rows to ask about, once for each fold."""
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
    """As many rows of every group as of the smallest."""
    parts = [rows[groups[rows] == group] for group in np.unique(groups)]
    fewest = min(len(part) for part in parts)
    if fewest == 0:
        raise ValueError("balance='redraw' needs rows of every group to learn from and to ask about")
    return np.sort(np.concatenate([random.choice(part, size=fewest, replace=False) for part in parts]))


def _balanced(weights: Floats, groups: Codes, balance: Balance) -> Floats:
    """Weights by which every group weighs the same, if that is wanted."""
    if balance != "weights":
        return weights
    return weights / np.bincount(groups, weights=weights)[groups]
