"""Attackers: classifiers that predict a category from other labels or from a model's outputs.

Their quality is computed in ``qualities``, their training and test rows are chosen in ``measurement``.
"""

import warnings
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from pipeline.statistics.arrays import Codes, Floats, check_choice, row_numbers

NOT_CONVERGED = "the attacker {name!r} had not converged after {iterations} iterations"
BAD_NETWORK = (
    "the attacker {name!r} is not a network: give the units of its layers and its L2 penalty, as network:32x32:0.01"
)
ONE_CLASS = "the training rows have a single category: the attacker {name!r} always predicts it"
NO_VALIDATION = (
    "too few rows of a category for a validation set: the attacker {name!r} kept its last epoch, not its best"
)


@dataclass(frozen=True, eq=False)
class Guess:
    """Probabilities ``(m, K)`` of the classes for the test rows, and a note on the training, if any."""

    chances: Floats
    note: str | None = None


class Attacker(Protocol):
    """A classifier that is trained anew for every attack.

    Attributes:
        name: name in results.
        weighted: whether rows may have weights.
        exact: whether it is deterministic, independent of the seed.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def weighted(self) -> bool: ...  # noqa: D102
    @property
    def exact(self) -> bool: ...  # noqa: D102
    def attack(
        self, features: Floats, target: Codes, weights: Floats, tested: Floats, *, classes: int, seed: int
    ) -> Guess:
        """Learn ``target`` ``(n,)`` from ``features`` ``(n, F)``, and predict it for ``tested`` ``(m, F)``."""
        ...


@dataclass(frozen=True)
class Majority:
    """Predicts the class frequencies of each distinct row of features.

    Its accuracy on the training rows is exactly ``sum_t max_a n(a, t) / n``. Of equally frequent classes the first is
    predicted. A row that is not in the training set gets the overall frequencies.
    """

    name: str = "majority"
    weighted: bool = True
    exact: bool = True

    def attack(
        self, features: Floats, target: Codes, weights: Floats, tested: Floats, *, classes: int, seed: int
    ) -> Guess:
        """See ``Attacker``."""
        patterns = row_numbers(np.concatenate([features, tested]))
        cells, size = patterns[: len(features)] * classes + target, (patterns.max() + 1) * classes
        table = np.bincount(cells, weights=weights, minlength=size).reshape(-1, classes)
        total = table.sum(axis=1, keepdims=True)
        frequencies = np.where(total > 0, table, table.sum(axis=0)) / np.where(total > 0, total, table.sum())
        return Guess(frequencies[patterns[len(features) :]])


@dataclass(frozen=True)
class Logistic:
    """Logistic regression on standardised features, with scikit-learn's L2 penalty (C = 1)."""

    iterations: int = 1000
    name: str = "logistic"
    weighted: bool = True
    exact: bool = True

    def attack(
        self, features: Floats, target: Codes, weights: Floats, tested: Floats, *, classes: int, seed: int
    ) -> Guess:
        """See ``Attacker``."""
        from sklearn.linear_model import LogisticRegression

        model, limit = LogisticRegression(max_iter=self.iterations), self.iterations
        return _learn(
            model, features, target, tested, classes=classes, weights=weights, name=self.name, iterations=limit
        )


@dataclass(frozen=True)
class Network:
    """A small dense network (scikit-learn's), on standardised features."""

    name: str
    hidden: tuple[int, ...]  # units of each hidden layer
    activation: str = "relu"  # "logistic" (sigmoid), "relu", "tanh"
    solver: str = "adam"  # "lbfgs" fits all rows until it converges; "adam" runs a fixed number of epochs
    iterations: int = 100
    rate: float = 1e-3  # Adam's learning rate
    decay: float = 1e-4  # L2 penalty
    batch: int = 128  # Adam's batch size
    best_epoch: bool = False  # keep the epoch with the best accuracy on a tenth of the rows, held out for validation
    weighted: bool = False
    exact: bool = False

    def attack(
        self, features: Floats, target: Codes, weights: Floats, tested: Floats, *, classes: int, seed: int
    ) -> Guess:
        """See ``Attacker``."""
        from sklearn.neural_network import MLPClassifier

        counts = np.bincount(target)
        early = self.best_epoch and counts[counts > 0].min() > 1 and len(target) >= 10 * (counts > 0).sum()
        options: dict[str, Any] = {}
        if self.solver == "adam":
            # Do not stop before the given number of epochs.
            options = {"batch_size": min(self.batch, len(target)), "n_iter_no_change": self.iterations, "tol": 0.0}
        model = MLPClassifier(
            hidden_layer_sizes=self.hidden,
            activation=self.activation,
            solver=self.solver,
            max_iter=self.iterations,
            learning_rate_init=self.rate,
            alpha=self.decay,
            early_stopping=early,
            random_state=seed,
            **options,
        )
        # A fixed number of epochs is the papers' rule, not a failure to converge.
        iterations = None if self.solver == "adam" else self.iterations
        guess = _learn(model, features, target, tested, classes=classes, name=self.name, iterations=iterations)
        if self.best_epoch and not early and guess.note is None:
            return Guess(guess.chances, NO_VALIDATION.format(name=self.name))
        return guess


