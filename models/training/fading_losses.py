"""The losses of the Fader network's training, each a function of what a guide perceives or of the pixels."""

import torch
from torch import Tensor
from torch.nn import functional as F

from models.judge import split
from models.training.edits import GENDER, Edits
from models.training.fading_plan import FadingPlan


def effect_loss(outputs: Tensor, edits: Edits, plan: FadingPlan) -> Tensor:
    """How far the guide is from perceiving the wanted value ``a``: probability sigmoid(steepness a) of the high end.

    Weighted by the plan.
    """
    gender, race, *_ = split(outputs)
    device = outputs.device
    steepness = torch.where(edits.of_gender, plan.gender_steepness, plan.race_steepness)
    wanted = torch.sigmoid(steepness * edits.value).to(device)
    for_gender = F.binary_cross_entropy_with_logits(gender, wanted, reduction="none")
    log_race = race.log_softmax(dim=1)
    low = log_race.gather(1, edits.low[:, None].to(device))[:, 0]
    high = log_race.gather(1, edits.high[:, None].to(device))[:, 0]
    for_race = -(wanted * high + (1 - wanted) * low)
    return torch.where(edits.of_gender.to(device), plan.gender_effect * for_gender, plan.race_effect * for_race).mean()


def keep_loss(after: Tensor, before: Tensor, edits: Edits) -> Tensor:
    """How much the guide's other perceptions moved: age and smiling always, race or gender as not edited."""
    gender, race, _, age, smiling = split(after)
    gender0, race0, _, age0, smiling0 = split(before)
    of_gender = edits.of_gender.to(after.device)
    moved_race = F.kl_div(race.log_softmax(1), race0.log_softmax(1), log_target=True, reduction="none").sum(1)
    moved_gender = (torch.sigmoid(gender) - torch.sigmoid(gender0)).square() * 4
    other = torch.where(of_gender, moved_race, moved_gender)
    moved = 2 * (age - age0).square() + 2 * (torch.tanh(smiling) - torch.tanh(smiling0)).square()
    return (other + moved).mean()


def drift_loss(after: Tensor, before: Tensor, edits: Edits) -> Tensor:
    """How much age and smile, as the guide perceives them, go along with the dial: squared slopes over the batch.

    `keep_loss` bounds what happens to each face; a small change that always goes the same way would hide in it.
    """
    *_, age, smiling = split(after)
    *_, age0, smiling0 = split(before)
    value = edits.value.to(after.device)
    total = after.new_zeros(())
    for chosen in (edits.of_gender.to(after.device), ~edits.of_gender.to(after.device)):
        dial = value * chosen
        scale = dial.square().sum().clamp(min=1)
        for change in (age - age0, torch.tanh(smiling) - torch.tanh(smiling0)):
            total = total + ((dial * change).sum() / scale).square()
    return total


def hiding_loss(gender: Tensor, race: Tensor, own: Tensor) -> Tensor:
    """The encoder's loss against the latent discriminator: the flipped gender, every race alike.

    Race counts for less: most of what tells it is the skin's tone, and a code without that cannot rebuild the photo.
    """
    flipped = F.binary_cross_entropy_with_logits(gender, (1 - own[:, GENDER]) / 2)
    return flipped - 0.2 * race.log_softmax(dim=1).mean(dim=1).mean()


def roughness(images: Tensor) -> Tensor:
    """Mean absolute difference of neighbouring pixels."""
    return images.diff(dim=2).abs().mean() + images.diff(dim=3).abs().mean()


def luminance(images: Tensor) -> Tensor:
    """Rec. 601 luma ``(B, 1, H, W)`` of RGB."""
    weights = images.new_tensor([0.299, 0.587, 0.114])[:, None, None]
    return (images * weights).sum(dim=1, keepdim=True)
