"""Train the shipped Fader network from a coarser one: ``python scripts/distil_fader.py FACES TEACHER OUT``."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from models.fader import Fader
from models.training.distilling import DistillingPlan, inherit, train
from models.training.faces import load_faces
from models.training.fading_plan import COARSE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("faces", type=Path, help="folder written by train_prepare.py, with masks.npy")
    parser.add_argument("teacher", type=Path, help="weights from train_fader.py, calibrated")
    parser.add_argument("out", type=Path, help="folder for checkpoints, log and the finished weights")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=DistillingPlan.steps)
    arguments = parser.parse_args()
    plan = replace(DistillingPlan(), steps=arguments.steps)
    torch.manual_seed(plan.seed)
    teacher, fader = Fader(COARSE), Fader()
    teacher.load_state_dict({name: tensor.float() for name, tensor in load_file(arguments.teacher).items()})
    inherit(fader, teacher)
    masks = np.load(arguments.faces / "masks.npy", mmap_mode="r")
    faces = load_faces(arguments.faces)
    average = train(fader, teacher, faces, masks, plan, arguments.out, device=arguments.device)
    weights = {name: tensor.half().contiguous().cpu() for name, tensor in average.module.state_dict().items()}
    save_file(weights, arguments.out / "fader.safetensors")


if __name__ == "__main__":
    main()
