"""The sweeps of a batch of faces: for each attribute the edit, and the placebos of it that are wanted.

Tensors in, arrays out; nothing here touches a disk. A finding that a placebo also shows is not a finding.
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.config.attributes import Attribute
from pipeline.config.options import SweepOptions
from pipeline.counterfactuals.editors.base import Edit, FaceBatch, ImageEdit, placebo


def edits_of(
    faces: FaceBatch, attribute: Attribute, masks: NDArray[np.float32], *, options: SweepOptions
) -> Iterator[Edit | ImageEdit]:
    """One attribute's edit, then its placebos; whole images that others made have none.

    Args:
        faces: as the editor has read them.
        attribute: what is swept, between its poles.
        masks: ``(B, 128, 128)`` in 0..1: where each crop may change.
        options: the sweep's values and placebos.
    """
    edit = faces.edit(attribute, options.values(attribute.name))
    yield edit
    if isinstance(edit, ImageEdit):
        return
    for arm in options.placebos:
        if arm == "colour":
            yield colour_placebo(edit, masks, null=faces.null)
        else:
            yield faces.random_placebo(attribute, edit, masks, seed=options.placebo_seed)


def colour_placebo(edit: Edit, masks: NDArray[np.float32], *, null: Tensor) -> Edit:
    """Only the mean colour shift of the edit, the same in every pixel.

    Args:
        edit: the real one.
        masks: ``(B, 128, 128)`` in 0..1: where each crop may change.
        null: the faces' null edit ``(B, 3, 128, 128)``.
    """
    area = masks.sum(axis=(1, 2)).clip(1e-6)
    means = np.einsum("bkhwc,bhw->bkc", edit.changes, masks) / area[:, None, None]
    flat = np.broadcast_to(means[:, :, None, None], edit.changes.shape)
    return placebo(edit, "colour", np.ascontiguousarray(flat, dtype=np.float32), null=null)


@torch.inference_mode()
def null_cycles(faces: FaceBatch, masks: Tensor, *, cycles: int) -> Tensor:
    """The crops ``(B, 3, 128, 128)`` after so many null edits in `reconstruction` mode, each of the one before.

    Args:
        faces: as the editor has read them.
        masks: ``(B, 1, 128, 128)`` in 0..1: where the decoded face is pasted.
        cycles: 1 or more.
    """
    crops = faces.crops
    for _ in range(cycles):
        crops = crops + masks * (faces.null_of(crops) - crops)
    return crops
