"""Train the small face parser: ``python scripts/train_parser.py DATA OUT``."""

import argparse
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from models.parser import SmallParser
from models.training.parsing import ParsingPlan, evaluate, load_masks, train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder written by train_prepare.py")
    parser.add_argument("out", type=Path, help="folder for checkpoints, log and the finished weights")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    plan = ParsingPlan()
    torch.manual_seed(plan.seed)
    network = SmallParser()
    data = load_masks(arguments.data)
    train(network, data, plan, arguments.out, device=arguments.device)
    print(evaluate(network, data, device=arguments.device))
    weights = {name: tensor.half().contiguous().cpu() for name, tensor in network.state_dict().items()}
    save_file(weights, arguments.out / "parser.safetensors")


if __name__ == "__main__":
    main()
