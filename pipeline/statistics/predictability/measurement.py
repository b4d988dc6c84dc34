"""Predictability: how well an attacker guesses one thing from another, on which rows, and over how many repeats.

Who attacks is in ``attackers``; what is compared with what, in ``leakage`` (Wang et al.) and ``dpa`` (Tokas et al.).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from pipeline.statistics.arrays import Categories, Codes, Floats, categories, check_rows
from pipeline.statistics.predictability.attackers import Attacker, attacker_of
from pipeline.statistics.predictability.label_noise import changed, expected_rows
from pipeline.statistics.predictability.qualities import Quality, quality_of

Balance = Literal["none", "redraw", "weights"]
Flips = Literal["expected", "drawn"]
BALANCES = ("none", "redraw", "weights")
NO_WEIGHTS = "the attacker {name!r} takes no weights: choose balance='redraw' and flips='drawn'"
ONE_COLUMN = "flips='expected' is for one column, but {name} has {columns}: choose flips='drawn'"
SAME_ROWS = "flips='expected' is for all rows, each as it is: choose flips='drawn' with held_out or balance='redraw'"
FOLDS = "folded is for the accuracy on two categories: 0.5 + |accuracy - 0.5|"
FEW_ROWS = "held_out = {held_out:g} of {rows} rows leaves nothing to learn from or to ask about"
# What random numbers are for: the same seed draws the same rows and starts the same attackers for both sides.
ROWS, LABELS, ATTACK = range(3)


@dataclass(frozen=True)
class Method:
    """How predictability is measured.

    Attributes:
        attacker: who guesses.
        quality: how well.
        held_out: share 0-1 of the rows, drawn anew each repeat, that the attacker is asked about and has not learnt;
            0: it is asked about the rows that it has learnt (as Tokas et al. do).
        balance: "none"; "redraw": of every group as many rows as of the smallest, drawn anew each repeat, for learning
            and for asking (the code of Wang et al.); "weights": every group weighs the same, which is what redrawing
            comes to on average.
        folded: report 0.5 + |accuracy - 0.5| (the code of Wang et al.).
        seed: of all that is drawn.
    """

    attacker: Attacker
    quality: Quality
    held_out: float = 0.0
    balance: Balance = "none"
    folded: bool = False
    seed: int = 0

    @classmethod
    def of(
        cls,
        *,
        attacker: str | Attacker,
        quality: str,
        held_out: float = 0.0,
        balance: str = "none",
        folded: bool = False,
        seed: int = 0,
    ) -> "Method":
        """Checked options.

        Raises:
            ValueError: an unknown name, or options that do not go together.
        """
        chosen = attacker_of(attacker)
        if not 0 <= held_out < 1:
            raise ValueError(f"held_out must lie in 0-1, below 1, not {held_out}")
        if balance not in BALANCES:
            raise ValueError(f"there is no balance {balance!r}; there are {', '.join(BALANCES)}")
        if balance == "weights" and not chosen.weighted:
            raise ValueError(NO_WEIGHTS.format(name=chosen.name))
        if folded and quality != "accuracy":
            raise ValueError(FOLDS)
        return cls(chosen, quality_of(quality), held_out, balance, folded, seed)  # type: ignore[arg-type]

    @property
    def exact(self) -> bool:
        """Whether nothing is drawn, so that one repeat is all there is."""
        return self.attacker.exact and self.held_out == 0 and self.balance != "redraw"

    def random(self, purpose: int, repeat: int, *more: int) -> np.random.Generator:
        """Random numbers for one purpose and repeat."""
        return np.random.default_rng([self.seed, purpose, repeat, *more])


@dataclass(frozen=True)
class Predictability:
    """A quality, larger = more predictable, and what one should know about how it came about."""

    value: float
    notes: tuple[str, ...] = ()


def predictability(
    inputs: ArrayLike,
    target: ArrayLike,
    *,
    attacker: str | Attacker = "majority",
    quality: str = "accuracy",
    groups: ArrayLike | None = None,
    balance: str = "none",
    held_out: float = 0.0,
    folded: bool = False,
    seed: int = 0,
) -> Predictability:
    """How well ``target`` can be guessed from ``inputs``, once.

    With the majority rule, accuracy and all rows it is exact: ``sum_x max_y n(x, y) / n``.

    Args:
        inputs: ``(n,)`` or ``(n, F)`` labels.
        target: ``(n,)`` or ``(n, C)`` labels; of several columns each is guessed by itself, and the quality averaged.
        groups: ``(n,)`` what is balanced; the target unless given.
        attacker, quality, balance, held_out, folded, seed: see ``Method``.

    Raises:
        ValueError: arrays or options that cannot be, named.
    """
    method = Method.of(attacker=attacker, quality=quality, held_out=held_out, balance=balance, folded=folded, seed=seed)
    (given,), (wanted,) = categories(inputs=inputs), categories(target=target)
    balanced = wanted if groups is None else categories(groups=groups)[0]
    check_rows({"inputs": given, "target": wanted, "groups": balanced})
    return measure(method, given.features(), wanted, groups=balanced.joint())


def measure(
    method: Method,
    features: Floats,
    target: Categories,
    *,
    groups: Codes,
    weights: Floats | None = None,
    repeat: int = 0,
) -> Predictability:
    """As ``predictability``, of checked arrays.

    Args:
        features: ``(n, F)`` what the attacker is given.
        target: ``n`` rows, what it guesses.
        groups: ``(n,)`` what is balanced, if anything is.
        weights: ``(n,)``, 1 unless given.
        repeat: which one; each draws its own rows and starts its own attackers.
    """
    if method.folded and max(target.sizes) > 2:
        raise ValueError(FOLDS)
    learn, ask = _rows(method, groups, repeat)
    weighed = np.ones(len(target)) if weights is None else weights
    learn_weights, ask_weights = (_balanced(weighed[rows], groups[rows], method.balance) for rows in (learn, ask))
    measures, notes = [], []
    for column, size in enumerate(target.sizes):
        guess = method.attacker.attack(
            features[learn],
            target.codes[learn, column],
            learn_weights,
            features[ask],
            classes=size,
            seed=int(method.random(ATTACK, repeat, column).integers(2**31)),
        )
        measures.append(method.quality.measure(target.codes[ask, column], guess.chances, ask_weights))
        notes += [guess.note] if guess.note else []
    value = method.quality.of([0.5 + abs(part - 0.5) for part in measures] if method.folded else measures)
    return Predictability(value, tuple(dict.fromkeys(notes)))


def choose_flips(method: Method, flips: str | None, counts: Codes, *, name: str) -> Flips:
    """Whether labels are changed on average ("expected") or at random ("drawn"); by default the former if it can be.

    Raises:
        ValueError: "expected" with an attacker, rows or columns that it is not for, or another word.
    """
    if flips == "drawn":
        return "drawn"
    if flips not in (None, "expected"):
        raise ValueError(f"flips must be 'expected' or 'drawn', not {flips!r}")
    problem = None
    if not method.attacker.weighted:
        problem = NO_WEIGHTS.format(name=method.attacker.name)
    elif method.held_out or method.balance == "redraw":
        problem = SAME_ROWS
    elif len(counts) != 1 and counts.any():
        problem = ONE_COLUMN.format(name=name, columns=len(counts))
    elif flips is None and not method.attacker.exact:
        return "drawn"
    if problem and flips == "expected":
        raise ValueError(problem)
    return "drawn" if problem else "expected"


@dataclass(frozen=True, eq=False)
class Equalised:
    """Labels made as wrong as predictions: the rows they come from, the labels, their weights."""

    rows: Codes
    labels: Categories
    weights: Floats


def equalised(
    method: Method, labels: Categories, counts: Codes, *, flips: Flips, repeat: int = 0, weights: Floats | None = None
) -> Equalised:
    """``counts`` of the labels changed, on average or at random; none changed leaves the rows as they are."""
    everywhere = np.arange(len(labels))
    if not counts.any():
        return Equalised(everywhere, labels, np.ones(len(labels)) if weights is None else weights)
    if flips == "expected":
        return Equalised(*expected_rows(labels, counts, weights=weights))
    drawn = changed(labels, counts, generator=method.random(LABELS, repeat))
    return Equalised(everywhere, drawn, np.ones(len(labels)))


def repeats_needed(method: Method, counts: Codes, *, flips: Flips, repeats: int) -> int:
    """One where nothing is drawn, else ``repeats``.

    Raises:
        ValueError: ``repeats`` is below 1.
    """
    if repeats < 1:
        raise ValueError(f"repeats must be 1 or more, not {repeats}")
    return 1 if nothing_drawn(method, counts, flips=flips) else repeats


def nothing_drawn(method: Method, counts: Codes, *, flips: Flips) -> bool:
    """Whether every repeat would be the same."""
    return method.exact and (flips == "expected" or not counts.any())


def gather_notes(parts: Sequence[Predictability]) -> tuple[str, ...]:
    """Every note once, with how many attacks it is about."""
    found: Mapping[str, int] = {
        note: sum(note in part.notes for part in parts) for note in dict.fromkeys(n for p in parts for n in p.notes)
    }
    return tuple(f"{note} ({count} of {len(parts)} attacks)" for note, count in found.items())


def _rows(method: Method, groups: Codes, repeat: int) -> tuple[Codes, Codes]:
    """Rows to learn from and rows to ask about."""
    everything = np.arange(len(groups))
    if method.held_out == 0 and method.balance != "redraw":
        return everything, everything
    random = method.random(ROWS, repeat)
    learn = ask = everything
    if method.held_out:
        asked = round(method.held_out * len(groups))
        shuffled = random.permutation(len(groups))
        learn, ask = np.sort(shuffled[asked:]), np.sort(shuffled[:asked])
        if not len(learn) or not len(ask):
            raise ValueError(FEW_ROWS.format(held_out=method.held_out, rows=len(groups)))
    if method.balance != "redraw":
        return learn, ask
    learn = _redrawn(learn, groups, random)
    return learn, _redrawn(ask, groups, random) if method.held_out else learn


def _redrawn(rows: Codes, groups: Codes, random: np.random.Generator) -> Codes:
    """As many rows of every group as of the smallest."""
    there = np.unique(groups)
    parts = [rows[groups[rows] == group] for group in there]
    fewest = min(len(part) for part in parts)
    if fewest == 0:
        raise ValueError("balance='redraw' needs rows of every group to learn from and to ask about")
    return np.sort(np.concatenate([random.choice(part, size=fewest, replace=False) for part in parts]))


def _balanced(weights: Floats, groups: Codes, balance: Balance) -> Floats:
    if balance != "weights":
        return weights
    totals = np.bincount(groups, weights=weights)
    return weights / totals[groups]
