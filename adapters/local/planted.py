"""A simulated classifier with known slopes, to test the statistics end to end; it recognises images by their bytes."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from adapters.answers import LabelAnswers, to_answer
from adapters.base import AdapterError, Capabilities, Label, RawAnswer
from adapters.options import AdapterOptions

_FILE = "counterfactuals.parquet"


@dataclass(frozen=True)
class PlantedLabel:
    """The true presence rate of a label: y(a) = rate * (1 + slope * a)."""

    rate: float  # the presence rate at a = 0, in 0-1
    slope: float  # mean of the photos' normalised slopes
    spread: float = 0.1  # standard deviation of the photos' slopes
    attribute: str = "gender"  # whose value is a

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1 or self.spread < 0:
            raise ValueError("a planted label's rate must be in 0-1 (above 0) and its spread at least 0")


DEFAULT_LABELS = {
    f"{attribute} {slope:+.2f} at {rate:.0%}": PlantedLabel(rate=rate, slope=slope, attribute=attribute)
    for attribute in ("gender", "race")
    for rate in (0.2, 0.5)
    for slope in (-0.3, -0.1, 0.0, 0.1, 0.3)
}


@dataclass(frozen=True)
class _Image:
    """The photo of an image, and the attribute values of the image."""

    photo: str
    values: dict[str, float] = field(default_factory=dict)


class Planted(LabelAnswers):
    """A simulated classifier with known slopes, to check the statistics.

    Photo i has, for each label, a slope ``b_i`` (uniform around ``slope`` with standard deviation ``spread``) and a
    threshold ``u_i`` (uniform in 0-1), both derived from a hash of seed, photo and label. The label is returned for the
    value a if ``u_i < rate * (1 + b_i * a)``. The expected presence rate over photos is therefore exactly
    ``rate * (1 + slope * a)``, while the steps of a photo depend on each other as with a real classifier. The score is
    uniform in 0.5-1 and independent of a, so mean scores have the same normalised slope as presence.

    The attribute value of an image is that of its row in the attribute's edit arm. If several steps share identical
    bytes, no classifier can tell them apart: their value is the mean, which reduces the true slope. Images of other
    attributes and placebos have value 0.
    """

    name = "planted"
    capabilities = Capabilities(cut_off=0.5, presence=0.5, batch=256)

    class Options(AdapterOptions):
        run: Path
        """the run's folder, or its counterfactuals.parquet."""
        labels: dict[str, PlantedLabel] | None = None
        """name -> rate, slope, spread, attribute; default: a set of 20."""
        seed: int = 0
        """of the photos' slopes and thresholds."""

    def __init__(self, options: Options) -> None:
        run, self._seed = options.run, options.seed
        self._table = run if run.suffix == ".parquet" else run / _FILE
        self._labels = DEFAULT_LABELS if options.labels is None else dict(options.labels)
        self.parameters: Mapping[str, Any] = {
            "labels": {name: asdict(label) for name, label in self._labels.items()},
            "seed": self._seed,
        }
        self.capabilities = Capabilities(labels=tuple(self._labels), cut_off=0.5, presence=0.5, batch=256)

    @cached_property
    def model(self) -> str:
        """The digest of the photo and the values of each image, which determine the answers."""
        rows = sorted((digest, image.photo, sorted(image.values.items())) for digest, image in self._images.items())
        return f"planted 1, images sha256 {sha256(json.dumps(rows).encode()).hexdigest()}"

    def send(self, images: Sequence[bytes]) -> list[RawAnswer]:
        """Return the planted labels of each image; ValueError if it is not in the table. See ``Adapter.send``."""
        return [to_answer(self._answer(image)) for image in images]

    def truth(self) -> dict[str, float]:
        """Return the true normalised slope b of each label in the sweep of its attribute; it is 0 in other sweeps."""
        return {name: label.slope for name, label in self._labels.items()}

    def _answer(self, image: bytes) -> list[Label]:
        digest = sha256(image).hexdigest()
        known = self._images.get(digest)
        if known is None:
            raise ValueError(f"the image with sha256 {digest[:12]} is not in {self._table}")
        returned = []
        for name, label in self._labels.items():
            threshold, deviation, score = _uniforms(self._seed, known.photo, name)
            slope = label.slope + (2 * deviation - 1) * _half_width(label)
            if threshold < label.rate * (1 + slope * known.values.get(label.attribute, 0.0)):
                returned.append(Label(name, 0.5 + score / 2))
        return returned

    @cached_property
    def _images(self) -> dict[str, _Image]:
        rows = _made_rows(self._table)
        photos: dict[str, str] = {}
        values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        reach: dict[str, float] = defaultdict(float)
        for row in rows:
            digest, photo = row["sha256"], row["photo"]
            photos[digest] = min(photo, photos.get(digest, photo))
            if row["arm"] == "edit":
                values[digest][row["attribute"]].append(row["value"])
                reach[row["attribute"]] = max(reach[row["attribute"]], abs(row["value"]))
        self._check_rates(reach)
        return {
            digest: _Image(photo, {attribute: fmean(found) for attribute, found in values[digest].items()})
            for digest, photo in photos.items()
        }

    def _check_rates(self, reach: Mapping[str, float]) -> None:
        for name, label in self._labels.items():
            change = (abs(label.slope) + _half_width(label)) * reach.get(label.attribute, 0.0)
            if change > 1 or label.rate * (1 + change) > 1:
                raise AdapterError(
                    f"planted label {name!r}: its rate would leave 0-1 at |a| = {reach[label.attribute]:g}; "
                    f"|slope| + 1.73 * spread must be at most {min(1, 1 / label.rate - 1) / reach[label.attribute]:.3g}"
                )


def _half_width(label: PlantedLabel) -> float:
    """Return half the width of a uniform distribution with the standard deviation ``spread``."""
    return float(label.spread * 3**0.5)


def _uniforms(seed: int, photo: str, label: str) -> tuple[float, float, float]:
    """Return three independent uniform numbers in 0-1, derived from seed, photo and label."""
    digest = sha256(json.dumps([seed, photo, label]).encode()).digest()
    first, second, third = (int.from_bytes(digest[start : start + 8]) / 2**64 for start in (0, 8, 16))
    return first, second, third


def _made_rows(table: Path) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = ["attribute", "arm", "photo", "value", "status", "sha256"]
    try:
        rows = pq.read_table(table, columns=columns).to_pylist()
    except (OSError, pa.ArrowInvalid, KeyError) as error:
        raise AdapterError(
            f"the adapter planted cannot read {table} ({error}): make the counterfactuals first, and give the run's "
            "folder with its option run"
        ) from error
    return [row for row in rows if row["status"] == "ok"]
