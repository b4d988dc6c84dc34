"""The losses of the residual editor's training, each a function of what guides perceive or of the fields of change."""

import torch
from torch import Tensor
from torch.nn import functional as F

from models.attributes import RACES
from models.fader import ATTRIBUTES, GENDER, RACE
from models.judge import age_in_years, split
from models.residual import Change, ChangeFields

YOUNG, SMILING = ATTRIBUTES.index("young"), ATTRIBUTES.index("smiling")
SURE = 0.88  # the probability that a guide shall give to the wanted end, no more: real faces are not all clear-cut


def effect_loss(outputs: Tensor, wanted: Tensor, which: Tensor) -> Tensor:
    """How far a guide is from perceiving the wanted gender, race, age or smile; the mean over the faces.

    Args:
        outputs: ``(B, 14)`` a guide's raw outputs.
        wanted: ``(B, 8)`` attribute values.
        which: ``(B,)`` what was edited: 0 gender, 1 race, 2 young, 3 smiling.
    """
    gender, race, _, age, smiling = split(outputs)
    target = 0.5 + (SURE - 0.5) * wanted[:, GENDER].clamp(-1, 1)
    for_gender = F.binary_cross_entropy_with_logits(gender, target, reduction="none")
    shares = SURE * wanted[:, RACE] + (1 - SURE) / len(RACES)
    for_race = -(shares * race.log_softmax(dim=1)).sum(dim=1)
    years = 40 - 15 * torch.atanh(wanted[:, YOUNG].clamp(-0.98, 0.98))
    for_young = ((age_in_years(age) - years) / 20).square()
    for_smile = (torch.tanh(smiling) - wanted[:, SMILING]).square()
    each = torch.stack([for_gender, for_race, for_young, for_smile], dim=1)
    return each.gather(1, which[:, None]).mean()


def keep_loss(after: Tensor, before: Tensor, which: Tensor) -> Tensor:
    """How much a guide's other perceptions of each face moved: age in decades, smile, and race or gender.

    Args:
        after, before: ``(B, 14)`` raw outputs for the composites and the photos.
        which: ``(B,)`` what was edited, as in `effect_loss`.
    """
    gender, race, _, age, smiling = split(after)
    gender0, race0, _, age0, smiling0 = split(before)
    older = 4 * (age - age0).square()  # the raw output is in units of 20 years
    smile = 2 * (torch.tanh(smiling) - torch.tanh(smiling0)).square()
    moved_race = F.kl_div(race.log_softmax(1), race0.log_softmax(1), log_target=True, reduction="none").sum(1)
    moved_gender = 4 * (torch.sigmoid(gender) - torch.sigmoid(gender0)).square()
    return (
        torch.where(which == 2, 0, older)
        + torch.where(which == 3, 0, smile)
        + torch.where(which == 0, 0, moved_gender)
        + torch.where(which == 1, 0, moved_race)
    ).mean()


def drift_loss(after: Tensor, before: Tensor, difference: Tensor, which: Tensor) -> Tensor:
    """Squared slopes over the batch of perceived age (in decades) on the edited attribute's difference ``(B, 8)``.

    `keep_loss` bounds what happens to each face; a small change that always goes the same way would hide in it.
    """
    older = 2 * (split(after)[3] - split(before)[3])
    total = after.new_zeros(())
    for edited, dial in ((0, difference[:, GENDER]), (1, difference[:, 1] - difference[:, 2])):
        chosen = torch.where(which == edited, dial, 0)
        total = total + ((chosen * older).sum() / chosen.square().sum().clamp(min=2)).square()
        # What every edit does alike, whichever way it goes.
        total = total + (torch.where(which == edited, older, 0).sum() / (which == edited).sum().clamp(min=2)).square()
    return total


def concentration(light: Tensor, masks: Tensor, *, share: float = 0.05) -> Tensor:
    """The share ``(B,)`` of the squared change of light that lies in the densest ``share`` of the mask.

    Args:
        light: ``(B, S, S)`` change of luma.
        masks: ``(B, S, S)`` in 0..1.
        share: of the mask's area.
    """
    energy = (masks * light.square()).flatten(1)
    most = max(1, int(share * float(masks.sum(dim=(1, 2)).mean())))
    return energy.topk(most, dim=1).values.sum(dim=1) / energy.sum(dim=1).clamp(min=1e-8)


def stencil_loss(fields: ChangeFields, masks: Tensor, *, most: float = 0.085) -> Tensor:
    """How far the batch's mean fields of light by unit exceed ``most`` (of -1..1; 0.085 is 4 L*), inside the masks.

    A change that is the same drawing on every face is what classifiers respond to, not what people look like.
    """
    inside = masks.mean(dim=0)
    mean = (fields.luma * masks[:, None]).sum(dim=0) / masks.sum(dim=0).clamp(min=1)
    of_race = (mean[1] - mean[2])[None] / 2
    drawn = torch.cat([mean[:1], of_race])
    return (inside * F.relu(drawn.abs() - most).square()).mean() + 0.2 * (
        inside * F.relu(mean.abs() - 1.6 * most).square()
    ).mean()


def roughness(change: Change, masks: Tensor) -> Tensor:
    """Mean absolute second difference of the colour change inside ``masks``, and mean squared strain of the moves."""
    colour = change.colour
    bent = colour.diff(n=2, dim=2)[..., 1:-1].abs() + colour.diff(n=2, dim=3)[..., 1:-1, :].abs()
    inside = masks[..., 1:-1, 1:-1]
    moved = change.displacement
    strain = moved.diff(dim=2)[..., :-1].square() + moved.diff(dim=3)[..., :-1, :].square()
    return (inside * bent).sum() / (3 * inside.sum().clamp(min=1)) + 40 * strain.mean()
