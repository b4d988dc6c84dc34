"""Similarity of identity of two face crops by facenet-pytorch's InceptionResnetV1, if its weights are installed.

The weights are never downloaded here, and nothing depends on them.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from models.errors import WeightsError

if TYPE_CHECKING:  # `find_weights` works without torch
    from torch import Tensor, nn

# The file that facenet-pytorch downloads to torch's cache for `InceptionResnetV1(pretrained="vggface2")`.
FILE = "20180402-114759-vggface2.pt"
SIZE = 160


def find_weights() -> Path | None:
    """Return the path of the recognition network's weights in torch's cache (``TORCH_HOME``), or None."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"))
    path = Path(os.environ.get("TORCH_HOME", cache / "torch")).expanduser() / "checkpoints" / FILE
    return path if path.is_file() else None


def load_recogniser(path: Path) -> "nn.Module":
    """Load the recognition network, frozen, in evaluation mode.

    Raises:
        WeightsError: the file does not contain its weights.
    """
    import torch
    from facenet_pytorch import InceptionResnetV1

    network: nn.Module = InceptionResnetV1()
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        # The file also contains the classifier of the training identities.
        network.load_state_dict({name: part for name, part in state.items() if not name.startswith("logits")})
    except Exception as error:
        raise WeightsError(
            f"{path} does not contain the weights of InceptionResnetV1 ({error}): remove it, or download it again"
        ) from error
    return network.eval().requires_grad_(False)


def similarity(network: "nn.Module", crops: "Tensor", references: "Tensor") -> "Tensor":
    """Return the cosine similarity ``(B,)`` of the embeddings of two batches of crops ``(B, 3, S, S)`` in -1..1."""
    import torch
    from torch.nn import functional as F

    from models.precision import device_of

    with torch.inference_mode():
        both = F.interpolate(torch.cat([crops, references]), size=(SIZE, SIZE), mode="bilinear", antialias=True)
        # The network was trained on (levels - 127.5) / 128.
        one, other = network((both * (127.5 / 128)).to(device_of(network))).cpu().chunk(2)
        return F.cosine_similarity(one, other)
