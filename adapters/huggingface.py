"""Any image classifier of the transformers library, from a folder or from the local cache of the Hugging Face Hub.

Code that comes with a model is never executed, and nothing is downloaded unless that was asked.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters.base import AdapterError, Capabilities
from adapters.images import decode_rgb
from adapters.label_lists import digest, distinct
from adapters.local_network import Activation, DType, LocalNetwork, Reading, run_torch, torch_device, versions
from adapters.model_files import digest_of, hub_snapshot, package

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PROCESSOR = "preprocessor_config.json"
_SAFE = ("config.json", _PROCESSOR, "*.safetensors", "*.safetensors.index.json")
_PICKLED = ("pytorch_model*.bin", "pytorch_model*.bin.index.json")


class HuggingFace(LocalNetwork):
    """An image classifier of transformers: huggingface:google/vit-base-patch16-224, or a folder.

    The model brings its labels and its image processor. Code that comes with a model is never executed.

    Args:
        target: a folder that ``save_pretrained`` wrote, or a repository's name in the local cache of the Hub.
        revision: the repository's commit, tag or branch; pin a commit if answers must stay the same.
        activation: softmax where one label is right, sigmoid where each is right or wrong by itself; as the model says
            unless given.
        top_k: only that many of the highest scores are returned; all unless given.
        presence: the score from which a label counts as present.
        device: cpu, cuda, cuda:1, mps.
        dtype: the precision of the network.
        batch: images at once.
        download: fetch a repository that is not on this machine.

    Raises:
        AdapterError: transformers is not installed, or the model is not there or no image classifier.
    """

    capabilities = Capabilities(scale="softmax or sigmoid of the outputs", batch=16)

    def __init__(
        self,
        target: str,
        *,
        revision: str | None = None,
        activation: Activation | None = None,
        top_k: int | None = None,
        presence: float = 0.5,
        device: str = "cpu",
        dtype: DType = "float32",
        batch: int = 16,
        download: bool = False,
    ) -> None:
        name = f"huggingface:{target}"
        self._transformers = package("transformers", adapter=name, install="transformers")
        local = Path(target).is_dir()
        if local and revision is not None:
            raise AdapterError(f"{name}: a folder has no revisions: leave the option revision out")
        self._folder = Path(target) if local else _from_hub(target, name, revision=revision, download=download)
        self._files = _files(self._folder, name)
        self._says = f"{target} at {self._folder.name}" if not local else self._folder.resolve().name
        config = self._config(name)
        names = distinct([str(config.id2label[number]) for number in sorted(config.id2label)])
        several = getattr(config, "problem_type", None) == "multi_label_classification" or len(names) == 1
        reading = Reading(names, activation or ("sigmoid" if several else "softmax"), top_k)
        super().__init__(name, reading=reading, batch=batch, presence=presence)
        self._device, self._dtype = torch_device(device, adapter=name), dtype
        self.parameters: Mapping[str, Any] = {
            "preprocessing": json.loads((self._folder / _PROCESSOR).read_text(encoding="utf-8")),
            "labels_sha256": digest(names),
            "activation": reading.activation,
            "top_k": top_k,
            "device": device,
            "dtype": dtype,
            "batch": batch,
            **versions("torch", "transformers", "pillow"),
        }

    @cached_property
    def model(self) -> str:
        """The folder's name or the repository and its commit, and the digest of the files."""
        return f"{self._says}, files sha256 {digest_of(self._files)}"

    def _config(self, name: str) -> Any:
        try:
            return self._transformers.AutoConfig.from_pretrained(
                self._folder, local_files_only=True, trust_remote_code=False
            )
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise AdapterError(
                f"{name}: transformers {self._transformers.__version__} cannot read {self._folder / 'config.json'} "
                f"(code that comes with a model is never executed): {error}"
            ) from error

    @cached_property
    def _network(self) -> Any:
        import torch

        known = {"local_files_only": True, "trust_remote_code": False}
        try:
            with torch.random.fork_rng(devices=[]), _without_bars(self._transformers.logging):
                network, loading = self._transformers.AutoModelForImageClassification.from_pretrained(
                    self._folder, output_loading_info=True, **known
                )
        except (OSError, ValueError, RuntimeError, ImportError) as error:
            raise AdapterError(f"{self.name} cannot be loaded as an image classifier: {error}") from error
        if loading["missing_keys"]:
            # Transformers would draw them at random and warn: labels of a classifier that was never trained.
            missing = ", ".join(sorted(loading["missing_keys"])[:3])
            raise AdapterError(f"{self.name} holds no trained image classifier: its weights lack {missing}")
        return network.eval().requires_grad_(False).to(self._device, getattr(torch, self._dtype))

    @cached_property
    def _processor(self) -> Any:
        try:
            return self._transformers.AutoImageProcessor.from_pretrained(
                self._folder, local_files_only=True, trust_remote_code=False
            )
        except (OSError, ValueError, ImportError) as error:
            raise AdapterError(f"{self.name}: its image processor cannot be loaded: {error}") from error

    def _prepare(self, image: bytes) -> "NDArray[np.float32]":
        from PIL import Image

        processed = self._processor(images=Image.fromarray(decode_rgb(image)), return_tensors="pt")
        values: NDArray[np.float32] = processed["pixel_values"][0].float().numpy()
        return values

    def _outputs(self, batch: "NDArray[np.float32]") -> "NDArray[np.floating[Any]]":
        return run_torch(
            lambda values: self._network(pixel_values=values).logits, batch, device=self._device, dtype=self._dtype
        )


@contextmanager
def _without_bars(settings: Any) -> Iterator[None]:
    """No progress bars of transformers' own between those of an audit."""
    shown = settings.is_progress_bar_enabled()
    settings.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            settings.enable_progress_bar()


def _from_hub(repository: str, name: str, *, revision: str | None, download: bool) -> Path:
    folder = hub_snapshot(repository, revision=revision, patterns=_SAFE, download=download, adapter=name)
    if download and not any(folder.glob("*.safetensors")):
        hub_snapshot(repository, revision=revision, patterns=_PICKLED, download=True, adapter=name)
    return folder


def _files(folder: Path, name: str) -> list[Path]:
    """The files that decide the answers: the configuration, the image processor and the weights."""
    weights = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))
    files = [folder / "config.json", folder / _PROCESSOR, *weights]
    missing = [file.name for file in files if not file.is_file()] + ([] if weights else ["model.safetensors"])
    if missing:
        raise AdapterError(f"{name}: {folder} lacks {', '.join(missing)}: fetch the model again, whole")
    return files
