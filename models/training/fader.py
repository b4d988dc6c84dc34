"""Training of the Fader network. The losses apply to the masked composite, which is what a classifier sees."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from models.attributes import RACES
from models.fader import GENDER, RACE, SCALED, Fader, FaderShape
from models.image_metrics import batch_luma
from models.judge import age_in_years, split, view, young_from_age
from models.precision import autocast
from models.training.data import FaceSet, balanced_weights, disturb
from models.training.edits import (
    DEFAULT_PAIR,
    composite,
    draw_batch,
    held_out_batch,
    skin_tones,
    with_value,
)
from models.training.loop import Schedule, Session, descend, drawn, generator, set_rate
from models.training.losses import drift_loss, effect_loss, hiding_loss, keep_loss, roughness
from models.training.weight_averaging import Average, Best

# A code of 256 x 4 x 4, with which edits are learnt in reasonable time; `distillation` transfers them.
COARSE = FaderShape(widths=(32, 64, 128, 256, 256))


class LatentDiscriminator(nn.Module):
    """Reads gender and race from a code; the encoder is trained against it. It is not shipped."""

    def __init__(self, shape: FaderShape | None = None) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(math.prod((shape or FaderShape()).code), 512),
            nn.LeakyReLU(0.2),
            nn.Dropout(0.2),
            nn.Linear(512, 256),
            nn.LeakyReLU(0.2),
            nn.Linear(256, 1 + len(RACES)),
        )

    def forward(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Map codes ``(B, 256, 8, 8)`` to logits of masculine ``(B,)`` and of race ``(B, 5)``."""
        outputs = self.layers(codes)
        return outputs[:, 0], outputs[:, 1:]


class PatchDiscriminator(nn.Module):
    """Distinguishes photos from edits per patch, with spectral normalisation (Miyato et al. 2018); not shipped."""

    def __init__(self, widths: tuple[int, ...] = (32, 64, 128)) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, width in zip((3, *widths[:-1]), widths, strict=True):
            conv = nn.Conv2d(before, width, 4, stride=2, padding=1)
            layers += [nn.utils.parametrizations.spectral_norm(conv), nn.LeakyReLU(0.2, inplace=True)]
        layers.append(nn.utils.parametrizations.spectral_norm(nn.Conv2d(widths[-1], 1, 4, padding=1)))
        self.layers = nn.Sequential(*layers)

    def forward(self, crops: Tensor) -> Tensor:
        """Map ``(B, 3, 128, 128)`` in -1..1 to one logit per patch, ``(B, 1, 15, 15)``."""
        logits: Tensor = self.layers(crops)
        return logits


