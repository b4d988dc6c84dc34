"""Training of the Fader network, with the mask inside the loss: what counts is the composite that a classifier sees."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from models.fader import (
    ATTRIBUTES,
    Fader,
    LatentDiscriminator,
    PatchDiscriminator,
    race_line,
    smooth_difference,
)
from models.judge import RACES, age_in_years, split, view, young_from_age
from models.training.faces import FaceSet, balanced_weights, disturb, flip_some, selection_rows, shifts, to_unit
from models.training.loop import Schedule, Session, generator

# The erased direction follows the running mean codes once these mean something.
ERASE_FROM, ERASE_EVERY = 100, 5
GENDER, RACE = ATTRIBUTES.index("gender"), slice(1, 1 + len(RACES))


@dataclass(frozen=True)
class FadingPlan:
    """The losses' weights and the run's length.

    ``reach``: edits are drawn from -reach..reach. ``gender_steepness``, ``race_steepness``: at the value a the guide
    shall perceive sigmoid(steepness a). ``tone_share``: of the difference of the races' mean skin colours, how much a
    change of perceived race shall take over (neck and ears keep theirs). ``most_drift``, ``least_psnr``: the floors
    that a checkpoint has to keep.
    """

    steps: int = 3300
    batch: int = 32
    rate: float = 4e-4
    reach: float = 2.0
    reconstruction: float = 45.0
    gender_effect: float = 1.0
    race_effect: float = 2.2
    gender_steepness: float = 1.7
    race_steepness: float = 1.9
    keep: float = 5.0
    drift: float = 150.0
    lightness: float = 20.0
    small: float = 1.0
    rough: float = 6.0
    even: float = 120.0
    tint: float = 250.0
    tone: float = 12.0
    tone_share: float = 0.5
    realism: float = 0.4
    latent: float = 0.05
    latent_ramp: float = 0.4
    latent_turns: int = 2
    most_drift: float = 0.03
    least_psnr: float = 24.0
    seed: int = 5


class Average(nn.Module):
    """A running average of a Fader network's weights, with warm-up: decay min(0.999, (1 + t) / (10 + t))."""

    def __init__(self, module: Fader) -> None:
        super().__init__()
        self.module = type(module)()
        self.module.load_state_dict(module.state_dict())
        self.module.requires_grad_(False)

    @torch.no_grad()
    def update(self, module: nn.Module, step: int) -> None:
        """Move the average towards ``module`` after step ``step``."""
        decay = min(0.999, (1 + step) / (10 + step))
        for mean, now in zip(self.module.parameters(), module.parameters(), strict=True):
            mean.lerp_(now.detach(), 1 - decay)
        for kept, buffer in zip(self.module.buffers(), module.buffers(), strict=True):
            kept.copy_(buffer)


class MeanCodes(nn.Module):
    """Running mean codes ``(2, 5, D)`` by gender and race, for the direction that is erased."""

    means: Tensor

    def __init__(self, dimensions: int) -> None:
        super().__init__()
        self.register_buffer("means", torch.zeros(2, len(RACES), dimensions))

    @torch.no_grad()
    def update(self, codes: Tensor, own: Tensor, step: int) -> None:
        """Move the means towards those of a batch of codes before erasure ``(B, D)``."""
        sums, counts = sums_by_group(codes, own)
        pace = max(0.01, 1 / (1 + step)) * (counts > 0)
        self.means.lerp_(sums / counts.clamp(min=1), pace)


