"""Training of the Fader network, with the mask inside the loss: what counts is the composite that a classifier sees."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from models.fader import ATTRIBUTES, Fader, LatentDiscriminator, PatchDiscriminator, race_line, smooth_difference
from models.judge import RACES, age_in_years, split, view, young_from_age
from models.training.faces import FaceSet, balanced_weights, disturb, flip_some, shifts, to_unit
from models.training.loop import Schedule, Session, generator

GENDER, RACE = ATTRIBUTES.index("gender"), slice(1, 1 + len(RACES))


@dataclass(frozen=True)
class FadingPlan:
    """The losses' weights and the run's length. ``reach``: edits are drawn from -reach..reach."""

    steps: int = 2700
    batch: int = 32
    rate: float = 4e-4
    reach: float = 2.0
    reconstruction: float = 20.0
    effect: float = 1.2
    keep: float = 6.0
    lightness: float = 20.0
    small: float = 1.0
    rough: float = 6.0
    even: float = 60.0
    realism: float = 0.4
    latent: float = 0.1
    latent_ramp: float = 0.4
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


def effect_loss(outputs: Tensor, edits: Edits, *, steepness: float = 1.6) -> Tensor:
    """How far the guide is from perceiving the wanted value ``a``: probability sigmoid(1.6 a) of the high end."""
    gender, race, *_ = split(outputs)
    device = outputs.device
    wanted = torch.sigmoid(steepness * edits.value).to(device)
    for_gender = F.binary_cross_entropy_with_logits(gender, wanted, reduction="none")
    log_race = race.log_softmax(dim=1)
    low = log_race.gather(1, edits.low[:, None].to(device))[:, 0]
    high = log_race.gather(1, edits.high[:, None].to(device))[:, 0]
    for_race = -(wanted * high + (1 - wanted) * low)
    return torch.where(edits.of_gender.to(device), for_gender, for_race).mean()


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


def composite(photos: Tensor, masks: Tensor, edited: Tensor, reference: Tensor) -> Tensor:
    """The `delta` composite: ``photos + masks * (edited - reference)``, clipped to -1..1."""
    return (photos + masks * smooth_difference(edited, reference)).clamp(-1, 1)


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
) -> Average:
    """Train ``fader`` in place and return the running average of its weights, which is what ships.

    Args:
        guide: a frozen classifier, neither the estimator nor the judge.
        masks: ``(N, 144, 144)`` uint8 edit regions beside ``faces.crops``.
    """
    latent, patches = LatentDiscriminator().to(device), PatchDiscriminator().to(device)
    fader.to(device).to(memory_format=torch.channels_last)
    patches.to(memory_format=torch.channels_last)
    guide.to(device).to(memory_format=torch.channels_last).eval().requires_grad_(False)
    average = Average(fader).to(device)
    make = torch.optim.Adam(fader.parameters(), lr=plan.rate, betas=(0.5, 0.99))
    doubt = torch.optim.Adam([*latent.parameters(), *patches.parameters()], lr=plan.rate, betas=(0.5, 0.99))
    state = {
        "fader": fader, "average": average, "latent": latent, "patches": patches, "make": make, "doubt": doubt
    }  # fmt: skip
    session = Session(folder, Schedule(plan.steps, save_every=250), state)
    rows = faces.rows(0, 1)
    weights = balanced_weights(faces, rows, power=0.7)

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
            codes = fader.encode(crops)
            decoded = fader.decode(torch.cat([codes, codes]), torch.cat([own, edits.attributes.to(device)])).float()
            rebuilt, edited = decoded.chunk(2)
            result = composite(crops, mask, edited, rebuilt)
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
        patchy = mask * (luminance(result - crops) - lighter[:, None, None, None]).square()
        patchy = patchy.sum(dim=(1, 2, 3)) / area
        change = (mask * (result - crops)).abs().sum(dim=(1, 2, 3)) / (3 * area)
        weight = 0.3 + 1.7 * mask
        losses = {
            "reconstruction": plan.reconstruction * (weight * (rebuilt - crops).abs()).mean(),
            "effect": plan.effect * effect_loss(after, edits),
            "keep": plan.keep * keep_loss(after, before, edits),
            "lightness": plan.lightness * (edits.of_gender.to(device) * lighter.square()).mean(),
            "even": plan.even * (~edits.of_gender.to(device) * patchy).mean(),
            "small": plan.small * change.mean(),
            "rough": plan.rough * roughness(mask * (result - crops)) / mask.mean(),
            "realism": 2 * plan.realism * realism,
            "latent": plan.latent * ramp * hiding_loss(told_gender.float(), told_race.float(), own),
        }
        make.zero_grad(set_to_none=True)
        torch.stack(list(losses.values())).sum().backward()
        nn.utils.clip_grad_norm_(fader.parameters(), 5.0)
        make.step()
        average.update(fader, step)

        with torch.autocast(device, dtype=torch.bfloat16):
            told_gender, told_race = latent(codes.detach())
            tell = codes.new_zeros(())
            if play:
                real, fake = patches(torch.cat([crops, result.detach()])).float().chunk(2)
                tell = F.relu(1 - real).mean() + F.relu(1 + fake).mean()
        read = F.binary_cross_entropy_with_logits(told_gender.float(), (own[:, GENDER] + 1) / 2)
        read = read + F.cross_entropy(told_race.float(), own[:, RACE])
        doubt.zero_grad(set_to_none=True)
        (tell + read).backward()
        doubt.step()
        return {name: loss.item() for name, loss in losses.items()} | {"tell": tell.item(), "read": read.item()}

    for _ in session.run(one_step):
        session.log(**evaluate(average.module, guide, faces, masks, device=device))
    return average


def hiding_loss(gender: Tensor, race: Tensor, own: Tensor) -> Tensor:
    """The encoder's loss against the latent discriminator: the flipped gender, every race alike."""
    flipped = F.binary_cross_entropy_with_logits(gender, (1 - own[:, GENDER]) / 2)
    return flipped - race.log_softmax(dim=1).mean(dim=1).mean()


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
    """On held-out faces: PSNR of the reconstruction in the mask; the guide's perception of composites at -1 and +1."""
    rows = faces.rows(2)
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
            return torch.sigmoid(gender), pair, torch.stack([age_in_years(age) / 100, torch.tanh(smiling)])

        figures = {}
        for name, reach in (("1", 1.0), ("2", 2.0)):
            ends = []
            for value in (-reach, reach):
                attributes = own.clone()
                attributes[:, GENDER] = value
                ends.append(perceived(attributes))
            figures[f"gender_{name}"] = (ends[1][0] - ends[0][0]).mean().item()
            figures[f"gender_moves_control_{name}"] = (ends[1][2] - ends[0][2]).abs().mean().item()
            ends = []
            for value in (-reach, reach):
                attributes = own.clone()
                attributes[:, RACE] = race_line(torch.full((len(rows),), value, device=device), low, high)
                ends.append(perceived(attributes))
            figures[f"race_{name}"] = (ends[1][1] - ends[0][1]).mean().item()
    error = (mask * (rebuilt - crops).square()).sum() / (3 * mask.sum())
    return {"psnr": (10 * torch.log10(4 / error)).item(), **figures}
