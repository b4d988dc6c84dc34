"""Train the face classifiers on the prepared faces: ``python scripts/train_judges.py estimator FACES OUT``."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from models.judge import Estimator, Judge
from models.training.faces import load_faces, report_rows
from models.training.judging import GUIDE_WIDTHS, JudgingPlan, evaluate, train

PLANS: dict[str, tuple[Callable[[], Estimator | Judge], JudgingPlan]] = {
    "estimator": (Estimator, JudgingPlan(parts=(0,), epochs=24, strength=0.6, seed=1)),
    "judge": (Judge, JudgingPlan(parts=(1,), epochs=24, strength=0.6, seed=2)),
    "guide": (lambda: Estimator(GUIDE_WIDTHS), JudgingPlan(parts=(0, 1), epochs=8, strength=1.4, seed=3)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", choices=PLANS)
    parser.add_argument("faces", type=Path, help="folder written by train_prepare.py")
    parser.add_argument("out", type=Path, help="folder for checkpoints, log and the finished weights")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--compile", action="store_true", help="faster; needs a C++ compiler")
    arguments = parser.parse_args()
    make, plan = PLANS[arguments.which]
    torch.manual_seed(plan.seed)
    network = make()
    faces = load_faces(arguments.faces)
    train(network, faces, plan, arguments.out, device=arguments.device, compiled=arguments.compile)
    print(evaluate(network, faces, report_rows(faces), device=arguments.device))
    weights = {name: tensor.half().contiguous().cpu() for name, tensor in network.state_dict().items()}
    save_file(weights, arguments.out / f"{arguments.which}.safetensors")


if __name__ == "__main__":
    main()
