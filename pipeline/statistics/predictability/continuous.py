"""DPA of numbers: a continuous attribute, task or output, with 1 / RMSE as the quality. Categories are in ``dpa``."""

from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pipeline.statistics.amplification.counts import Direction
from pipeline.statistics.arrays import Floats, check_choice, check_count
from pipeline.statistics.predictability.dpa import NOTHING_PREDICTED, relative_change

ATTACKERS_OF_NUMBERS = ("linear", "forest")
CONTINUOUS_COLUMNS = ("direction", "quantity", "value", "sd", "repeats")
FOLDS = 5


def dpa_of_numbers(
    attributes: ArrayLike,
    tasks: ArrayLike,
    *,
    predictions: ArrayLike | None = None,
    predicted_attributes: ArrayLike | None = None,
    attacker: Literal["linear", "forest"] = "linear",
    repeats: int = 20,
    seed: int = 0,
) -> pd.DataFrame:
    """DPA where what is guessed is a number: ``Psi = 1 / RMSE`` of an attacker, on rows that it has not learnt.

    T in Psi_D (A, in T->A) is first made as wrong as the predictions: the predictions' own errors are added to it in a
    random order, so that both have the same RMSE against the truth. 1 / RMSE also grows where the target merely spreads
    less, as predictions often do; ``dpa_shuffled`` is what remains with the attacker's input in a random order, so only
    the difference between the two speaks of the attribute.

    Args:
        attributes: ``(n,)`` or ``(n, C)`` numbers, or names of groups; as what is guessed from, or in T->A guessed.
        tasks: ``(n,)`` or ``(n, C)``, likewise.
        predictions, predicted_attributes: ``(n,)`` numbers of the task (A->T) and of the attribute (T->A), or both.
        attacker: least squares, or a random forest; each row is guessed by one that was fitted to the other folds.
        repeats: how often errors, folds and shuffled inputs are drawn.
        seed: of them.

    Returns:
        Rows data (Psi_D), model (Psi_M), dpa and dpa_shuffled of each direction: the mean and standard deviation over
        the repeats; NaN where a target is guessed without error.

    Raises:
        ValueError: what is guessed is no single column of finite numbers, or as many rows are not there.

    Source: Tokas, Nair & Kerner, arXiv 2412.11060.
    """
    check_choice(attacker, "attacker", ATTACKERS_OF_NUMBERS)
    check_count(repeats, "repeats", least=1)
    ways: list[tuple[Direction, ArrayLike, ArrayLike, ArrayLike]] = []
    if predictions is not None:
        ways.append(("A->T", attributes, tasks, predictions))
    if predicted_attributes is not None:
        ways.append(("T->A", tasks, attributes, predicted_attributes))
    if not ways:
        raise ValueError(NOTHING_PREDICTED)
    rows = []
    for direction, given, truth, predicted in ways:
        x, t, guess = _inputs(given), _numbers(truth, "the truth"), _numbers(predicted, "the predictions")
        if not len(x) == len(t) == len(guess) or len(t) < 2 * FOLDS:
            raise ValueError(
                f"{direction}: {len(x)}, {len(t)} and {len(guess)} rows; as many are needed, {2 * FOLDS} or more"
            )
        random, drawn = np.random.default_rng(seed), []
        for _ in range(repeats):
            as_wrong, folds = t + random.permutation(guess - t), random.permutation(len(t)) % FOLDS
            shuffled = x[random.permutation(len(x))]
            data, model = (_quality(x, target, folds, attacker) for target in (as_wrong, guess))
            null = [_quality(shuffled, target, folds, attacker) for target in (as_wrong, guess)]
            drawn.append((data, model, float(relative_change(model, data)), float(relative_change(null[1], null[0]))))
        values = np.array(drawn)
        sd = values.std(axis=0, ddof=1) if repeats > 1 else np.full(4, np.nan)
        for quantity, value, spread in zip(
            ("data", "model", "dpa", "dpa_shuffled"), values.mean(axis=0), sd, strict=True
        ):
            rows.append((direction, quantity, value, spread, repeats))
    return pd.DataFrame(rows, columns=list(CONTINUOUS_COLUMNS))


def _quality(x: Floats, target: Floats, folds: "np.ndarray[Any, Any]", attacker: str) -> float:
    """1 / RMSE of guesses of the target by attackers that were fitted to the other folds."""
    guesses = np.empty(len(target))
    for fold in range(FOLDS):
        out = folds == fold
        guesses[out] = _attacker(attacker).fit(x[~out], target[~out]).predict(x[out])
    error = float(np.sqrt(np.mean((guesses - target) ** 2)))
    return 1 / error if error > 0 else float("inf")


def _attacker(name: str) -> Any:
    if name == "linear":
        from sklearn.linear_model import LinearRegression

        return LinearRegression()
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(50, min_samples_leaf=10, random_state=0)


def _inputs(values: ArrayLike) -> Floats:
    """``(n, D)``: columns of numbers as they are, of names as 0 and 1 for each name."""
    frame = pd.DataFrame(np.asarray(values))
    table: Floats = pd.get_dummies(frame.infer_objects()).to_numpy(dtype=np.float64)
    return table


def _numbers(values: ArrayLike, name: str) -> Floats:
    try:
        found = np.asarray(values, dtype=np.float64).reshape(len(np.asarray(values)), -1)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers") from None
    if found.shape[1] != 1 or not np.isfinite(found).all():
        raise ValueError(f"{name} must be one column of finite numbers")
    return np.asarray(found[:, 0])
