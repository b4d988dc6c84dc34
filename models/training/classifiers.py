"""Training of the face classifiers: estimator, both judges, and the guide of the Fader network's training."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from models.judge import AGE_STEPS, Classifier, Estimator, GreyJudge, Judge, age_in_years, split
from models.precision import autocast, to_unit
from models.training.data import FaceSet, balanced_weights, disturb, flip_some, selection_rows, shifts
from models.training.loop import Schedule, Session, descend, drawn, generator, one_cycle, set_rate

# The guide provides the attribute loss of the Fader network; it is smaller than the estimator and not shipped.
GUIDE_WIDTHS = (24, 48, 96, 128)


@dataclass(frozen=True)
class ClassifierPlan:
    """Training parameters of a classifier.

    ``parts`` of the data; ``strength`` of the augmentation; ``noise``: standard deviation of the noise added to every
    face, in units of -1..1.
    """

    parts: tuple[int, ...]
    epochs: float
    batch: int = 64
    peak_rate: float = 2e-3
    weight_decay: float = 0.05
    strength: float = 1.0
    noise: float = 0.0
    seed: int = 0


# Network and training of each classifier.
PLANS: Mapping[str, tuple[Callable[[], Classifier], ClassifierPlan]] = {
    "estimator": (Estimator, ClassifierPlan(parts=(0,), epochs=24, strength=0.6, seed=1)),
    "judge": (Judge, ClassifierPlan(parts=(1,), epochs=24, strength=0.6, seed=2)),
    "grey-judge": (GreyJudge, ClassifierPlan(parts=(0,), epochs=24, strength=0.6, noise=0.06, seed=4)),
    "guide": (lambda: Estimator(GUIDE_WIDTHS), ClassifierPlan(parts=(0, 1), epochs=8, strength=1.4, seed=3)),
}


def train(
    network: Classifier, faces: FaceSet, plan: ClassifierPlan, folder: Path, *, device: str, compiled: bool = False
) -> None:
    """Train ``network`` in place; progress, checkpoints and the log go to ``folder``.

    ``compiled``: let torch fuse the network's operations; needs a C++ compiler.
    """
    rows = faces.rows(*plan.parts)
    weights = balanced_weights(faces, rows, power=0.3)
    steps = int(plan.epochs * len(rows) / plan.batch)
    optimiser = torch.optim.AdamW(network.parameters(), lr=plan.peak_rate, weight_decay=plan.weight_decay)
    network.to(device).to(memory_format=torch.channels_last)
    session = Session(folder, Schedule(steps, save_every=500), {"network": network, "optimiser": optimiser})

    forward = torch.compile(network) if compiled else network

    def one_step(step: int) -> dict[str, float]:
        random = generator(plan.seed, step)
        chosen = drawn(rows, weights, plan.batch, random)
        crops = faces.pixels(chosen, shifts(plan.batch, reach=5, random=random)).to(device)
        inputs = disturb(flip_some(network.look(to_unit(crops)), random), random, strength=plan.strength)
        inputs = inputs + plan.noise * torch.randn(inputs.shape, generator=random).to(device)
        set_rate(optimiser, one_cycle(step, steps=steps, peak=plan.peak_rate))
        with autocast(device):
            outputs, _ = forward(inputs.to(memory_format=torch.channels_last))
        return descend(classifier_losses(outputs.float(), faces, chosen), optimiser)

    network.train()
    for _ in session.run(one_step):
        session.log(**evaluate(network, faces, selection_rows(faces), device=device))
        network.train()
    calibrate(network, faces, selection_rows(faces), device=device)
    network.eval()


def classifier_losses(outputs: Tensor, faces: FaceSet, rows: Tensor) -> dict[str, Tensor]:
    """Return the weighted losses of raw outputs ``(B, 14)`` for the faces ``rows``, with label smoothing."""
    device = outputs.device
    gender, race, at_least, age, smiling = split(outputs)
    true_age = faces.age[rows].to(device)
    steps = torch.tensor(AGE_STEPS, device=device)
    return {
        "gender": F.binary_cross_entropy_with_logits(gender, 0.5 + 0.48 * faces.gender[rows].to(device)),
        "race": F.cross_entropy(race, faces.race[rows].to(device), label_smoothing=0.05),
        "at_least": F.binary_cross_entropy_with_logits(at_least, (true_age[:, None] >= steps).float()),
        "age": 0.5 * F.smooth_l1_loss(age, (true_age - 40) / 20, beta=0.5),
        "smiling": 0.5 * F.mse_loss(torch.tanh(smiling), faces.smiling[rows].to(device)),
    }


@torch.no_grad()
def outputs_of(network: Classifier, faces: FaceSet, rows: Tensor, *, device: str) -> Tensor:
    """Compute raw outputs ``(B, 14)`` of unaugmented faces."""
    network.eval()
    batches = []
    for chunk in rows.split(256):
        inputs = network.look(to_unit(faces.pixels(chunk).to(device)))
        with autocast(device):
            batches.append(network(inputs.to(memory_format=torch.channels_last))[0].float().cpu())
    return torch.cat(batches)


def evaluate(network: Classifier, faces: FaceSet, rows: Tensor, *, device: str) -> dict[str, float]:
    """Return the accuracy of gender and race, the age error in years, and the correlation with the smiling proxy."""
    outputs = outputs_of(network, faces, rows, device=device)
    together = torch.stack([torch.tanh(split(outputs)[-1]), faces.smiling[rows]])
    return accuracy(outputs, faces, rows) | {"smiling_correlation": torch.corrcoef(together)[0, 1].item()}


def accuracy(outputs: Tensor, faces: FaceSet, rows: Tensor) -> dict[str, float]:
    """Return the accuracy of gender and race and the age error in years of raw outputs ``(B, 14)`` for ``rows``."""
    gender, race, _, age, _ = split(outputs)
    return {
        "gender_accuracy": ((gender > 0) == (faces.gender[rows] > 0)).float().mean().item(),
        "race_accuracy": (race.argmax(1) == faces.race[rows]).float().mean().item(),
        "age_error": (age_in_years(age) - faces.age[rows]).abs().mean().item(),
    }


def calibrate(network: Classifier, faces: FaceSet, rows: Tensor, *, device: str) -> None:
    """Set the temperatures that minimise the cross-entropy on ``rows`` (Guo et al. 2017, eq. 9)."""
    gender, race, *_ = split(outputs_of(network, faces, rows, device=device))
    grid = torch.logspace(-0.7, 0.7, 141)
    target = (faces.gender[rows] > 0).float()
    gender_loss = torch.stack([F.binary_cross_entropy_with_logits(gender / t, target) for t in grid])
    race_loss = torch.stack([F.cross_entropy(race / t, faces.race[rows]) for t in grid])
    buffers = dict(network.named_buffers())
    buffers["gender_temperature"].fill_(grid[gender_loss.argmin()].item())
    buffers["race_temperature"].fill_(grid[race_loss.argmin()].item())