# The papers' networks, as far as scikit-learn can build them. DENSE: dense layers with sigmoids (Tokas et al.). "wang":
# the network of Wang et al. for COCO, with ReLU for LeakyReLU and standardised inputs for batch normalisation; their
# network for imSitu has a fourth layer of 300 units.
DENSE = Network("network", (4, 4), activation="logistic", solver="lbfgs", iterations=1000)
ATTACKERS: dict[str, Attacker] = {
    "majority": Majority(),
    "logistic": Logistic(),
    "network": DENSE,
    "wang": Network("wang", (300, 300, 300), rate=5e-5, decay=1e-5, best_epoch=True),
}


# DENSE with other depths, widths and penalties, chosen by this project to test how much a measure depends on them.
NETWORKS = (
    *("network:1", "network:4", "network:32", "network:4x4", "network:32x32", "network:4x4x4", "network:32x32x32"),
    *("network:4x4:1e-6", "network:4x4:0.01", "network:4x4:1"),
)


def attacker_of(attacker: str | Attacker) -> Attacker:
    """Look up an attacker by name; ValueError if the name is unknown.

    ``network:32x32:0.01`` is ``network`` with hidden layers of 32 and 32 units and an L2 penalty of 0.01 (default:
    1e-4).
    """
    if not isinstance(attacker, str):
        return attacker
    kind, _, sizes = attacker.partition(":")
    if kind == DENSE.name and sizes:
        widths, _, decay = sizes.partition(":")
        try:
            hidden, penalty = tuple(int(width) for width in widths.split("x")), float(decay or DENSE.decay)
        except ValueError:
            hidden, penalty = (), 0.0
        if min(hidden, default=0) < 1 or not penalty >= 0:
            raise ValueError(BAD_NETWORK.format(name=attacker))
        return replace(DENSE, name=attacker, hidden=hidden, decay=penalty)
    check_choice(attacker, "attacker", ATTACKERS)
    return ATTACKERS[attacker]


def _learn(
    model: Any,
    features: Floats,
    target: Codes,
    tested: Floats,
    *,
    classes: int,
    name: str,
    iterations: int | None,
    weights: Floats | None = None,
) -> Guess:
    """Fit a scikit-learn classifier on standardised features; a class without training rows has probability 0."""
    chances = np.zeros((len(tested), classes))
    present = np.unique(target)
    if len(present) == 1:
        chances[:, present] = 1
        return Guess(chances, ONE_CLASS.format(name=name))
    centre = np.average(features, axis=0, weights=weights)
    spread = np.sqrt(np.average((features - centre) ** 2, axis=0, weights=weights))
    spread = np.where(spread > 0, spread, 1.0)
    options = {} if weights is None else {"sample_weight": weights * (len(weights) / weights.sum())}
    from sklearn.exceptions import ConvergenceWarning

    with one_blas_thread(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit((features - centre) / spread, target, **options)
        chances[:, present] = model.predict_proba((tested - centre) / spread)
    stopped = [warning for warning in caught if issubclass(warning.category, ConvergenceWarning)]
    for warning in caught:
        if warning not in stopped:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    failed = bool(stopped) and iterations is not None
    return Guess(chances, NOT_CONVERGED.format(name=name, iterations=iterations) if failed else None)


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limit BLAS and OpenMP to one thread, so that the same seed gives the same bytes on any number of cores."""
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[Any] = threadpool_limits(limits=1)
    return limits
