"""Guides of the residual editor's training: small classifiers of different architecture and input, and how they learn.

None is shipped; none is the judge or the estimator. A change has to convince all of them, each of which looks at a face
in its own way.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.image_metrics import batch_luma
from models.judge import OUTPUTS, age_in_years, split, view
from models.residual import LUMA_SIDE
from models.training.classifiers import classifier_losses
from models.training.data import balanced_weights, selection_rows, shifts
from models.training.loop import Schedule, Session, generator, one_cycle
from models.training.small_faces import SmallFaces

GUIDES = ("colour", "grey", "smooth", "covered")


@dataclass(frozen=True)
class GuideShape:
    """One architecture.

    Attributes:
        widths: channels of the stages.
        kernel: pixels a side of each stage's first convolution.
        residual: whether the stages have shortcuts.
        pooled: whether the last map is averaged; else it is flattened.
    """

    widths: tuple[int, ...]
    kernel: int
    residual: bool
    pooled: bool


SHAPES: dict[str, GuideShape] = {
    "colour": GuideShape((32, 64, 96, 128), kernel=3, residual=True, pooled=True),
    "grey": GuideShape((32, 56, 96, 128), kernel=3, residual=False, pooled=False),
    "smooth": GuideShape((40, 72, 112), kernel=3, residual=False, pooled=False),
    "covered": GuideShape((32, 64, 96, 128), kernel=3, residual=False, pooled=True),
    # No guide: an outside judge, trained on other data than the shipped one, half of it in grey.
    "outside": GuideShape((40, 72, 112, 144), kernel=3, residual=True, pooled=False),
}


class Guide(nn.Module):
    """One guide; ``name`` says how it looks at a face (a key of `SHAPES`)."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        shape = SHAPES[name]
        channels = 4 if name == "grey" else 12
        layers: list[nn.Module] = []
        for stage, width in enumerate(shape.widths):
            layers.append(_Stage(channels, width, stride=1 if stage == 0 else 2, shape=shape))
            channels = width
        side = LUMA_SIDE * 3 // 8 // 2 ** (len(shape.widths) - 1)
        self.trunk = nn.Sequential(*layers)
        self.dropout = nn.Dropout(0.2)
        self.pooled = shape.pooled
        self.heads = nn.Linear(channels if shape.pooled else channels * side * side, OUTPUTS)

    def forward(self, faces: Tensor, random: torch.Generator) -> Tensor:
        """``(B, 3, 64, 64)`` in -1..1 -> raw outputs ``(B, 14)`` in the order of ``models.judge.split``."""
        seen = F.pixel_unshuffle(look(view(faces), self.name, random), 2)
        features = self.trunk(seen)
        flat = features.mean(dim=(2, 3)) if self.pooled else features.flatten(1)
        outputs: Tensor = self.heads(self.dropout(flat))
        return outputs


class _Stage(nn.Module):
    def __init__(self, channels: int, width: int, *, stride: int, shape: GuideShape) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, width, shape.kernel, stride, shape.kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.again = nn.Conv2d(width, width, 1 if width < 100 else 3, padding=0 if width < 100 else 1, bias=False)
        self.norm_again = nn.BatchNorm2d(width)
        self.residual = shape.residual

    def forward(self, x: Tensor) -> Tensor:
        x = F.leaky_relu(self.norm(self.conv(x)), 0.1)
        inner = self.norm_again(self.again(x))
        return F.leaky_relu(x + inner if self.residual else inner, 0.1)


