"""Training of the residual editor: what a network adds to the prototypes for each face. Tone is done in closed form.

A projection discriminator compares composites with photos of people who have the wanted values; guides make sure that
the attribute is seen and that nothing else is.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from models.attributes import RACES
from models.fader import GENDER, RACE
from models.image_metrics import batch_luma
from models.judge import split
from models.residual import ResidualEditor, apply_change, centred, change_by
from models.tone import ToneTable, tone_shifts
from models.training.data import balanced_weights, selection_rows, shifts
from models.training.discriminators import ProjectionDiscriminator, augmented, gradient_penalty
from models.training.guides import Guide
from models.training.loop import Schedule, Session, generator
from models.training.residual_losses import (
    SMILING,
    YOUNG,
    concentration,
    drift_loss,
    effect_loss,
    keep_loss,
    roughness,
    stencil_loss,
)
from models.training.small_faces import FACE, SIZE, SmallFaces, shift_tones


@dataclass(frozen=True)
class ResidualPlan:
    """The losses' weights and the run's length. ``mixture``: how often gender, race, age and smile are edited."""

    steps: int = 6000
    batch: int = 16
    rate: float = 3e-4
    critic_rate: float = 1e-3
    mixture: tuple[float, float, float, float] = (0.5, 0.34, 0.09, 0.07)
    realism: float = 1.0
    effect: float = 1.0
    keep: float = 2.0
    drift: float = 12.0
    dense: float = 4.0
    densest: float = 0.3
    stencil: float = 400.0
    rough: float = 6.0
    small: float = 12.0
    penalty: float = 0.5
    penalty_every: int = 8
    decay: float = 0.995
    seed: int = 31


@dataclass(frozen=True)
class Batch:
    """``B`` faces and what they shall become.

    Attributes:
        faces: ``(B, 3, 64, 64)`` in -1..1.
        toned: the same with the wanted skin tone.
        masks: ``(B, 1, 64, 64)`` in 0..1, where features may change.
        own: ``(B, 8)`` labelled attribute values.
        wanted: ``(B, 8)`` values that the edit shall show.
        which: ``(B,)`` what is edited: 0 gender, 1 race, 2 young, 3 smiling.
    """

    faces: Tensor
    toned: Tensor
    masks: Tensor
    own: Tensor
    wanted: Tensor
    which: Tensor


def train(
    editor: ResidualEditor,
    guides: Mapping[str, Guide],
    faces: SmallFaces,
    tones: ToneTable,
    plan: ResidualPlan,
    folder: Path,
) -> ResidualEditor:
    """Train ``editor`` in place; returns the running average of its weights.

    Args:
        editor: with the prototypes as its common fields.
        guides: frozen classifiers, neither the estimator nor the judge.
        faces: the labelled faces at half resolution.
        tones: the groups' skin colours.
        plan: what weighs how much.
        folder: for checkpoints and the log; a run in it is continued.
    """
    critic = ProjectionDiscriminator()
    for guide in guides.values():
        guide.eval().requires_grad_(False)
    average = deepcopy(editor).eval().requires_grad_(False)
    editor.train()
    make = torch.optim.Adam(editor.parameters(), lr=plan.rate, betas=(0.0, 0.99))
    doubt = torch.optim.Adam(critic.parameters(), lr=plan.critic_rate, betas=(0.0, 0.99))
    state = {"editor": editor, "average": average, "critic": critic, "make": make, "doubt": doubt}
    session = Session(folder, Schedule(plan.steps, log_every=25, save_every=250), state)
    rows = faces.labels.rows(0, 1)
    rows = rows[torch.isfinite(faces.lab[rows]).all(dim=1)]
    weights = balanced_weights(faces.labels, rows, power=0.7)

    def one_step(step: int) -> dict[str, float]:
        random = generator(plan.seed, step)
        rate = min(1.0, (step + 1) / 100, 0.05 + 2 * (plan.steps - step) / plan.steps)
        make.param_groups[0]["lr"], doubt.param_groups[0]["lr"] = rate * plan.rate, rate * plan.critic_rate
        batch = draw(faces, rows, weights, tones, plan, random)
        fields = editor(batch.faces)
        change = centred(change_by(fields, batch.wanted - batch.own, size=SIZE), batch.masks)
        result = apply_change(batch.toned, change, batch.masks)

        real_rows = rows[torch.multinomial(weights, plan.batch, replacement=True, generator=random)]
        real, _ = faces.batch(real_rows, shift=shifts(plan.batch, reach=2, random=random))
        real_own = faces.own[real_rows]
        seen = augmented(torch.cat([real, result.detach()]), random)
        logits = critic(seen, torch.cat([real_own, batch.wanted.clamp(-1, 1)]))
        doubt_loss = F.softplus(-logits[: plan.batch]).mean() + F.softplus(logits[plan.batch :]).mean()
        if step % plan.penalty_every == 0:
            r1 = gradient_penalty(critic, seen[: plan.batch], real_own)
            doubt_loss = doubt_loss + plan.penalty_every * plan.penalty / 2 * r1
        doubt.zero_grad(set_to_none=True)
        doubt_loss.backward()
        doubt.step()

        critic.requires_grad_(False)
        realism = F.softplus(-critic(augmented(result, random), batch.wanted.clamp(-1, 1))).mean()
        critic.requires_grad_(True)
        names = list(guides)
        chosen = [names[k] for k in torch.randperm(len(names), generator=random)[:2].tolist()]
        effect, keep, drift = (result.new_zeros(()) for _ in range(3))
        for name in chosen:
            # The same disturbance before and after, so that only the edit can move what the guide perceives.
            after = guides[name](result, generator(plan.seed + 1, step))
            with torch.no_grad():
                before = guides[name](batch.faces, generator(plan.seed + 1, step))
            effect = effect + effect_loss(after, batch.wanted, batch.which) / len(chosen)
            keep = keep + keep_loss(after, before, batch.which) / len(chosen)
            drift = drift + drift_loss(after, before, batch.wanted - batch.own, batch.which) / len(chosen)
        masks = batch.masks[:, 0]
        light = batch_luma(change.colour)[:, 0]
        dense = concentration(light, masks)
        losses = {
            "realism": plan.realism * realism,
            "effect": plan.effect * effect,
            "keep": plan.keep * keep,
            "drift": plan.drift * drift,
            "dense": plan.dense * F.relu(dense - plan.densest).mean(),
            "stencil": plan.stencil * stencil_loss(fields, masks),
            "rough": plan.rough * roughness(change, batch.masks),
            # What the network adds to the prototypes has to be worth it.
            "small": plan.small * (fields.luma - editor.common_luma()).abs().mean(),
        }
        make.zero_grad(set_to_none=True)
        torch.stack(list(losses.values())).sum().backward()
        torch.nn.utils.clip_grad_norm_(editor.parameters(), 5.0)
        make.step()
        decay = min(plan.decay, (1 + step) / (10 + step))
        with torch.no_grad():
            for mean, now in zip(average.parameters(), editor.parameters(), strict=True):
                mean.lerp_(now, 1 - decay)
        return {name: loss.item() for name, loss in losses.items()} | {
            "critic": doubt_loss.item(), "real": logits[: plan.batch].mean().item(),
            "fake": logits[plan.batch :].mean().item(), "densest": dense.mean().item(),
        }  # fmt: skip

    for _ in session.run(one_step):
        session.log(**evaluate(average, guides, faces, tones))
    return average


def draw(
    faces: SmallFaces, rows: Tensor, weights: Tensor, tones: ToneTable, plan: ResidualPlan, random: torch.Generator
) -> Batch:
    """A batch of faces, drawn by ``weights``, and what each shall become: another gender, race, age or smile."""
    count = plan.batch
    chosen = rows[torch.multinomial(weights, count, replacement=True, generator=random)]
    crops, classes = faces.batch(
        chosen,
        shift=shifts(count, reach=2, random=random),
        mirrored=torch.rand(count, generator=random) < 0.5,
    )
    own = faces.own[chosen].clone()
    wanted = own.clone()
    which = torch.multinomial(torch.tensor(plan.mixture), count, replacement=True, generator=random)
    wanted[which == 0, GENDER] *= -1
    race = faces.labels.race[chosen]
    other = (race + torch.randint(1, 4, (count,), generator=random)) % 4
    # Half of the time the default pair, where the face is of one of the two.
    pair = (race < 2) & (torch.rand(count, generator=random) < 0.6)
    other = torch.where(race > 3, torch.randint(0, 4, (count,), generator=random), torch.where(pair, 1 - race, other))
    of_race = which == 1
    wanted[of_race, RACE] = F.one_hot(other, len(RACES)).float()[of_race]
    wanted[which == 2, YOUNG] = (2 * torch.rand(count, generator=random) - 1)[which == 2] * 0.95
    wanted[which == 3, SMILING] = (2 * torch.rand(count, generator=random) - 1)[which == 3]
    moves = np.zeros((count, 3))
    for place in of_race.nonzero()[:, 0].tolist():
        labels, row = faces.labels, int(chosen[place])
        moves[place] = tone_shifts(
            tones,
            faces.lab[row].double().numpy(),
            (1.0,),
            own=-1.0,
            pair=(RACES[int(race[place])], RACES[int(other[place])]),
            gender=float(labels.gender[row]),
            age=float(labels.age[row]),
        )[0]
    toned = shift_tones(crops, classes, faces.lab[chosen], moves)
    return Batch(crops, toned, classes[:, FACE : FACE + 1], own, wanted, which)


@torch.no_grad()
def evaluate(
    editor: ResidualEditor, guides: Mapping[str, Guide], faces: SmallFaces, tones: ToneTable, *, count: int = 160
) -> dict[str, float]:
    """What the guides make of gender and race edits of held-out faces kept for choosing, and how large these are.

    Of each attribute: P(the wanted end), mean and least over the guides; change of perceived age in years; share of
    the squared change in its densest 5 %; mean change in levels.
    """
    rows = selection_rows(faces.labels)
    rows = rows[torch.isfinite(faces.lab[rows]).all(dim=1)][:: max(1, len(rows) // count)]
    figures: dict[str, float] = {}
    for name, mixture in (("gender", (1.0, 0.0, 0.0, 0.0)), ("race", (0.0, 1.0, 0.0, 0.0))):
        batch = draw(
            faces, rows, torch.ones(len(rows)), tones, ResidualPlan(batch=96, mixture=mixture), generator(77, 0)
        )
        change = centred(change_by(editor(batch.faces), batch.wanted - batch.own, size=SIZE), batch.masks)
        result = apply_change(batch.toned, change, batch.masks)
        seen, older = [], []
        for guide in guides.values():
            outputs = guide(result, generator(78, 0))
            gender, race, _, age, _ = split(outputs)
            before = split(guide(batch.faces, generator(78, 0)))[3]
            if name == "gender":
                seen.append(torch.sigmoid(gender * batch.wanted[:, GENDER]).mean().item())
            else:
                seen.append((race.softmax(dim=1) * batch.wanted[:, RACE]).sum(dim=1).mean().item())
            older.append((20 * (age - before)).mean().item())
        figures |= {
            f"{name}_seen": float(np.mean(seen)),
            f"{name}_worst": min(seen),
            f"{name}_older": float(np.mean(older)),
        }
        figures[f"{name}_dense"] = concentration(batch_luma(change.colour)[:, 0], batch.masks[:, 0]).mean().item()
        figures[f"{name}_levels"] = (
            127.5 * (change.colour.abs() * batch.masks).sum().item() / (3 * batch.masks.sum().item())
        )
    return figures
