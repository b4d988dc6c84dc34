"""The model cards' figures, on faces that no network was trained on:

python scripts/evaluate_models.py PREPARED      (the folder that train_prepare.py filled: faces, masks, edits)
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from models.fader import Fader, race_line, smooth_difference
from models.judge import RACES, Estimator, Judge
from models.parser import SmallParser
from models.training.faces import FaceSet, load_faces, to_unit
from models.training.fading import GENDER, RACE, mask_pixels, own_attributes
from models.training.judging import evaluate
from models.training.parsing import evaluate as evaluate_parser
from models.training.parsing import load_masks
from models.weights import load_fader, load_judge, load_parser

SWEEP = (-2.0, -4 / 3, -2 / 3, 0.0, 2 / 3, 4 / 3, 2.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prepared", type=Path)
    parser.add_argument("--faces", type=int, default=400, help="held-out faces for the Fader network")
    options = parser.parse_args()
    faces = load_faces(options.prepared / "faces")
    for name in ("estimator", "judge"):
        network = load_judge(name)
        figures = evaluate(network, faces, faces.rows(2), device="cpu")
        figures["gender_calibration_error"] = calibration_error(network, faces, faces.rows(2))
        print(name, rounded(figures))
    parsing = load_parser()
    if isinstance(parsing, SmallParser):
        print("parser", rounded(evaluate_parser(parsing, load_masks(options.prepared / "masks"), device="cpu")))
    masks = np.load(options.prepared / "edits" / "masks.npy", mmap_mode="r")
    edits = load_faces(options.prepared / "edits")
    rows = edits.rows(2)
    rows = rows[:: max(1, len(rows) // options.faces)]
    print("fader", rounded(evaluate_fader(load_fader(), load_judge("judge"), edits, masks, rows)))


@torch.inference_mode()
def calibration_error(network: Estimator | Judge, faces: FaceSet, rows: Tensor, *, bins: int = 10) -> float:
    """Expected calibration error of perceived gender: mean gap of confidence and accuracy over equal-width bins."""
    chance = torch.cat([network.perceive(to_unit(faces.pixels(chunk))).masculine for chunk in rows.split(256)])
    right = (chance > 0.5) == (faces.gender[rows] > 0)
    confidence = torch.maximum(chance, 1 - chance)
    place = ((confidence - 0.5) * 2 * bins).long().clamp(max=bins - 1)
    gaps = [
        (place == b).float().mean() * (confidence[place == b].mean() - right[place == b].float().mean()).abs()
        for b in range(bins)
        if (place == b).any()
    ]
    return float(torch.stack(gaps).sum())


@torch.inference_mode()
def evaluate_fader(
    fader: Fader, judge: Estimator | Judge, faces: FaceSet, masks: np.ndarray, rows: Tensor
) -> dict[str, float]:
    """The judge's view of composites along both dials, and the reconstruction's error inside the mask."""
    crops = to_unit(faces.pixels(rows))
    mask = mask_pixels(masks, rows, torch.zeros(len(rows), 2, dtype=torch.long))
    own = own_attributes(faces, rows)
    codes = fader.encode(crops)
    null = fader.decode(codes, own)
    error = (mask * (null - crops).square()).sum() / (3 * mask.sum())
    figures = {"null_psnr": float(10 * torch.log10(4 / error))}
    pair = torch.tensor([RACES.index("Black"), RACES.index("White")])
    for attribute in ("gender", "race"):
        target, young, smiling = [], [], []
        for value in (*SWEEP, -1.0, 1.0):
            wanted = own.clone()
            if attribute == "gender":
                wanted[:, GENDER] = value
            else:
                ends = (torch.full((len(rows),), int(index)) for index in pair)
                wanted[:, RACE] = race_line(torch.full((len(rows),), value), *ends)
            change = smooth_difference(fader.decode(codes, wanted), null)
            seen = judge.perceive((crops + mask * change).clamp(-1, 1))
            black, white = seen.race[:, pair[0]], seen.race[:, pair[1]]
            target.append(seen.masculine if attribute == "gender" else white / (white + black))
            young.append(seen.young / 2)
            smiling.append(seen.smiling / 2)
        along = torch.stack(target[: len(SWEEP)], dim=1)
        ranks = along.argsort(dim=1).argsort(dim=1).float()
        order = torch.arange(len(SWEEP)).float()
        spearman = torch.stack([torch.corrcoef(torch.stack([row, order]))[0, 1] for row in ranks])
        figures |= {
            f"{attribute}_1": float((target[-1] - target[-2]).mean()),
            f"{attribute}_2": float((along[:, -1] - along[:, 0]).mean()),
            f"{attribute}_monotone": float((spearman >= 0.9).float().mean()),
            f"{attribute}_moves_young": float((young[-1] - young[-2]).mean()),
            f"{attribute}_moves_smiling": float((smiling[-1] - smiling[-2]).mean()),
        }
    return figures


def rounded(figures: dict[str, float]) -> dict[str, float]:
    return {name: round(figure, 3) for name, figure in figures.items()}


if __name__ == "__main__":
    main()
