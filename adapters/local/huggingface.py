"""Image classifiers of the transformers library, from a folder or the local cache of the Hugging Face Hub."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from adapters.base import AdapterError, Capabilities
from adapters.local.files import digest_of, hub_snapshot
from adapters.local.labels import digest, distinct
from adapters.local.network import Activation, Reading, TorchNetwork, TorchOptions
from adapters.local.preprocessing import decode_rgb
from adapters.packages import package

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

_PROCESSOR = "preprocessor_config.json"
_SAFE = ("config.json", _PROCESSOR, "*.safetensors", "*.safetensors.index.json")
_SAFELY = {"local_files_only": True, "trust_remote_code": False}
_PICKLED = ("pytorch_model*.bin", "pytorch_model*.bin.index.json")


class HuggingFace(TorchNetwork):
    """An image classifier of transformers: huggingface:google/vit-base-patch16-224, or a folder.

    Labels and preprocessing come from the model. Code in a model's repository is never executed.
    """

    class Options(TorchOptions):
        target: str
        """a folder written by save_pretrained, or the name of a repository in the local cache of the Hub."""
        revision: str | None = None
        """the repository's commit, tag or branch; pin a commit if answers must stay the same."""
        activation: Activation | None = None
        """softmax for exclusive labels, sigmoid for independent labels; default: as the model declares."""

    capabilities = Capabilities(scale="softmax or sigmoid of the outputs", batch=16)

    def __init__(self, options: Options) -> None:
        target, revision = options.target, options.revision
        name = f"huggingface:{target}"
        self._transformers = package("transformers", adapter=name)
        local = Path(target).is_dir()
        if local and revision is not None:
            raise AdapterError(f"{name}: a folder has no revisions: remove the option revision")
        self._folder = Path(target) if local else _from_hub(target, name, revision, download=options.download)
        self._files = _files(self._folder, name)
        self._described = f"{target} at {self._folder.name}" if not local else self._folder.resolve().name
        config = self._config(name)
        names = distinct([str(config.id2label[number]) for number in sorted(config.id2label)])
        several = getattr(config, "problem_type", None) == "multi_label_classification" or len(names) == 1
        reading = Reading(names, options.activation or ("sigmoid" if several else "softmax"), options.top_k)
        super().__init__(
            name,
            options,
            reading=reading,
            packages=["transformers"],
            preprocessing=json.loads((self._folder / _PROCESSOR).read_text(encoding="utf-8")),
            labels_sha256=digest(names),
            activation=reading.activation,
        )

    @cached_property
    def model(self) -> str:
        """The folder's name or the repository and its commit, and the digest of the files."""
        return f"{self._described}, files sha256 {digest_of(self._files)}"

    def _config(self, name: str) -> Any:
        try:
            return self._transformers.AutoConfig.from_pretrained(self._folder, **_SAFELY)
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise AdapterError(
                f"{name}: transformers {self._transformers.__version__} cannot read {self._folder / 'config.json'} "
                f"(code in a model's repository is never executed): {error}"
            ) from error

    def _load(self) -> "torch.nn.Module":
        network: torch.nn.Module
        try:
            with _without_bars(self._transformers.logging):
                network, loading = self._transformers.AutoModelForImageClassification.from_pretrained(
                    self._folder, output_loading_info=True, **_SAFELY
                )
        except (OSError, ValueError, RuntimeError, ImportError) as error:
            raise AdapterError(f"{self.name} cannot be loaded as an image classifier: {error}") from error
        if loading["missing_keys"]:
            # Transformers initialises missing weights at random and only warns.
            missing = ", ".join(sorted(loading["missing_keys"])[:3])
            raise AdapterError(f"{self.name} is not a trained image classifier: its weights lack {missing}")
        return network

    @cached_property
    def _processor(self) -> Any:
        try:
            return self._transformers.AutoImageProcessor.from_pretrained(self._folder, **_SAFELY)
        except (OSError, ValueError, ImportError) as error:
            raise AdapterError(f"{self.name}: its image processor cannot be loaded: {error}") from error

    def _prepare(self, image: bytes) -> "NDArray[np.float32]":
        from PIL import Image

        processed = self._processor(images=Image.fromarray(decode_rgb(image)), return_tensors="pt")
        return cast("NDArray[np.float32]", processed["pixel_values"][0].float().numpy())

    def _forward(self, images: "torch.Tensor") -> "torch.Tensor":
        return cast("torch.Tensor", self._network(pixel_values=images).logits)


@contextmanager
def _without_bars(settings: Any) -> Iterator[None]:
    """Context without the progress bars of transformers."""
    shown = settings.is_progress_bar_enabled()
    settings.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            settings.enable_progress_bar()


def _from_hub(repository: str, name: str, revision: str | None, *, download: bool) -> Path:
    folder = hub_snapshot(repository, revision=revision, patterns=_SAFE, download=download, adapter=name)
    if download and not any(folder.glob("*.safetensors")):
        hub_snapshot(repository, revision=revision, patterns=_PICKLED, download=True, adapter=name)
    return folder


def _files(folder: Path, name: str) -> list[Path]:
    """Return the files that determine the answers: configuration, image processor and weights."""
    weights = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))
    files = [folder / "config.json", folder / _PROCESSOR, *weights]
    missing = [file.name for file in files if not file.is_file()] + ([] if weights else ["model.safetensors"])
    if missing:
        raise AdapterError(f"{name}: {folder} lacks {', '.join(missing)}: download the complete model again")
    return files