def look(faces: Tensor, name: str, random: torch.Generator) -> Tensor:
    """Faces ``(B, 3, S, S)`` as one guide sees them: disturbed, drawn anew for each face; grey has one channel.

    All see changed contrast and brightness. "colour" also tints; "smooth" sees nothing finer than a quarter of the
    resolution; "covered" sees a square of the face greyed out.
    """
    count, side = len(faces), faces.shape[-1]

    def draw(*shape: int) -> Tensor:
        return torch.rand(count, *shape, 1, 1, generator=random)

    out = faces * (1 + 0.5 * (draw(1) - 0.5)) + 0.4 * (draw(1) - 0.5)
    if name == "grey":
        return batch_luma(out) + 0.04 * torch.randn(count, 1, side, side, generator=random)
    if name == "outside":
        out = torch.where(draw(1) < 0.5, batch_luma(out).expand_as(out), out)
    out = out + 0.16 * (draw(3) - 0.5)
    if name == "smooth":
        return F.interpolate(F.avg_pool2d(out, 3), size=(side, side), mode="bilinear", align_corners=False)
    if name == "covered":
        size = side // 3
        top, left = (torch.randint(-size // 2, side - size // 2, (count,), generator=random) for _ in range(2))
        rows, columns = (torch.arange(side)[None, :] - start[:, None] for start in (top, left))
        hidden = ((rows >= 0) & (rows < size))[:, None, :, None] & ((columns >= 0) & (columns < size))[:, None, None, :]
        out = out.masked_fill(hidden, 0.0)
    return out + 0.03 * torch.randn(out.shape, generator=random)


@dataclass(frozen=True)
class GuidePlan:
    """One guide's training.

    Attributes:
        first: seed of the network's first weights.
        seed: of everything drawn in training.
        parts: of the data.
        reach: largest shift, in pixels of 64.
    """

    first: int
    seed: int
    epochs: float = 3.5
    parts: tuple[int, ...] = (0, 1)
    batch: int = 64
    peak_rate: float = 3e-3
    weight_decay: float = 0.05
    reach: int = 3


PLANS: Mapping[str, GuidePlan] = {name: GuidePlan(first=k, seed=21 + k) for k, name in enumerate(GUIDES)} | {
    "outside": GuidePlan(first=99, seed=199, epochs=8, parts=(0,))
}


def untrained(name: str) -> Guide:
    """A guide with its first weights."""
    torch.manual_seed(PLANS[name].first)
    return Guide(name)


def train(guide: Guide, faces: SmallFaces, plan: GuidePlan, folder: Path) -> None:
    """Train ``guide`` in place; progress, checkpoints and the log go to ``folder``."""
    rows = faces.labels.rows(*plan.parts)
    weights = balanced_weights(faces.labels, rows, power=0.4)
    steps = int(plan.epochs * len(rows) / plan.batch)
    optimiser = torch.optim.AdamW(guide.parameters(), lr=plan.peak_rate, weight_decay=plan.weight_decay)
    session = Session(folder, Schedule(steps, log_every=100, save_every=400), {"guide": guide, "optimiser": optimiser})

    def one_step(step: int) -> dict[str, float]:
        random = generator(plan.seed, step)
        chosen = rows[torch.multinomial(weights, plan.batch, replacement=True, generator=random)]
        shift = shifts(plan.batch, reach=plan.reach, random=random)
        crops, _ = faces.batch(chosen, shift=shift, mirrored=torch.rand(plan.batch, generator=random) < 0.5)
        for group in optimiser.param_groups:
            group["lr"] = one_cycle(step, steps=steps, peak=plan.peak_rate)
        losses = classifier_losses(guide(crops, random), faces.labels, chosen)
        optimiser.zero_grad(set_to_none=True)
        torch.stack(list(losses.values())).sum().backward()
        torch.nn.utils.clip_grad_norm_(guide.parameters(), 5.0)
        optimiser.step()
        return {name: value.item() for name, value in losses.items()}

    guide.train()
    for _ in session.run(one_step):
        session.log(**evaluate(guide, faces, selection_rows(faces.labels)))
        guide.train()
    guide.eval()


@torch.no_grad()
def evaluate(guide: Guide, faces: SmallFaces, rows: Tensor) -> dict[str, float]:
    """Accuracy of perceived gender and race and error of age in years, on disturbed faces ``rows``."""
    guide.eval()
    outputs = torch.cat([guide(faces.batch(chunk)[0], generator(0, k)) for k, chunk in enumerate(rows.split(128))])
    gender, race, _, age, _ = split(outputs)
    labels = faces.labels
    return {
        "gender_accuracy": ((gender > 0) == (labels.gender[rows] > 0)).float().mean().item(),
        "race_accuracy": (race.argmax(1) == labels.race[rows]).float().mean().item(),
        "age_error": (age_in_years(age) - labels.age[rows]).abs().mean().item(),
    }
