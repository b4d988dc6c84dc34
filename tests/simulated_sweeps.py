"""Responses with known slopes, as arrays and as the tables of a run."""

import numpy as np
import pandas as pd

SEVEN = np.linspace(-2, 2, 7)


def simulate_presence(*, photos, labels, base, effect, spread, noise, seed, values=SEVEN):
    """Presence ``(n, K, L)`` under a probit model with random intercepts and slopes by photo."""
    random = np.random.default_rng(seed)
    level = base * np.sqrt(1 + noise**2) + random.normal(size=(photos, 1, labels))
    reaction = effect + spread * random.normal(size=(photos, 1, labels))
    chance = noise * random.normal(size=(photos, len(values), labels))
    return (level + reaction * values[:, None] + chance > 0).astype(np.int8)


def true_slope(*, base, effect, spread, noise, values=SEVEN):
    from scipy.special import ndtr

    total = np.sqrt(1 + noise**2 + (spread * values) ** 2)
    rate = ndtr((base * np.sqrt(1 + noise**2) + effect * values) / total)
    return values @ rate / (values @ values) / rate[len(values) // 2]


def simulated_run(parts):
    """Labels and answers of a run from parts (adapter, attribute, arm, y), with labels "l0", "l1", …"""
    answers, labels = [], []
    for adapter, attribute, arm, y in parts:
        photos, steps, count = y.shape
        photo, step = np.divmod(np.arange(photos * steps), steps)
        queried = pd.DataFrame({"photo": [f"p{i:04d}" for i in photo], "step": step + 1, "value": SEVEN[step]})
        queried = queried.assign(adapter=adapter, attribute=attribute, arm=arm, status="ok")
        answers.append(queried)
        for label in range(count):
            present = y[:, :, label].reshape(-1)
            labels.append(
                queried.assign(label=f"l{label}", score=np.where(present, 0.9, np.nan), returned=present == 1)
            )
    return pd.concat(labels, ignore_index=True), pd.concat(answers, ignore_index=True)


def dense(sweeps):
    """All responses as an array ``(n, K, L)``."""
    return sweeps.block(range(len(sweeps.labels))).transpose(2, 1, 0)
