"""The outside judge: a small classifier with another architecture and input, used only to evaluate editors.

It sees crops of 64 pixels, half of them in grey. It is not shipped.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.image_metrics import batch_luma
from models.judge import OUTPUTS, view
from models.training.classifiers import accuracy, classifier_losses
from models.training.data import balanced_weights, selection_rows, shifts
from models.training.loop import Schedule, Session, descend, drawn, generator, one_cycle, set_rate
from models.training.small_faces import SIZE, SmallFaces


class OutsideJudge(nn.Module):
    """Four stages with shortcuts on 2 x 2 blocks of pixels; the last feature map is not pooled."""

    def __init__(self, widths: tuple[int, ...] = (40, 72, 112, 144)) -> None:
        super().__init__()
        stages = enumerate(pairwise((12, *widths)))
        self.trunk = nn.Sequential(*(_Stage(*pair, stride=1 if k == 0 else 2) for k, pair in stages))
        self.dropout = nn.Dropout(0.2)
        side = SIZE * 3 // 8 // 2 ** (len(widths) - 1)
        self.heads = nn.Linear(widths[-1] * side * side, OUTPUTS)

    def forward(self, faces: Tensor, random: torch.Generator) -> Tensor:
        """Map ``(B, 3, 64, 64)`` in -1..1 to raw outputs ``(B, 14)`` in the order of ``models.judge.split``."""
        seen = F.pixel_unshuffle(disturbed(view(faces), random), 2)
        outputs: Tensor = self.heads(self.dropout(self.trunk(seen).flatten(1)))
        return outputs


class _Stage(nn.Module):
    def __init__(self, channels: int, width: int, *, stride: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        kernel = 1 if width < 100 else 3
        self.again = nn.Conv2d(width, width, kernel, padding=kernel // 2, bias=False)
        self.norm_again = nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        x = F.leaky_relu(self.norm(self.conv(x)), 0.1)
        return F.leaky_relu(x + self.norm_again(self.again(x)), 0.1)


def disturbed(faces: Tensor, random: torch.Generator) -> Tensor:
    """Augment faces ``(B, 3, S, S)`` with contrast, brightness, tint and noise, half of them in grey."""

    def draw(channels: int) -> Tensor:
        return torch.rand(len(faces), channels, 1, 1, generator=random)

    out = faces * (1 + 0.5 * (draw(1) - 0.5)) + 0.4 * (draw(1) - 0.5)
    out = torch.where(draw(1) < 0.5, batch_luma(out).expand_as(out), out)
    out = out + 0.16 * (draw(3) - 0.5)
    return out + 0.03 * torch.randn(out.shape, generator=random)


@dataclass(frozen=True)
class OutsidePlan:
    """Training parameters, on the estimator's half of the faces. ``first``: seed of weights; ``seed``: of batches."""

    first: int = 99
    seed: int = 199
    epochs: float = 8
    parts: tuple[int, ...] = (0,)
    batch: int = 64
    peak_rate: float = 3e-3
    weight_decay: float = 0.05
    reach: int = 3


def train(judge: OutsideJudge, faces: SmallFaces, plan: OutsidePlan, folder: Path) -> None:
    """Train ``judge`` in place; progress, checkpoints and the log go to ``folder``."""
    rows = faces.labels.rows(*plan.parts)
    weights = balanced_weights(faces.labels, rows, power=0.4)
    steps = int(plan.epochs * len(rows) / plan.batch)
    optimiser = torch.optim.AdamW(judge.parameters(), lr=plan.peak_rate, weight_decay=plan.weight_decay)
    session = Session(folder, Schedule(steps, log_every=100, save_every=400), {"guide": judge, "optimiser": optimiser})

    def one_step(step: int) -> dict[str, float]:
        random = generator(plan.seed, step)
        chosen = drawn(rows, weights, plan.batch, random)
        shift = shifts(plan.batch, reach=plan.reach, random=random)
        crops, _ = faces.batch(chosen, shift=shift, mirrored=torch.rand(plan.batch, generator=random) < 0.5)
        set_rate(optimiser, one_cycle(step, steps=steps, peak=plan.peak_rate))
        return descend(classifier_losses(judge(crops, random), faces.labels, chosen), optimiser)

    judge.train()
    for _ in session.run(one_step):
        session.log(**evaluate(judge, faces, selection_rows(faces.labels)))
        judge.train()
    judge.eval()


@torch.no_grad()
def evaluate(judge: OutsideJudge, faces: SmallFaces, rows: Tensor) -> dict[str, float]:
    """Return the accuracy of gender and race and the age error in years, on augmented faces ``rows``."""
    judge.eval()
    outputs = torch.cat([judge(faces.batch(chunk)[0], generator(0, k)) for k, chunk in enumerate(rows.split(128))])
    return accuracy(outputs, faces.labels, rows)