@dataclass(frozen=True)
class FaderPlan:
    """Training parameters: weights of the losses and length of the run.

    ``reach``: edits are drawn from -reach..reach. ``gender_steepness``, ``race_steepness``: at the value a the guide
    should perceive sigmoid(steepness a). ``tone_share``: the share of the difference of the races' mean skin colours
    that a change of perceived race should take over (neck and ears keep theirs). ``most_drift``, ``least_psnr``: limits
    for an acceptable checkpoint.
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


def train(
    fader: Fader,
    guide: nn.Module,
    faces: FaceSet,
    masks: NDArray[np.uint8],
    plan: FaderPlan,
    folder: Path,
    *,
    device: str,
    compiled: bool = False,
) -> Average:
    """Train ``fader`` in place and return the running average of its weights at the best checkpoint.

    The best checkpoint has the largest effect on held-out faces within the plan's limits (Lample et al. also use swap
    accuracy); if none is within the limits, it is the last.

    Args:
        guide: a frozen classifier, neither the estimator nor the judge.
        masks: ``(N, 144, 144)`` uint8 edit regions of ``faces.crops``.
        compiled: let torch fuse the network's operations, a third faster; needs a C++ compiler.
    """
    latent, patches = LatentDiscriminator(fader.shape).to(device), PatchDiscriminator().to(device)
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
    session = Session(folder, Schedule(plan.steps, save_every=250), state)
    rows = faces.rows(0, 1)
    weights = balanced_weights(faces, rows, power=0.7)
    tones = skin_tones(faces, masks, rows[:: max(1, len(rows) // 2000)]).to(device)

    def one_step(step: int) -> dict[str, float]:
        random = generator(plan.seed, step)
        rate = plan.rate * min(1.0, (step + 1) / 200, (plan.steps - step) / (0.3 * plan.steps))
        for optimiser in (make, doubt):
            set_rate(optimiser, rate)
        chosen = drawn(rows, weights, plan.batch, random)
        crops, mask, own, edits = draw_batch(faces, masks, chosen, reach=plan.reach, random=random, device=device)

        with autocast(device):
            codes, rebuilt, result = render(fader, crops, mask, own, edits.attributes.to(device))
            # The same augmentation before and after, so that only the edit can change the guide's outputs.
            seen = [
                disturb(view(images), generator(plan.seed + 1, step), strength=0.6).contiguous(
                    memory_format=torch.channels_last
                )
                for images in (result, crops)
            ]
            after = guide(seen[0])[0].float()
            with torch.no_grad():
                before = guide(seen[1])[0].float()
            # The patch discriminator costs a fifth of a step, so it is used in every second step.
            use_patches = step % 2 == 0
            realism = F.softplus(-patches(result).float()).mean() if use_patches else result.new_zeros(())
            read_gender, read_race = latent(codes)
        ramp = min(1.0, step / (plan.latent_ramp * plan.steps))
        area = mask.sum(dim=(1, 2, 3)).clamp(min=1)
        lighter = (mask * batch_luma(result - crops)).sum(dim=(1, 2, 3)) / area
        # A change of perceived race concentrated in one place (a dark chin) exploits the guide and is no skin tone.
        of_race = ~edits.of_gender.to(device)
        patchy = mask * (batch_luma(result - crops) - lighter[:, None, None, None]).square()
        patchy = patchy.sum(dim=(1, 2, 3)) / area
        shift = (mask * (result - crops)).sum(dim=(2, 3)) / area[:, None]
        tinted = (result - crops) - batch_luma(result - crops)
        tinted = tinted - (shift - batch_luma(shift[:, :, None, None])[:, :, 0, 0])[:, :, None, None]
        tinted = (mask * tinted.square()).sum(dim=(1, 2, 3)) / (3 * area)
        races = edits.attributes[:, RACE].to(device) - own[:, RACE]
        off_tone = (shift - plan.tone_share * races @ tones).square().sum(dim=1)
        change = (mask * (result - crops)).abs().sum(dim=(1, 2, 3)) / (3 * area)
        weight = 0.3 + 1.7 * mask
        losses = {
            "reconstruction": plan.reconstruction * (weight * (rebuilt - crops).abs()).mean(),
            "effect": effect_loss(
                after,
                edits,
                steepness=(plan.gender_steepness, plan.race_steepness),
                weights=(plan.gender_effect, plan.race_effect),
            ),
            "keep": plan.keep * keep_loss(after, before, edits),
            "drift": plan.drift * drift_loss(after, before, edits),
            "lightness": plan.lightness * (edits.of_gender.to(device) * lighter.square()).mean(),
            "even": plan.even * (of_race * patchy).mean(),
            "tint": plan.tint * (torch.where(of_race, 1.0, 0.1) * tinted).mean(),
            "tone": plan.tone * (of_race * off_tone).mean(),
            "small": plan.small * change.mean(),
            "rough": plan.rough * roughness(mask * (result - crops)) / mask.mean(),
            "realism": 2 * plan.realism * realism,
            "latent": plan.latent * ramp * hiding_loss(read_gender.float(), read_race.float(), own),
        }
        figures = descend(losses, make)
        average.update(fader, step)

        for turn in range(plan.latent_turns):
            with autocast(device):
                read_gender, read_race = latent(codes.detach())
                hinge = codes.new_zeros(())
                if use_patches and turn == 0:
                    real, fake = patches(torch.cat([crops, result.detach()])).float().chunk(2)
                    hinge = F.relu(1 - real).mean() + F.relu(1 + fake).mean()
            reading = F.binary_cross_entropy_with_logits(read_gender.float(), (own[:, GENDER] + 1) / 2)
            reading = reading + F.cross_entropy(read_race.float(), own[:, RACE])
            doubt.zero_grad(set_to_none=True)
            (hinge + reading).backward()
            doubt.step()
        return figures | {"hinge": hinge.item(), "reading": reading.item()}

    for _ in session.run(one_step):
        figures = evaluate(average.module, guide, faces, masks, device=device)
        best.offer(average, worth(figures, plan))
        session.save()
        session.log(**figures, best=best.worth.item())
    return best.average if best.worth > -torch.inf else average


def _render(fader: Fader, crops: Tensor, masks: Tensor, own: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the codes, the reconstruction with the own values, and the composite with the wanted values."""
    codes = fader.encode(crops)
    rebuilt, edited = fader.decode(torch.cat([codes, codes]), torch.cat([own, wanted])).float().chunk(2)
    return codes, rebuilt, composite(crops, masks, edited, rebuilt)


def worth(figures: Mapping[str, float], plan: FaderPlan) -> float:
    """Score a checkpoint by its `evaluate` figures: its effect, or minus infinity outside the limits."""
    if figures["psnr"] < plan.least_psnr or figures["drift_1"] > plan.most_drift:
        return -float("inf")
    return sum(figures[f"{attribute}_{reach}"] for attribute in SCALED for reach in (1, 2)) / 4


@torch.no_grad()
def evaluate(
    fader: Fader, guide: nn.Module, faces: FaceSet, masks: NDArray[np.uint8], *, device: str, count: int = 192
) -> dict[str, float]:
    """Evaluate on held-out faces for model selection: PSNR of the reconstruction in the mask and, by the guide, the
    change of the attribute from -reach to +reach and the largest mean change of a control (0-1)."""
    crops, mask, own = held_out_batch(faces, masks, count=count, device=device)
    ends = [RACES.index(race) for race in DEFAULT_PAIR]
    with autocast(device):
        codes = fader.encode(crops)
        rebuilt = fader.decode(codes, own).float()

        def perceived(attributes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            result = composite(crops, mask, fader.decode(codes, attributes).float(), rebuilt)
            gender, race, _, age, smiling = split(guide(view(result))[0].float())
            pair = race[:, ends].softmax(dim=1)[:, 1]
            controls = torch.stack([young_from_age(age_in_years(age)), torch.tanh(smiling)])
            return torch.sigmoid(gender), pair, (1 + controls) / 2

        figures = {}
        for reach in (1, 2):
            drift = []
            for which, attribute in enumerate(SCALED):
                below, above = (perceived(with_value(own, attribute, side * reach)) for side in (-1, 1))
                figures[f"{attribute}_{reach}"] = (above[which] - below[which]).mean().item()
                drift.append((above[2] - below[2]).mean(dim=1).abs().max().item())
            figures[f"drift_{reach}"] = max(drift)
    error = (mask * (rebuilt - crops).square()).sum() / (3 * mask.sum())
    return {"psnr": (10 * torch.log10(4 / error)).item(), **figures}
