"""Compute the figures of the model cards on held-out faces.

``python scripts/reproduce/evaluate_models.py OUT``, where OUT is the folder with faces, masks and edits. It also writes
models/weights/confusion.json, which is used to correct shares of perceived groups.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from scipy.linalg import sqrtm
from torch import Tensor

from models.attributes import GENDERS, RACES
from models.confusion import Confusion, write_confusion
from models.fader import SCALED, Fader, smooth_difference
from models.image_metrics import psnr, ssim
from models.judge import Classifier
from models.parser import SmallParser
from models.precision import to_unit
from models.training.classifiers import evaluate
from models.training.data import FaceSet, load_faces, report_rows
from models.training.edits import high_end, mask_pixels, own_attributes, with_value
from models.training.parser import evaluate as evaluate_parser
from models.training.parser import load_masks
from models.training.probes import balanced_rows, codes_of, gender_probe
from models.weights import CLASSIFIERS, ClassifierName, load_fader, load_judge, load_parser, record
from pipeline.counterfactuals.checks import spearman_per_row

SWEEP = (-2.0, -4 / 3, -2 / 3, 0.0, 2 / 3, 4 / 3, 2.0)


def main(
    prepared: Annotated[Path, typer.Argument(help="Folder with faces, masks and edits, from train.py prepare.")],
    held_out: Annotated[int, typer.Option("--faces", help="Number of held-out faces for the Fader network.")] = 400,
    only_confusion: Annotated[bool, typer.Option("--confusion", help="Only write the confusion matrices.")] = False,
) -> None:
    """Print the figures of every network."""
    faces = load_faces(prepared / "faces")
    write_confusion({name: confusion(name, faces, faces.rows(2)) for name in CLASSIFIERS})
    if only_confusion:
        return
    for name in CLASSIFIERS:
        network = load_judge(name)
        figures = evaluate(network, faces, report_rows(faces), device="cpu")
        show(name, figures | calibration_errors(network, faces, report_rows(faces)))
    parsing = load_parser()
    if isinstance(parsing, SmallParser):
        show("parser", evaluate_parser(parsing, load_masks(prepared / "masks"), device="cpu"))
    masks = np.load(prepared / "edits" / "masks.npy", mmap_mode="r")
    edits = load_faces(prepared / "edits")
    rows = report_rows(edits)
    rows = rows[:: max(1, len(rows) // held_out)]
    fader = load_fader()
    show("fader", evaluate_fader(fader, load_judge("judge"), edits, masks, rows))
    show("code", evaluate_code(fader, faces))


@torch.inference_mode()
def calibration_errors(network: Classifier, faces: FaceSet, rows: Tensor) -> dict[str, float]:
    """Return the expected calibration errors of perceived gender and race (Guo et al. 2017, eq. 3)."""
    seen = [network.perceive(to_unit(faces.pixels(chunk))) for chunk in rows.split(256)]
    masculine, race = torch.cat([part.masculine for part in seen]), torch.cat([part.race for part in seen])
    return {
        "gender_calibration_error": calibration_error(
            torch.maximum(masculine, 1 - masculine), (masculine > 0.5) == (faces.gender[rows] > 0)
        ),
        "race_calibration_error": calibration_error(race.amax(dim=1), race.argmax(dim=1) == faces.race[rows]),
    }


def calibration_error(confidence: Tensor, right: Tensor, *, bins: int = 15) -> float:
    """Return the mean gap of confidence and accuracy over equal-width bins, weighted by the number of faces."""
    place = (confidence * bins).long().clamp(max=bins - 1)
    gaps = [
        (place == b).float().mean() * (confidence[place == b].mean() - right[place == b].float().mean()).abs()
        for b in range(bins)
        if (place == b).any()
    ]
    return float(torch.stack(gaps).sum())


def evaluate_code(fader: Fader, faces: FaceSet) -> dict[str, float]:
    """Return the accuracy of new gender probes on frozen codes, trained and tested on balanced faces."""
    train, test = (
        balanced_rows(faces, rows, seed=seed) for rows, seed in ((faces.rows(0, 1), 1), (report_rows(faces), 2))
    )
    sets = [(codes_of(fader, faces, rows), (faces.gender[rows] > 0).float()) for rows in (train, test)]
    return {
        name: gender_probe(sets[0], sets[1], hidden=hidden)
        for name, hidden in (("linear_probe", None), ("hidden_layer_probe", 256))
    }


def frechet_distance(one: Tensor, other: Tensor) -> float:
    """Return the Fréchet distance of two sets of features ``(N, F)`` as Gaussians (Heusel et al. 2017, eq. 6)."""
    a, b = (features.double().numpy() for features in (one, other))
    covariances = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    root = sqrtm(covariances[0] @ covariances[1]).real
    return float(((a.mean(axis=0) - b.mean(axis=0)) ** 2).sum() + np.trace(covariances[0] + covariances[1] - 2 * root))


@torch.inference_mode()
def confusion(name: ClassifierName, faces: FaceSet, rows: Tensor) -> Confusion:
    """Count a network's perceived gender and race against the annotations of held-out faces."""
    network = load_judge(name)
    seen = [network.perceive(to_unit(faces.pixels(chunk))) for chunk in rows.split(256)]
    perceived = torch.cat([len(RACES) * (each.gender >= 0).long() + each.race.argmax(dim=1) for each in seen])
    annotated = len(RACES) * (faces.gender[rows] > 0).long() + faces.race[rows]
    groups = [f"{gender}, {race}" for gender in GENDERS for race in RACES]
    counts = torch.bincount(annotated * len(groups) + perceived, minlength=len(groups) ** 2)
    return Confusion(
        weights=record(name).sha256,
        data="UTKFace, age of 12 and more, held out of all training by a hash of the file name",
        groups=tuple(groups),
        counts=tuple(tuple(line) for line in counts.reshape(len(groups), -1).tolist()),
    )


