"""Distillation of the shipped Fader network from a coarser teacher: the same edits with a more detailed code.

The teacher has learnt from a guide and from discriminators what a value looks like, but its code is too small for a
sharp reconstruction. The student copies each photo and the teacher's change of it. It can therefore have a larger code,
from which gender is erased, without learning the edits again.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from models.fader import SCALED, Fader
from models.training.concept_erasure import fit_erasure
from models.training.data import FaceSet, balanced_weights
from models.training.edits import draw_batch, held_out_batch, with_value
from models.training.loop import Schedule, Session, descend, drawn, generator, one_cycle, set_rate
from models.training.losses import structure_loss
from models.training.weight_averaging import Average


@dataclass(frozen=True)
class DistillationPlan:
    """Training parameters.

    ``reach``: edits are drawn from -reach..reach. ``change``, ``structure``: weights of losses relative to the
    reconstruction's L1.
    """

    steps: int = 1800
    batch: int = 24
    rate: float = 1e-3
    reach: float = 2.0
    change: float = 4.0
    structure: float = 0.3
    seed: int = 11

    @property
    def settled(self) -> int:
        """The step from which encoder and erasure are fixed and only the decoder is trained."""
        return int(0.6 * self.steps)


def train(
    fader: Fader, teacher: Fader, faces: FaceSet, masks: NDArray[np.uint8], plan: DistillationPlan, folder: Path,
    *, device: str,
) -> Average:  # fmt: skip
    """Train ``fader`` in place to reconstruct and change photos as ``teacher`` does; return its running average.

    The teacher's calibrated strengths are part of the target changes, so the student needs none.

    Args:
        masks: ``(N, 144, 144)`` uint8 edit regions of ``faces.crops``.
    """
    fader.to(device).to(memory_format=torch.channels_last)
    teacher.to(device).to(memory_format=torch.channels_last).eval().requires_grad_(False)
    average = Average(fader).to(device)
    optimiser = torch.optim.Adam(fader.parameters(), lr=plan.rate, betas=(0.9, 0.99))
    session = Session(
        folder, Schedule(plan.steps, save_every=200), {"fader": fader, "average": average, "optimiser": optimiser}
    )
    rows = faces.rows(0, 1)
    weights = balanced_weights(faces, rows, power=0.5)

    def one_step(step: int) -> dict[str, float]:
        random = generator(plan.seed, step)
        if step == plan.settled:
            fit_erasure(fader, faces, device=device)
        # The encoder is frozen, because it would otherwise encode gender along other directions.
        fader.encoder.requires_grad_(step < plan.settled)
        set_rate(optimiser, one_cycle(step, steps=plan.steps, peak=plan.rate, warm_up=0.05))
        chosen = drawn(rows, weights, plan.batch, random)
        crops, mask, own, edits = draw_batch(faces, masks, chosen, reach=plan.reach, random=random, device=device)
        wanted = edits.attributes.to(device)
        with torch.no_grad():
            scale = teacher.strength[(~edits.of_gender).long()].to(device)
            change = scale[:, None, None, None] * change_of(teacher, crops, own, wanted)[1]
        rebuilt, copied = change_of(fader, crops, own, wanted)
        weight = 0.3 + 1.7 * mask
        losses = {
            "reconstruction": (weight * (rebuilt - crops).abs()).mean(),
            "structure": plan.structure * structure_loss(rebuilt, crops, mask),
            "change": plan.change * (weight * (copied - change).abs()).mean(),
        }
        figures = descend(losses, optimiser, steepest=1.0)
        # Earlier weights belong to other codes, so the average starts again.
        average.update(fader, step - plan.settled if step >= plan.settled else step)
        return figures

    for _ in session.run(one_step):
        session.log(**evaluate(average.module, teacher, faces, masks, device=device))
    return average


def change_of(fader: Fader, crops: Tensor, own: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Return the reconstruction of crops ``(B, 3, 128, 128)``, and its change from the own to the wanted values."""
    codes = fader.encode(crops)
    rebuilt, edited = fader.decode(torch.cat([codes, codes]), torch.cat([own, wanted])).chunk(2)
    return rebuilt, edited - rebuilt


@torch.no_grad()
def evaluate(
    fader: Fader, teacher: Fader, faces: FaceSet, masks: NDArray[np.uint8], *, device: str, count: int = 96
) -> dict[str, float]:
    """Evaluate on held-out faces for model selection, inside the mask: PSNR and mean SSIM of the reconstruction, and
    the share of the teacher's change at -1 and +1 (in mean square) that is not copied."""
    crops, mask, own = held_out_batch(faces, masks, count=count, device=device)
    missed, wanted_change = torch.zeros(()), torch.zeros(())
    rebuilt = crops
    for value in (-1.0, 1.0):
        wanted = with_value(own, SCALED[0], value)
        change = teacher.strength[0] * change_of(teacher, crops, own, wanted)[1]
        rebuilt, copied = change_of(fader, crops, own, wanted)
        missed = missed + (mask * (copied - change).square()).sum().cpu()
        wanted_change = wanted_change + (mask * change.square()).sum().cpu()
    error = (mask * (rebuilt - crops).square()).sum() / (3 * mask.sum())
    return {
        "psnr": (10 * torch.log10(4 / error)).item(),
        "ssim": 1 - structure_loss(rebuilt, crops, mask).item(),
        "gender_change_missed": (missed / wanted_change).item(),
    }


def inherit(fader: Fader, teacher: Fader) -> None:
    """Initialise ``fader`` from a teacher with one more layer on each side of its code."""
    fader.encoder.load_state_dict(teacher.encoder[: len(fader.encoder)].state_dict())
    fader.decoder.load_state_dict(nn.ModuleList(list(teacher.decoder)[-len(fader.decoder) :]).state_dict())
    fader.to_rgb.load_state_dict(teacher.to_rgb.state_dict())
