from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from adapter_calls import make_adapter

from adapters.base import AdapterError
from adapters.local.planted import DEFAULT_LABELS, Planted, PlantedLabel
from pipeline.run.tables import COUNTERFACTUALS, to_table, write_table

VALUES = np.linspace(-2, 2, 7)


def _image(photo: int, step: int, attribute: str = "gender", arm: str = "edit") -> bytes:
    return f"{attribute} {arm} {photo} {step}".encode()


def _row(image: bytes, photo: int, value: float, attribute: str = "gender", arm: str = "edit") -> dict[str, object]:
    row = {"attribute": attribute, "arm": arm, "photo": f"{photo}.png", "value": float(value), "status": "ok"}
    return row | {"sha256": sha256(image).hexdigest()}


def _table(folder: Path, rows: list[dict[str, object]]) -> Path:
    write_table(to_table(rows, COUNTERFACTUALS), folder / "counterfactuals.parquet")
    return folder


def _sweeps(folder: Path, photos: int, attribute: str = "gender", arm: str = "edit") -> Path:
    rows = [
        _row(_image(n, k, attribute, arm), n, value, attribute, arm)
        for n in range(photos)
        for k, value in enumerate(VALUES)
    ]
    return _table(folder, rows)


def _presence(adapter: Planted, photos: int, attribute: str = "gender", arm: str = "edit") -> dict[str, np.ndarray]:
    """Label -> ``(photos, 7)``: whether it was returned."""
    found = {name: np.zeros((photos, len(VALUES)), dtype=bool) for name in adapter.truth()}
    for n in range(photos):
        answers = adapter.send([_image(n, k, attribute, arm) for k in range(len(VALUES))])
        for k, answer in enumerate(answers):
            for label in adapter.parse(answer):
                found[label.name][n, k] = True
    return found


def test_presence_rates_follow_the_planted_slopes(tmp_path):
    photos = 1000
    adapter = make_adapter("planted", run=_sweeps(tmp_path, photos), seed=1)
    for name, returned in _presence(adapter, photos).items():
        label = DEFAULT_LABELS[name]
        slope = adapter.truth()[name] if label.attribute == "gender" else 0.0
        expected = label.rate * (1 + slope * VALUES)
        error = np.sqrt(expected * (1 - expected) / photos)
        assert np.all(np.abs(returned.mean(axis=0) - expected) < 4.5 * error), name


def test_slopes_of_photos_vary_by_the_spread(tmp_path):
    photos = 1000
    spreads = {"steady": 0.0, "spread": 0.2}
    labels = {name: PlantedLabel(rate=0.4, slope=0.0, spread=spread) for name, spread in spreads.items()}
    presence = _presence(make_adapter("planted", run=_sweeps(tmp_path, photos), labels=labels), photos)
    changes = {name: (returned[:, -1] != returned[:, 0]).mean() for name, returned in presence.items()}
    assert changes["steady"] == 0
    # |u / rate - 1| < 2 |b| with b uniform in +-0.2 sqrt(3): rate * 4 * E|b| of the photos change
    assert changes["spread"] == pytest.approx(0.4 * 4 * 0.2 * 3**0.5 / 2, abs=0.05)


def test_answers_depend_only_on_photo_value_and_seed(tmp_path):
    run = _sweeps(tmp_path, 50)
    images = [_image(n, k) for n in range(50) for k in range(7)]
    first = [answer.body for answer in make_adapter("planted", run=run).send(images)]
    backwards = [answer.body for answer in make_adapter("planted", run=run).send(images[::-1])]
    assert first == backwards[::-1]
    assert first != [answer.body for answer in make_adapter("planted", run=run, seed=1).send(images)]
    assert make_adapter("planted", run=run).parameters != make_adapter("planted", run=run, seed=1).parameters


def test_placebos_and_other_attributes_stay_at_the_base_rate(tmp_path):
    labels = {"up": PlantedLabel(rate=0.5, slope=0.3, attribute="gender")}
    for attribute, arm in (("gender", "random"), ("race", "edit")):
        run = _sweeps(tmp_path / f"{attribute} {arm}", 40, attribute, arm)
        returned = _presence(make_adapter("planted", run=run, labels=labels), 40, attribute, arm)["up"]
        assert np.all(returned == returned[:, :1])


def test_identical_steps_share_their_mean_value(tmp_path):
    labels = {"up": PlantedLabel(rate=0.5, slope=0.5, spread=0.0)}
    photos = 400
    images = [_image(n, 0) for n in range(photos)]

    def answers(name, *values):
        run = _table(tmp_path / name, [_row(image, n, a) for n, image in enumerate(images) for a in values])
        return [answer.body for answer in make_adapter("planted", run=run, labels=labels).send(images)]

    assert answers("shared", 1.0, 2.0) == answers("mean", 1.5)


def test_rates_outside_0_to_1_are_refused(tmp_path):
    run = _sweeps(tmp_path, 2)
    for label in (PlantedLabel(rate=0.8, slope=0.3), PlantedLabel(rate=0.1, slope=-0.6)):
        with pytest.raises(AdapterError, match=r"'steep'.*leave 0-1 at \|a\| = 2"):
            make_adapter("planted", run=run, labels={"steep": label}).send([_image(0, 0)])
    with pytest.raises(AdapterError, match="option 'labels': a planted label's rate must be in 0-1"):
        make_adapter("planted", run=run, labels={"never": {"rate": 0, "slope": 0}})


def test_unknown_image_and_missing_table_are_explained(tmp_path):
    with pytest.raises(ValueError, match="is not in"):
        make_adapter("planted", run=_sweeps(tmp_path, 1)).send([b"another image"])
    with pytest.raises(AdapterError, match="make the counterfactuals first"):
        make_adapter("planted", run=tmp_path / "nowhere").send([b"x"])


def test_version_changes_with_the_table(tmp_path):
    one, two = _sweeps(tmp_path / "one", 1), _sweeps(tmp_path / "two", 2)
    assert make_adapter("planted", run=one).model == make_adapter("planted", run=one / "counterfactuals.parquet").model
    assert make_adapter("planted", run=one).model != make_adapter("planted", run=two).model
