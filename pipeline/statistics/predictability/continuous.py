"""DPA of a continuous attribute, task or output, with 1 / RMSE as the quality. For categories see ``dpa``."""

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
    """DPA of a numeric target: ``Psi = 1 / RMSE`` of cross-validated predictions by an attacker.

    The errors of the predictions, in random order, are first added to T in Psi_D (in T->A: to A), so that both have the
    same RMSE against the truth. 1 / RMSE also grows if the target merely varies less, as predictions often do.
    ``dpa_shuffled`` is measured with the attacker's input in random order, so only the difference between the two is
    about the attribute.

    Args:
        attributes: ``(n,)`` or ``(n, C)`` numbers or names of groups; one column of numbers if they are the target.
        tasks: ``(n,)`` or ``(n, C)``, likewise.
        predictions, predicted_attributes: ``(n,)`` predictions of the task (A->T), of the attribute (T->A), or both.
        attacker: "linear" (least squares) or "forest" (random forest).
        repeats: number of draws of errors, folds and shuffled inputs.
        seed: of the draws.

    Returns:
        Rows data (Psi_D), model (Psi_M), dpa and dpa_shuffled for each direction: mean and standard deviation over
        the repeats; NaN where a target is predicted without error.

    Raises:
        ValueError: the target is not a single column of finite numbers, or the numbers of rows differ or are too small.

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
                f"{direction}: the inputs have {len(x)}, {len(t)} and {len(guess)} rows; give all the same number, at "
                f"least {2 * FOLDS}"
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
    """1 / RMSE of predictions of the target by attackers that were fitted to the other folds."""
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
    """Features ``(n, D)``: columns of numbers unchanged, columns of names one-hot."""
    frame = pd.DataFrame(np.asarray(values))
    return np.asarray(pd.get_dummies(frame.infer_objects()), dtype=np.float64)


def _numbers(values: ArrayLike, name: str) -> Floats:
    try:
        found = np.asarray(values, dtype=np.float64).reshape(len(np.asarray(values)), -1)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers") from None
    if found.shape[1] != 1 or not np.isfinite(found).all():
        raise ValueError(f"{name} must be one column of finite numbers")
    return np.asarray(found[:, 0])
