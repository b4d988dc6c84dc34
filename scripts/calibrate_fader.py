"""Set how strong a unit of the dial is: ``python scripts/calibrate_fader.py FACES ESTIMATOR FADER`` (changes FADER)."""

import argparse
import sys
from pathlib import Path

import numpy as np
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from models.fader import Fader
from models.judge import Estimator
from models.training.calibrating import calibrate
from models.training.faces import load_faces
from models.training.fading_plan import COARSE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("faces", type=Path, help="folder written by train_prepare.py, with masks.npy")
    parser.add_argument("estimator", type=Path, help="the estimator's weights, from train_judges.py")
    parser.add_argument("fader", type=Path, help="the Fader network's weights; written anew")
    parser.add_argument("--coarse", action="store_true", help="they are train_fader.py's, not distil_fader.py's")
    arguments = parser.parse_args()
    fader, estimator = Fader(COARSE if arguments.coarse else None).eval(), Estimator().eval()
    fader.load_state_dict({name: part.float() for name, part in load_file(arguments.fader).items()}, strict=False)
    estimator.load_state_dict({name: part.float() for name, part in load_file(arguments.estimator).items()})
    masks = np.load(arguments.faces / "masks.npy", mmap_mode="r")
    calibrate(fader, estimator, load_faces(arguments.faces), masks)
    print(f"strength of gender and race: {fader.strength.tolist()}")
    weights = {name: part.half().contiguous() for name, part in fader.state_dict().items()}
    save_file(weights, arguments.fader)


if __name__ == "__main__":
    main()
