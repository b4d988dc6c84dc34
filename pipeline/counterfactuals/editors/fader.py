"""The Fader network as an editor: encode a face once, decode it with every value of the sweep.

Its random placebo moves the code along a random direction, scaled to the size of the edit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.alignment import aligned_crop
from models.fader import ATTRIBUTES, Fader, category_line, smooth_difference
from models.precision import compute, unit_batch
from pipeline.config.attributes import EDIT_ARM, Attribute
from pipeline.counterfactuals.editors.base import CROP, Direction, Edit, Subject, placebo, to_levels

# Length of the random step as a share of the code's length, before the change is scaled to the edit's size: large
# enough to exceed rounding errors, small enough that the result is still a face.
STRIDE = 0.4


@dataclass(frozen=True)
class FaderEditor:
    """The editor of a Fader network."""

    network: Fader

    def read(self, subjects: Sequence[Subject], near: NDArray[np.float32] | None = None) -> "FaderBatch":
        """Encode the faces; see ``Editor.read``."""
        crops = unit_batch([aligned_crop(subject.pixels, subject.landmarks, size=CROP) for subject in subjects])
        return encode(self.network, crops, own_values([subject.own for subject in subjects]))


@dataclass(frozen=True)
class FaderBatch:
    """``B`` encoded faces; see ``FaceBatch``.

    Attributes:
        network: the Fader network.
        crops: ``(B, 3, 128, 128)`` in -1..1.
        codes: ``(B, 256, 8, 8)``.
        own: ``(B, 8)`` the faces' own values in the order of ``models.fader.ATTRIBUTES``.
        null: the codes decoded with their own values.
    """

    network: Fader
    crops: Tensor
    codes: Tensor
    own: Tensor
    null: Tensor

    def null_of(self, crops: Tensor) -> Tensor:
        """See ``FaceBatch.null_of``."""
        return encode(self.network, crops, self.own).null

    @torch.inference_mode()
    def edit(self, attribute: Attribute, values: tuple[float, ...]) -> Edit:
        """See ``FaceBatch.edit``."""
        wanted = sweep_inputs(self.own, attribute, values)
        codes = self.codes.repeat_interleave(len(values), dim=0)
        decoded = decode(self.network, codes, wanted.flatten(0, 1)).unflatten(0, wanted.shape[:2])
        strength = self.network.strength_of(attribute.name)
        changes, faces = [], []
        for null, one in zip(self.null[:, None], decoded, strict=True):  # the versions of one face fit into caches
            versions = null + strength * (one - null)
            changes.append(to_levels(smooth_difference(versions, null.expand_as(versions))))
            faces.append(to_levels(versions) + np.float32(127.5))
        return Edit(attribute.name, EDIT_ARM, values, np.stack(changes), np.stack(faces))

    @torch.inference_mode()
    def random_placebo(
        self,
        attribute: Attribute,
        edit: Edit,
        masks: NDArray[np.float32],
        *,
        seed: int,
        dealt: Sequence[Direction] | None = None,
    ) -> Edit:
        """Sweep along random directions of the code, at each value as large inside the masks (RMS) as the edit."""
        dealt = [Direction()] * len(self.own) if dealt is None else dealt
        # Like the edit, it starts from the face's own value and has opposite directions below and above.
        own = attribute.own_value(dict(zip(ATTRIBUTES, self.own.unbind(dim=1), strict=True)))
        above = (torch.tensor(edit.values) >= own[:, None]).numpy()
        steps = {one: one.way * _direction(self.codes.shape[1:], name=one.name_of(attribute.name), seed=seed)
                 for one in set(dealt)}  # fmt: skip
        step = STRIDE * torch.stack([steps[one] for one in dealt])
        step = step * self.codes.flatten(1).norm(dim=1)[:, None, None, None]
        ends = torch.stack([self.codes - step, self.codes + step], dim=1)
        inputs = self.own[:, None].expand(-1, 2, -1)
        versions = decode(self.network, ends.flatten(0, 1), inputs.flatten(0, 1))
        raw = to_levels(smooth_difference(versions, self.null.repeat_interleave(2, dim=0)).unflatten(0, (-1, 2)))
        ways = np.take_along_axis(raw, above.astype(np.intp)[:, :, None, None, None], axis=1)
        scale = _size(edit.changes, masks) / _size(ways, masks).clip(1e-6)
        changes = ways * scale[:, :, None, None, None].astype(np.float32)
        return placebo(edit, "random", changes, null=self.null)


def own_values(rows: Sequence[Mapping[str, float]]) -> Tensor:
    """Return the decoder's inputs ``(B, 8)`` for the faces' own values, from rows of the faces table."""
    return torch.tensor([[row[name] for name in ATTRIBUTES] for row in rows], dtype=torch.float32)


@torch.inference_mode()
def encode(network: Fader, crops: Tensor, own: Tensor) -> FaderBatch:
    """Encode a batch of faces once for all their sweeps.

    Args:
        network: the Fader network.
        crops: ``(B, 3, 128, 128)`` in -1..1.
        own: ``(B, 8)`` the faces' own values.
    """
    codes = compute(network.encode, crops, network=network)
    return FaderBatch(network, crops, codes, own, decode(network, codes, own))


def decode(network: Fader, codes: Tensor, inputs: Tensor) -> Tensor:
    """Decode codes ``(B, 256, 8, 8)`` with attribute values ``(B, 8)`` to faces ``(B, 3, 128, 128)`` in -1..1."""
    return compute(network.decode, codes, inputs, network=network)


def sweep_inputs(own: Tensor, attribute: Attribute, values: Sequence[float]) -> Tensor:
    """Return the decoder's inputs ``(B, K, 8)`` of a sweep: ``own`` ``(B, 8)`` with one attribute's inputs replaced.

    Raises:
        ValueError: the decoder has no such inputs.
    """
    missing = [name for name in attribute.inputs if name not in ATTRIBUTES]
    if missing:
        raise ValueError(f"the Fader network cannot change {attribute.name}: it has no input {', '.join(missing)}")
    places = [ATTRIBUTES.index(name) for name in attribute.inputs]
    wanted, rows = torch.tensor(values), own[:, None].repeat(1, len(values), 1)
    if attribute.categories:
        low, high = (torch.full((len(values),), attribute.categories.index(pole)) for pole in attribute.poles)
        rows[:, :, places] = category_line(wanted, low, high, count=len(places))
    else:
        rows[:, :, places] = wanted[:, None]
    return rows


def _direction(shape: Sequence[int], *, name: str, seed: int) -> Tensor:
    """Return a direction of length 1 that depends only on name and seed."""
    number = int(sha256(f"{seed} {name}".encode()).hexdigest()[:12], 16)
    direction = torch.randn(tuple(shape), generator=torch.Generator().manual_seed(number))
    unit: Tensor = direction / direction.norm()
    return unit


def _size(changes: NDArray[np.float32], masks: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the root mean square ``(B, K)`` of changes ``(B, K, S, S, 3)`` inside ``masks`` ``(B, S, S)``."""
    squares = np.einsum("bkhwc,bkhwc,bhw->bk", changes, changes, masks, dtype=np.float64, casting="unsafe")
    area = 3 * masks.sum(axis=(1, 2), dtype=np.float64).clip(1e-6)
    return np.asarray(np.sqrt(squares / area[:, None]), dtype=np.float64)
