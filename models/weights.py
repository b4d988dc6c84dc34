"""The embedded weights: what each file is, where it comes from, and how it is loaded.

Files are safetensors in half precision beside this module; a model card of the same name says how they were made.
"""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal, TypeVar

from torch import nn

from models.fader import Fader
from models.judge import Estimator, Judge
from models.parser import CLASSES, BiSeNet, SmallParser

FOLDER = Path(__file__).parent / "weights"
TERMS = "non-commercial research only (learnt from UTKFace and CelebAMask-HQ)"

# The face-parsing project's 79999_iter.pth, also known as facexlib's parsing_bisenet.pth.
PUBLIC_BISENET_SHA256 = "468e13ca13a9b43cc0881a9f99083a430e9c0a38abd935431d1c28ee94b26567"


class WeightsError(Exception):
    """Weights are missing, damaged or of another network; the message says which and what to do."""


@dataclass(frozen=True)
class WeightsRecord:
    """One shipped file.

    Attributes:
        sha256: of the file; checked whenever it is loaded.
        licence: the terms of use of the weights (the code's own licence is another matter).
        preprocessing: what the network expects of its input.
        classes: names of the outputs, where they are classes.
    """

    file: str
    sha256: str
    licence: str
    preprocessing: str
    classes: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """Where the file lies."""
        return FOLDER / self.file


_ALIGNED = "RGB in -1..1, 128 x 128, aligned by models.alignment"
RECORDS = {
    "fader": WeightsRecord(
        "fader.safetensors", "9a48d2801e0215a1fdfc91ee649567da096a2c590e409e783a0bdb897b8b13e4", TERMS, _ALIGNED
    ),
    "parser": WeightsRecord(
        "parser.safetensors",
        "b9b6b00656e88c566f116013f10af5056521b22bfc8bb2dc82c9773aef4a4262",
        TERMS,
        "RGB in -1..1, sides divisible by 32, best at 192 x 192",
        CLASSES,
    ),
    "estimator": WeightsRecord(
        "estimator.safetensors",
        "eadf4726a0c5b545eae83f7cceb70656f8ea2088eff27378535e16d960b976da",
        TERMS,
        f"{_ALIGNED}; looks at judge.VIEW",
    ),
    "judge": WeightsRecord(
        "judge.safetensors",
        "734362f7fa48e9b5f6f85bad54d8c87199ebcaefec7e8d01340b81feee43f35d",
        TERMS,
        f"{_ALIGNED}; looks at judge.VIEW",
    ),
}


def record(name: str) -> WeightsRecord:
    """The record of an embedded file: "fader", "parser", "estimator" or "judge"."""
    return RECORDS[name]


def load_fader() -> Fader:
    """The embedded Fader network, frozen, in evaluation mode."""
    return _load(Fader(), record("fader"))


def load_judge(name: Literal["estimator", "judge"]) -> Estimator | Judge:
    """The embedded estimator or judge, frozen, in evaluation mode."""
    return _load(Estimator() if name == "estimator" else Judge(), record(name))


def load_parser(kind: Literal["small", "bisenet"] = "small", *, weights: Path | None = None) -> SmallParser | BiSeNet:
    """A face parser, frozen, in evaluation mode.

    Args:
        kind: "small" is embedded; "bisenet" needs the path of its public weights.
        weights: a ``.pth`` state dict (loaded without executing anything in it).

    Raises:
        WeightsError: BiSeNet without a path, or a file that does not hold its weights.
    """
    if kind == "small":
        return _load(SmallParser(), record("parser"))
    if weights is None:
        raise WeightsError(
            "the BiSeNet parser's weights are not embedded: name the file with --weights "
            f"(79999_iter.pth of face-parsing.PyTorch, sha256 {PUBLIC_BISENET_SHA256[:12]}…)"
        )
    return _load_public_bisenet(weights)


def _load_public_bisenet(path: Path) -> BiSeNet:
    import torch

    network = BiSeNet()
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        network.load_state_dict(state)
    except FileNotFoundError as error:
        raise WeightsError(f"there is no weights file {path}") from error
    except Exception as error:
        raise WeightsError(f"{path} does not hold BiSeNet's weights: {error}") from error
    return network.eval().requires_grad_(False)


N = TypeVar("N", bound=nn.Module)


def _load(network: N, of: WeightsRecord) -> N:
    from safetensors.torch import load

    try:
        content = of.path.read_bytes()
    except FileNotFoundError as error:
        raise WeightsError(f"the embedded weights {of.file} are missing: install the package again") from error
    found = sha256(content).hexdigest()
    if found != of.sha256:
        raise WeightsError(f"the embedded weights {of.file} are damaged: sha256 {found}, expected {of.sha256}")
    network.load_state_dict({name: tensor.float() for name, tensor in load(content).items()})
    return network.eval().requires_grad_(False)