def sums_by_group(codes: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """Sums ``(2, 5, D)`` and counts ``(2, 5, 1)`` of codes ``(B, D)`` by gender and race, from values ``(B, 8)``."""
    cell = len(RACES) * (own[:, GENDER] > 0).long() + own[:, RACE].argmax(dim=1)
    members = F.one_hot(cell, 2 * len(RACES)).to(codes.dtype)
    return (members.T @ codes).view(2, len(RACES), -1), members.sum(dim=0).view(2, len(RACES), 1)


def gender_direction(means: Tensor) -> Tensor:
    """The direction ``(D,)`` of length 1 in which mean codes ``(2, 5, D)`` of the genders differ, every race alike."""
    difference = (means[1] - means[0]).mean(dim=0)
    direction: Tensor = difference / difference.norm().clamp(min=1e-12)
    return direction


class Best(nn.Module):
    """The running average at its best checkpoint so far, and what that was worth (minus infinity before the first)."""

    worth: Tensor

    def __init__(self, module: Fader) -> None:
        super().__init__()
        self.average = Average(module)
        self.register_buffer("worth", torch.tensor(-torch.inf))

    def offer(self, average: Average, worth: float) -> None:
        """Take ``average`` where it is worth more than the best so far."""
        if worth > self.worth:
            self.average.load_state_dict(average.state_dict())
            self.worth.fill_(worth)


def worth(figures: Mapping[str, float], plan: FadingPlan) -> float:
    """What a checkpoint is worth by its `evaluate` figures: its effect; nothing where it misses a floor."""
    if figures["psnr"] < plan.least_psnr or figures["drift_1"] > plan.most_drift:
        return -float("inf")
    return sum(figures[f"{attribute}_{reach}"] for attribute in ("gender", "race") for reach in (1, 2)) / 4


@dataclass(frozen=True)
class Edits:
    """What each face of a batch shall become. ``attributes`` ``(B, 8)``; ``value`` ``(B,)`` on the dial; ``of_gender``
    ``(B,)`` bool, else of race; ``low``, ``high`` ``(B,)`` the race pair."""

    attributes: Tensor
    value: Tensor
    of_gender: Tensor
    low: Tensor
    high: Tensor


def own_attributes(faces: FaceSet, rows: Tensor) -> Tensor:
    """The labelled attribute values ``(B, 8)`` of faces."""
    race = F.one_hot(faces.race[rows], len(RACES)).float()
    young = young_from_age(faces.age[rows])
    return torch.cat([faces.gender[rows, None], race, young[:, None], faces.smiling[rows, None]], dim=1)


def draw_edits(own: Tensor, plan: FadingPlan, random: torch.Generator) -> Edits:
    """For half of the faces a new gender value, for the others a point on a race line; the rest stays their own."""
    count = len(own)
    value = plan.reach * (2 * torch.rand(count, generator=random) - 1)
    of_gender = torch.rand(count, generator=random) < 0.5
    low = torch.randint(len(RACES) - 1, (count,), generator=random)
    high = (low + torch.randint(1, len(RACES) - 1, (count,), generator=random)) % (len(RACES) - 1)
    # Half of the race edits are between the default pair, the others between any two of the first four races.
    default = torch.rand(count, generator=random) < 0.5
    low = torch.where(default, RACES.index("Black"), low)
    high = torch.where(default, RACES.index("White"), high)
    attributes = own.clone()
    attributes[of_gender, GENDER] = value[of_gender]
    attributes[~of_gender, RACE] = race_line(value, low, high)[~of_gender]
    return Edits(attributes, value, of_gender, low, high)


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


def composite(photos: Tensor, masks: Tensor, edited: Tensor, reference: Tensor) -> Tensor:
    """The `delta` composite: ``photos + masks * (edited - reference)``, clipped to -1..1."""
    return (photos + masks * smooth_difference(edited, reference)).clamp(-1, 1)


def _render(
    fader: Fader, crops: Tensor, masks: Tensor, own: Tensor, wanted: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The flat codes before erasure, the codes, the reconstruction with the faces' own values, the wanted composite."""
    raw = fader.encoder(crops)
    codes = fader.erase(raw)
    rebuilt, edited = fader.decode(torch.cat([codes, codes]), torch.cat([own, wanted])).float().chunk(2)
    return raw.float().flatten(1), codes, rebuilt, composite(crops, masks, edited, rebuilt)


@torch.no_grad()
def fit_erasure(fader: Fader, faces: FaceSet, *, device: str) -> None:
    """Set the erased direction from the mean codes of all training faces."""
    sums = torch.zeros(2, len(RACES), len(fader.erased))
    counts = torch.zeros(2, len(RACES), 1)
    for chunk in faces.rows(0, 1).split(256):
        crops = to_unit(faces.pixels(chunk)).to(device, memory_format=torch.channels_last)
        with torch.autocast(device, dtype=torch.bfloat16):
            codes = fader.encoder(crops).float().flatten(1).cpu()
        more, found = sums_by_group(codes, own_attributes(faces, chunk))
        sums, counts = sums + more, counts + found
    fader.erased.copy_(gender_direction(sums / counts.clamp(min=1)).to(device))


def roughness(images: Tensor) -> Tensor:
    """Mean absolute difference of neighbouring pixels."""
    return images.diff(dim=2).abs().mean() + images.diff(dim=3).abs().mean()


def luminance(images: Tensor) -> Tensor:
    """Rec. 601 luma ``(B, 1, H, W)`` of RGB."""
    weights = images.new_tensor([0.299, 0.587, 0.114])[:, None, None]
    return (images * weights).sum(dim=1, keepdim=True)


def train(
    fader: Fader,
    guide: nn.Module,
    faces: FaceSet,
    masks: NDArray[np.uint8],
    plan: FadingPlan,
    folder: Path,
    *,
    device: str,
    compiled: bool = False,
) -> Average:
    """Train ``fader`` in place and return the running average of its weights at the best checkpoint: what ships.

    The best is the one of the largest effect on held-out faces among those that keep the plan's floors (Lample et al.
    choose by swap accuracy too); where none does, the last.

    Args:
        guide: a frozen classifier, neither the estimator nor the judge.
        masks: ``(N, 144, 144)`` uint8 edit regions beside ``faces.crops``.
        compiled: let torch fuse the network's operations, a third faster; needs a C++ compiler.
    """
    latent, patches = LatentDiscriminator().to(device), PatchDiscriminator().to(device)
    fader.to(device).to(memory_format=torch.channels_last)
    patches.to(memory_format=torch.channels_last)
    guide.to(device).to(memory_format=torch.channels_last).eval().requires_grad_(False)
    average = Average(fader).to(device)
    make = torch.optim.Adam(fader.parameters(), lr=plan.rate, betas=(0.5, 0.99))
    doubt = torch.optim.Adam([*latent.parameters(), *patches.parameters()], lr=plan.rate, betas=(0.5, 0.99))
    best = Best(fader).to(device)
    state = {
        "fader": fader, "average": average, "best": best, "latent": latent, "patches": patches,
        "make": make, "doubt": doubt,
    }  # fmt: skip
    render = torch.compile(_render) if compiled else _render
    means = MeanCodes(fader.erased.shape[0]).to(device)
    state["means"] = means
    session = Session(folder, Schedule(plan.steps, save_every=250), state)
    rows = faces.rows(0, 1)
    weights = balanced_weights(faces, rows, power=0.7)
    tones = skin_tones(faces, masks, rows[:: max(1, len(rows) // 2000)]).to(device)

    def one_step(step: int) -> dict[str, float]:
        random = generator(plan.seed, step)
        rate = plan.rate * min(1.0, (step + 1) / 200, (plan.steps - step) / (0.3 * plan.steps))
        for group in (*make.param_groups, *doubt.param_groups):
            group["lr"] = rate
        chosen = rows[torch.multinomial(weights, plan.batch, replacement=True, generator=random)]
        shift = shifts(plan.batch, reach=3, random=random)
        crops = to_unit(faces.pixels(chosen, shift))
        mask = mask_pixels(masks, chosen, shift)
        both = flip_some(torch.cat([crops, mask], dim=1), random).to(device, memory_format=torch.channels_last)
        crops, mask = both[:, :3], both[:, 3:]
        own = own_attributes(faces, chosen)
        edits = draw_edits(own, plan, random)
        own = own.to(device)

        with torch.autocast(device, dtype=torch.bfloat16):
            raw, codes, rebuilt, result = render(fader, crops, mask, own, edits.attributes.to(device))
            # The same disturbance before and after, so that only the edit can move what the guide perceives.
            seen = [
                disturb(view(images), generator(plan.seed + 1, step), strength=0.6).contiguous(
                    memory_format=torch.channels_last
                )
                for images in (result, crops)
            ]
            after = guide(seen[0])[0].float()
            with torch.no_grad():
                before = guide(seen[1])[0].float()
            # The patch discriminator costs a fifth of a step, so it plays in every second one.
            play = step % 2 == 0
            realism = F.softplus(-patches(result).float()).mean() if play else result.new_zeros(())
            told_gender, told_race = latent(codes)
        ramp = min(1.0, step / (plan.latent_ramp * plan.steps))
        area = mask.sum(dim=(1, 2, 3)).clamp(min=1)
        lighter = (mask * luminance(result - crops)).sum(dim=(1, 2, 3)) / area
        # A change of perceived race that gathers in one place (a dark chin) is the guide's taste, not a skin tone.
        of_race = ~edits.of_gender.to(device)
        patchy = mask * (luminance(result - crops) - lighter[:, None, None, None]).square()
        patchy = patchy.sum(dim=(1, 2, 3)) / area
        shift = (mask * (result - crops)).sum(dim=(2, 3)) / area[:, None]
        tinted = (result - crops) - luminance(result - crops)
        tinted = tinted - (shift - luminance(shift[:, :, None, None])[:, :, 0, 0])[:, :, None, None]
        tinted = (mask * tinted.square()).sum(dim=(1, 2, 3)) / (3 * area)
        races = edits.attributes[:, RACE].to(device) - own[:, RACE]
        off_tone = (shift - plan.tone_share * races @ tones).square().sum(dim=1)
        change = (mask * (result - crops)).abs().sum(dim=(1, 2, 3)) / (3 * area)
        weight = 0.3 + 1.7 * mask
        losses = {
            "reconstruction": plan.reconstruction * (weight * (rebuilt - crops).abs()).mean(),
            "effect": effect_loss(after, edits, plan),
            "keep": plan.keep * keep_loss(after, before, edits),
            "drift": plan.drift * drift_loss(after, before, edits),
            "lightness": plan.lightness * (edits.of_gender.to(device) * lighter.square()).mean(),
            "even": plan.even * (of_race * patchy).mean(),
            "tint": plan.tint * (torch.where(of_race, 1.0, 0.1) * tinted).mean(),
            "tone": plan.tone * (of_race * off_tone).mean(),
            "small": plan.small * change.mean(),
            "rough": plan.rough * roughness(mask * (result - crops)) / mask.mean(),
            "realism": 2 * plan.realism * realism,
            "latent": plan.latent * ramp * hiding_loss(told_gender.float(), told_race.float(), own),
        }
        make.zero_grad(set_to_none=True)
        torch.stack(list(losses.values())).sum().backward()
        nn.utils.clip_grad_norm_(fader.parameters(), 5.0)
        make.step()
        means.update(raw.detach(), own, step)
        if step >= ERASE_FROM and step % ERASE_EVERY == 0:
            fader.erased.copy_(gender_direction(means.means))
        average.update(fader, step)

        for turn in range(plan.latent_turns):
            with torch.autocast(device, dtype=torch.bfloat16):
                told_gender, told_race = latent(codes.detach())
                tell = codes.new_zeros(())
                if play and turn == 0:
                    real, fake = patches(torch.cat([crops, result.detach()])).float().chunk(2)
                    tell = F.relu(1 - real).mean() + F.relu(1 + fake).mean()
            read = F.binary_cross_entropy_with_logits(told_gender.float(), (own[:, GENDER] + 1) / 2)
            read = read + F.cross_entropy(told_race.float(), own[:, RACE])
            doubt.zero_grad(set_to_none=True)
            (tell + read).backward()
            doubt.step()
        return {name: loss.item() for name, loss in losses.items()} | {"tell": tell.item(), "read": read.item()}

    for _ in session.run(one_step):
        figures = evaluate(average.module, guide, faces, masks, device=device)
        best.offer(average, worth(figures, plan))
        session.save()
        session.log(**figures, best=best.worth.item())
    chosen = best.average if best.worth > -torch.inf else average
    fit_erasure(chosen.module, faces, device=device)
    return chosen


def skin_tones(faces: FaceSet, masks: NDArray[np.uint8], rows: Tensor) -> Tensor:
    """The mean colour ``(5, 3)`` inside the masks, in -1..1, of the faces labelled with each race."""
    sums, counts = torch.zeros(len(RACES), 3), torch.zeros(len(RACES), 1)
    for chunk in rows.split(256):
        crops = to_unit(faces.pixels(chunk))
        inside = mask_pixels(masks, chunk, torch.zeros(len(chunk), 2, dtype=torch.long))
        means = (crops * inside).sum(dim=(2, 3)) / inside.sum(dim=(2, 3)).clamp(min=1)
        sums.index_add_(0, faces.race[chunk], means)
        counts.index_add_(0, faces.race[chunk], torch.ones(len(chunk), 1))
    return sums / counts.clamp(min=1)


def hiding_loss(gender: Tensor, race: Tensor, own: Tensor) -> Tensor:
    """The encoder's loss against the latent discriminator: the flipped gender, every race alike.

    Race counts for less: most of what tells it is the skin's tone, and a code without that cannot rebuild the photo.
    """
    flipped = F.binary_cross_entropy_with_logits(gender, (1 - own[:, GENDER]) / 2)
    return flipped - 0.2 * race.log_softmax(dim=1).mean(dim=1).mean()


def mask_pixels(masks: NDArray[np.uint8], rows: Tensor, shift: Tensor, *, size: int = 128) -> Tensor:
    """``(B, 1, 128, 128)`` masks in 0..1, shifted like the crops."""
    margin = (masks.shape[1] - size) // 2
    cut = [
        masks[int(row), margin + int(dy) : margin + int(dy) + size, margin + int(dx) : margin + int(dx) + size]
        for row, (dy, dx) in zip(rows, shift, strict=True)
    ]
    return torch.from_numpy(np.stack(cut)).float()[:, None] / 255


@torch.no_grad()
def evaluate(
    fader: Fader, guide: nn.Module, faces: FaceSet, masks: NDArray[np.uint8], *, device: str, count: int = 192
) -> dict[str, float]:
    """On held-out faces kept for choosing: PSNR of the reconstruction in the mask; what the guide perceives in
    composites at -reach and +reach: the change of the attribute, and the largest mean change of a control (0-1)."""
    rows = selection_rows(faces)
    rows = rows[:: max(1, len(rows) // count)]
    still = torch.zeros(len(rows), 2, dtype=torch.long)
    crops = to_unit(faces.pixels(rows)).to(device, memory_format=torch.channels_last)
    mask = mask_pixels(masks, rows, still).to(device)
    own = own_attributes(faces, rows).to(device)
    low = torch.full((len(rows),), RACES.index("Black"), device=device)
    high = torch.full((len(rows),), RACES.index("White"), device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        codes = fader.encode(crops)
        rebuilt = fader.decode(codes, own).float()

        def perceived(attributes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            result = composite(crops, mask, fader.decode(codes, attributes).float(), rebuilt)
            gender, race, _, age, smiling = split(guide(view(result))[0].float())
            pair = torch.stack([race[:, 1], race[:, 0]], dim=1).softmax(dim=1)[:, 1]
            controls = torch.stack([young_from_age(age_in_years(age)), torch.tanh(smiling)])
            return torch.sigmoid(gender), pair, (1 + controls) / 2

        def at(attribute: str, value: float) -> tuple[Tensor, Tensor, Tensor]:
            attributes = own.clone()
            if attribute == "gender":
                attributes[:, GENDER] = value
            else:
                attributes[:, RACE] = race_line(torch.full((len(rows),), value, device=device), low, high)
            return perceived(attributes)

        figures = {}
        for reach in (1, 2):
            drift = []
            for which, attribute in enumerate(("gender", "race")):
                below, above = at(attribute, -reach), at(attribute, reach)
                figures[f"{attribute}_{reach}"] = (above[which] - below[which]).mean().item()
                drift.append((above[2] - below[2]).mean(dim=1).abs().max().item())
            figures[f"drift_{reach}"] = max(drift)
    error = (mask * (rebuilt - crops).square()).sum() / (3 * mask.sum())
    return {"psnr": (10 * torch.log10(4 / error)).item(), **figures}
