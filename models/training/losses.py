"""Losses of the Fader network, on the guide's outputs for the edits, on codes, and on pixels."""

import torch
from torch import Tensor
from torch.nn import functional as F

from models.fader import GENDER
from models.image_metrics import batch_luma, structural_similarity
from models.judge import split
from models.training.edits import Edits


def effect_loss(
    outputs: Tensor, edits: Edits, *, steepness: tuple[float, float], weights: tuple[float, float]
) -> Tensor:
    """Cross-entropy of the guide's outputs with the target probability sigmoid(steepness a) of the high end.

    Args:
        outputs: the guide's raw outputs ``(B, 14)`` for the composites.
        edits: the target values.
        steepness: for gender and for race.
        weights: of the loss for gender and for race.
    """
    gender, race, *_ = split(outputs)
    device = outputs.device
    wanted = torch.sigmoid(torch.where(edits.of_gender, *steepness) * edits.value).to(device)
    for_gender = F.binary_cross_entropy_with_logits(gender, wanted, reduction="none")
    log_race = race.log_softmax(dim=1)
    low = log_race.gather(1, edits.low[:, None].to(device))[:, 0]
    high = log_race.gather(1, edits.high[:, None].to(device))[:, 0]
    for_race = -(wanted * high + (1 - wanted) * low)
    return torch.where(edits.of_gender.to(device), weights[0] * for_gender, weights[1] * for_race).mean()


def keep_loss(after: Tensor, before: Tensor, edits: Edits) -> Tensor:
    """Penalise changes of the guide's other outputs: age and smiling, and race or gender if not edited."""
    gender, race, _, age, smiling = split(after)
    gender0, race0, _, age0, smiling0 = split(before)
    of_gender = edits.of_gender.to(after.device)
    moved_race = F.kl_div(race.log_softmax(1), race0.log_softmax(1), log_target=True, reduction="none").sum(1)
    moved_gender = (torch.sigmoid(gender) - torch.sigmoid(gender0)).square() * 4
    other = torch.where(of_gender, moved_race, moved_gender)
    moved = 2 * (age - age0).square() + 2 * (torch.tanh(smiling) - torch.tanh(smiling0)).square()
    return (other + moved).mean()


def drift_loss(after: Tensor, before: Tensor, edits: Edits) -> Tensor:
    """Penalise the squared slopes of perceived age and smile on the value over the batch.

    `keep_loss` limits the change of each face, but not a small change that always has the same direction.
    """
    *_, age, smiling = split(after)
    *_, age0, smiling0 = split(before)
    value = edits.value.to(after.device)
    total = after.new_zeros(())
    for chosen in (edits.of_gender.to(after.device), ~edits.of_gender.to(after.device)):
        edited = value * chosen
        scale = edited.square().sum().clamp(min=1)
        for change in (age - age0, torch.tanh(smiling) - torch.tanh(smiling0)):
            total = total + ((edited * change).sum() / scale).square()
    return total


def hiding_loss(gender: Tensor, race: Tensor, own: Tensor) -> Tensor:
    """The encoder's loss against the latent discriminator: flipped gender, uniform race.

    Race has a smaller weight, because it mostly shows in skin tone, which the code needs for reconstruction.
    """
    flipped = F.binary_cross_entropy_with_logits(gender, (1 - own[:, GENDER]) / 2)
    return flipped - 0.2 * race.log_softmax(dim=1).mean(dim=1).mean()


def roughness(images: Tensor) -> Tensor:
    """Return the mean absolute difference of neighbouring pixels."""
    return images.diff(dim=2).abs().mean() + images.diff(dim=3).abs().mean()


def structure_loss(images: Tensor, truth: Tensor, mask: Tensor) -> Tensor:
    """Return 1 - structural similarity in windows of 8 pixels, averaged inside the mask.

    Args:
        images: ``(B, 3, H, W)`` in -1..1.
        truth: the target images, of the same shape.
        mask: ``(B, 1, H, W)`` in 0..1.
    """

    def mean(image: Tensor) -> Tensor:
        return F.avg_pool2d(image, 8, stride=2)

    similarity = structural_similarity(batch_luma(images) / 2, batch_luma(truth) / 2, mean, levels=1.0)
    inside = mean(mask)
    return (inside * (1 - similarity)).sum() / inside.sum().clamp(min=1)