@torch.inference_mode()
def evaluate_fader(
    fader: Fader, judge: Classifier, faces: FaceSet, masks: np.ndarray, rows: Tensor
) -> dict[str, float]:
    """Evaluate composites along both sweeps with the judge, and the reconstruction error inside the mask.

    The Fréchet distance is the mean of those between the judge's features of reconstructions and of edits at -1 and +1.
    """
    crops = to_unit(faces.pixels(rows))
    mask = mask_pixels(masks, rows)
    own = own_attributes(faces, rows)
    codes = fader.encode(crops)
    null = fader.decode(codes, own)
    pairs = [
        [((image.permute(1, 2, 0).numpy() + 1) * 127.5) for image in pair] for pair in zip(null, crops, strict=True)
    ]
    figures = {
        name: float(np.mean([compare(a, b, soft[0].numpy()) for (a, b), soft in zip(pairs, mask, strict=True)]))
        for name, compare in (("null_psnr", psnr), ("null_ssim", ssim))
    }
    rebuilt = judge.perceive(crops + mask * (null - crops)).features
    for attribute in SCALED:
        seen = []
        for value in (*SWEEP, -1.0, 1.0):
            edited = fader.decode(codes, with_value(own, attribute, value))
            change = smooth_difference(null + fader.strength_of(attribute) * (edited - null), null)
            seen.append(judge.perceive((crops + mask * change).clamp(-1, 1)))
        target = [high_end(perceived, attribute) for perceived in seen]
        along = torch.stack(target[: len(SWEEP)], dim=1)
        spearman = spearman_per_row(np.array(SWEEP), along.double().numpy())
        figures |= {
            f"{attribute}_1": float((target[-1] - target[-2]).mean()),
            f"{attribute}_2": float((along[:, -1] - along[:, 0]).mean()),
            f"{attribute}_monotone": float((spearman >= 0.9).mean()),
            f"{attribute}_frechet": float(np.mean([frechet_distance(edit.features, rebuilt) for edit in seen[-2:]])),
        }
        for control in ("young", "smiling"):
            moved = [getattr(perceived, control) / 2 for perceived in seen]
            figures[f"{attribute}_moves_{control}"] = float((moved[-1] - moved[-2]).mean())
            figures[f"{attribute}_moves_{control}_2"] = float((moved[len(SWEEP) - 1] - moved[0]).mean())
    return figures


def show(name: str, figures: dict[str, float]) -> None:
    """Print the rounded figures of a network."""
    print(name, {name: round(figure, 3) for name, figure in figures.items()})


if __name__ == "__main__":
    typer.run(main)
