"""Prepare what the networks learn from, in the order in which it is needed:

python scripts/train_prepare.py faces OUT/faces
python scripts/train_prepare.py masks OUT/masks
(then train the guide and the parser)
python scripts/train_prepare.py edits OUT/edits --faces OUT/faces --masks OUT/masks --guide … --parser …
"""

import argparse
import sys
from pathlib import Path

from safetensors.torch import load_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from models.judge import Estimator
from models.parser import SmallParser
from models.training.judging import GUIDE_WIDTHS
from models.training.preparing import data_folder, prepare_edits, prepare_faces, prepare_masks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("faces", "masks", "edits"))
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, default=data_folder(), help="folder of the archives")
    parser.add_argument("--limit", type=int, help="only so many photos, for a trial")
    for name in ("faces", "masks", "guide", "parser"):
        parser.add_argument(f"--{name}", type=Path)
    options = parser.parse_args()
    if options.what == "faces":
        count = prepare_faces(options.data, options.out, limit=options.limit)
    elif options.what == "masks":
        count = prepare_masks(options.data, options.out, limit=options.limit)
    else:
        network, guide = SmallParser(), Estimator(GUIDE_WIDTHS)
        for module, path in ((network, options.parser), (guide, options.guide)):
            module.load_state_dict({name: tensor.float() for name, tensor in load_file(path).items()})
            module.eval()
        count = prepare_edits(options.faces, options.masks, options.out, parser=network, guide=guide)
    print(f"{count} prepared in {options.out}")


if __name__ == "__main__":
    main()
