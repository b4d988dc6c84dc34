"""Records of the embedded weights and functions to load them.

Files are safetensors in half precision in ``weights/``; the model card of the same name describes their training.
"""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from models.attributes import CLASSES
from models.errors import WeightsError

if TYPE_CHECKING:  # the records can be read without torch
    from torch import nn

    from models.fader import Fader
    from models.judge import Classifier
    from models.parser import BiSeNet, SmallParser
    from models.residual import Prototypes

ClassifierName = Literal["estimator", "judge", "grey-judge"]
CLASSIFIERS: tuple[ClassifierName, ...] = get_args(ClassifierName)
FOLDER = Path(__file__).parent / "weights"
TERMS = "non-commercial research only (learnt from UTKFace and CelebAMask-HQ)"

# The face-parsing project's 79999_iter.pth, also known as facexlib's parsing_bisenet.pth.
PUBLIC_BISENET_SHA256 = "468e13ca13a9b43cc0881a9f99083a430e9c0a38abd935431d1c28ee94b26567"


@dataclass(frozen=True)
class WeightsRecord:
    """One shipped file.

    Attributes:
        sha256: hash of the file, checked on every load.
        licence: the terms of use of the weights, which differ from the code's licence.
        preprocessing: the expected input of the network.
        classes: names of the outputs, if they are classes.
    """

    file: str
    sha256: str
    licence: str
    preprocessing: str
    classes: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """Path of the file."""
        return FOLDER / self.file


_ALIGNED = "RGB in -1..1, 128 x 128, aligned by models.alignment"
RECORDS = {
    "fader": WeightsRecord(
        "fader.safetensors", "b20905219357417a312d799f9edfc4756c920be35186d4ba0bf33369c829eebf", TERMS, _ALIGNED
    ),
    "parser": WeightsRecord(
        "parser.safetensors",
        "bc733815a59734ea9d9e2b2c66ea15c13267b68c23a963a33d1dcaaff7d04da5",
        TERMS,
        "RGB in -1..1, sides divisible by 32, best at 224 x 224",
        CLASSES,
    ),
    "estimator": WeightsRecord(
        "estimator.safetensors",
        "f06eca8f323860223f7ec5feef3009a2066071dff375b0bceae573592aa8349e",
        TERMS,
        f"{_ALIGNED}; looks at judge.VIEW",
    ),
    "residual": WeightsRecord(
        "residual.safetensors",
        "7fc595c492ad25a2eb59c533dade8ebb9607d9b13f88bce80399a830215ad438",
        TERMS,
        "perceived age in years; fields lie over the template of models.alignment",
    ),
    "tone": WeightsRecord(
        "tone.json",
        "96fc92d70fa6963246adad998330b2a52fe6b5c377119642e617442fc3015ac5",
        TERMS,
        "median CIELAB of a face's skin",
    ),
    "judge": WeightsRecord(
        "judge.safetensors",
        "6a417fbf23b9e7535b19174a5c2b7923d01d30194b51a44e5358ee456aaaf10a",
        TERMS,
        f"{_ALIGNED}; looks at judge.VIEW",
    ),
    "grey-judge": WeightsRecord(
        "grey-judge.safetensors",
        "e8420fec9ed47ebc507af907bccc1d31ddff87d78a5e456273ab6ebfca348293",
        TERMS,
        f"{_ALIGNED}; looks at judge.VIEW, in 64 x 64 of luma",
    ),
}


# The weights of each editor.
EDITORS = {"residual": ("residual", "tone"), "fader": ("fader",)}


def record(name: str) -> WeightsRecord:
    """Return the record of an embedded file by its name in ``RECORDS``."""
    return RECORDS[name]


def load_fader() -> "Fader":
    """Load the embedded Fader network, frozen, in evaluation mode."""
    from models.fader import Fader

    return _load(Fader(), record("fader"))


def load_residual() -> "Prototypes":
    """Load the embedded prototypes of the residual editor, frozen, in evaluation mode."""
    from models.residual import Prototypes

    return _load(Prototypes(), record("residual"))


def load_judge(name: ClassifierName) -> "Classifier":
    """Load the embedded estimator or a judge, frozen, in evaluation mode."""
    from models.judge import Estimator, GreyJudge, Judge

    kinds: dict[ClassifierName, type[Classifier]] = {"estimator": Estimator, "judge": Judge, "grey-judge": GreyJudge}
    return _load(kinds[name](), record(name))


def load_parser(kind: Literal["small", "bisenet"] = "small", *, weights: Path | None = None) -> "SmallParser | BiSeNet":
    """Load a face parser, frozen, in evaluation mode.

    Args:
        kind: "small" is embedded; "bisenet" needs the path of its public weights.
        weights: the public ``.pth`` state dict; verified by sha256 and loaded without executing code.

    Raises:
        WeightsError: BiSeNet without a path, or a file that is not the public one.
    """
    from models.parser import SmallParser

    if kind == "small":
        return _load(SmallParser(), record("parser"))
    if weights is None:
        raise WeightsError(
            "the weights of the BiSeNet parser are not embedded: give the file with --weights "
            f"(79999_iter.pth of face-parsing.PyTorch, sha256 {PUBLIC_BISENET_SHA256[:12]}…)"
        )
    return _load_public_bisenet(weights)


def public_bisenet(path: Path) -> bytes:
    """Read the file of the public BiSeNet weights.

    Raises:
        WeightsError: the file cannot be read, or has another sha256.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise WeightsError(f"the weights file {path} cannot be read: {error.strerror}") from error
    found = sha256(content).hexdigest()
    if found != PUBLIC_BISENET_SHA256:
        raise WeightsError(
            f"{path} is not the public BiSeNet weights: sha256 {found}, expected {PUBLIC_BISENET_SHA256}"
        )
    return content


def _load_public_bisenet(path: Path) -> "BiSeNet":
    from io import BytesIO

    import torch

    from models.parser import BiSeNet

    content = public_bisenet(path)
    network = BiSeNet()
    try:
        network.load_state_dict(torch.load(BytesIO(content), map_location="cpu", weights_only=True))
    except Exception as error:
        raise WeightsError(f"{path} does not contain the weights of BiSeNet: {error}") from error
    return network.eval().requires_grad_(False)


N = TypeVar("N", bound="nn.Module")


def read_weights(network: N, path: Path, *, strict: bool = True) -> N:
    """Load a safetensors file of any precision into ``network``, in float32.

    Args:
        network: changed in place.
        path: the file.
        strict: require that the file has exactly the tensors of the network.
    """
    from safetensors.torch import load_file

    network.load_state_dict({name: tensor.float() for name, tensor in load_file(path).items()}, strict=strict)
    return network


def write_weights(network: "nn.Module", path: Path) -> None:
    """Write a network's tensors in half precision, as they are shipped."""
    from safetensors.torch import save_file

    save_file({name: tensor.half().contiguous().cpu() for name, tensor in network.state_dict().items()}, path)


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
