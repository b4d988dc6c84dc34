"""Train the coarse Fader network, the shipped one's teacher: ``python scripts/train_fader.py FACES GUIDE OUT``."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from models.fader import Fader
from models.judge import Estimator
from models.training.faces import load_faces
from models.training.fading import train
from models.training.fading_plan import COARSE, FadingPlan
from models.training.judging import GUIDE_WIDTHS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("faces", type=Path, help="folder written by train_prepare.py, with masks.npy")
    parser.add_argument("guide", type=Path, help="the guide's weights, from train_judges.py")
    parser.add_argument("out", type=Path, help="folder for checkpoints, log and the finished weights")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=FadingPlan.steps)
    parser.add_argument("--start", type=Path, help="go on from these finished weights instead of from nothing")
    parser.add_argument("--compile", action="store_true", help="a third faster; needs a C++ compiler")
    arguments = parser.parse_args()
    plan = replace(FadingPlan(), steps=arguments.steps)
    torch.manual_seed(plan.seed)
    guide = Estimator(GUIDE_WIDTHS)
    guide.load_state_dict({name: tensor.float() for name, tensor in load_file(arguments.guide).items()})
    masks = np.load(arguments.faces / "masks.npy", mmap_mode="r")
    fader = Fader(COARSE)
    if arguments.start:
        fader.load_state_dict(load_file(arguments.start), strict=False)
    average = train(
        fader, guide, load_faces(arguments.faces), masks, plan, arguments.out,
        device=arguments.device, compiled=arguments.compile,
    )  # fmt: skip
    weights = {name: tensor.half().contiguous().cpu() for name, tensor in average.module.state_dict().items()}
    save_file(weights, arguments.out / "fader.safetensors")


if __name__ == "__main__":
    main()
