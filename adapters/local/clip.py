"""Zero-shot classification by CLIP-like networks of open_clip, which compare an image with sentences about labels."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from adapters.base import AdapterError, Capabilities
from adapters.local.files import digest_of, hub_snapshot, neither_here_nor_published, not_here
from adapters.local.labels import read_labels
from adapters.local.network import Activation, Reading, TorchNetwork, TorchOptions
from adapters.local.preprocessing import Fit, Preprocessing
from adapters.options import did_you_mean
from adapters.packages import package

if TYPE_CHECKING:
    import torch

_ACTIVATIONS: Mapping[str, Activation] = {"softmax": "softmax", "sigmoid": "sigmoid", "cosine": "none"}
_CONFIG = "open_clip_config.json"
_WEIGHTS = ("*.safetensors", "*.bin", "*.pth", "*.pt")
_TOKENIZER = ("tokenizer*", "vocab*", "merges.txt", "special_tokens_map.json", "*.model")
_FITS: Mapping[str, Fit] = {"shortest": "crop", "squash": "stretch", "longest": "pad"}


class Clip(TorchNetwork):
    """Zero-shot classification with open_clip: clip:ViT-B-32, with your list of labels.

    "softmax" scores compare the labels of the list with each other, so they depend on the whole list. "sigmoid" scores
    are independent of other labels and need a network trained for them (SigLIP). "cosine" is the similarity,
    (1 + cos) / 2.
    """

    class Options(TorchOptions):
        target: str
        """an architecture of open_clip, a folder with open_clip_config.json, or hf-hub:owner/name."""
        weights: str | None = None
        """published weights of an architecture, such as laion2b_s34b_b79k, or your own file, which is used with
        OpenAI's preprocessing."""
        labels: str | tuple[str, ...] = "occupations"
        """the included list occupations, a file with one label per line, or a list."""
        template: str | tuple[str, ...] = "a photo of a {}"
        """the sentence about the image, with {} for the label; of a list of sentences, the mean is used."""
        scores: Literal["softmax", "sigmoid", "cosine"] = "softmax"
        """see above."""
        top_k: int | None = Field(None, ge=1)
        """number of highest scores to return; 1 with presence=0 counts only the best label."""

    capabilities = Capabilities(scale="softmax, sigmoid or cosine", batch=16)

    def __init__(self, options: Options) -> None:
        name = f"clip:{options.target}"
        self._source = find(options.target, options.weights, adapter=name, download=options.download)
        self._preprocessing = self._source.preprocessing
        self._templates = (options.template,) if isinstance(options.template, str) else options.template
        for text in self._templates or ("",):
            if text.count("{}") != 1:
                raise AdapterError(f"{name}: the template {text!r} must contain {{}} once, in place of the label")
        names = read_labels(options.labels)
        self._scores = options.scores
        super().__init__(
            name,
            options,
            reading=Reading(names, _ACTIVATIONS[options.scores], options.top_k),
            packages=["open_clip_torch"],
            labels=list(names),
            template=list(self._templates),
            preprocessing=asdict(self._preprocessing),
            scores=options.scores,
        )

    @cached_property
    def model(self) -> str:
        """The network, the weights' name and the digest of the files."""
        return self._source.model

    def _load(self) -> "torch.nn.Module":
        network: torch.nn.Module = self._source.load()
        if self._scores == "sigmoid" and getattr(network, "logit_bias", None) is None:
            raise AdapterError(f"{self.name} was not trained for sigmoid scores (SigLIP networks are): use softmax")
        return network

    @cached_property
    def _sentences(self) -> "torch.Tensor":
        """``(labels, D)`` unit embeddings of the labels' sentences."""
        import torch

        tokenize = package("open_clip", adapter=self.name).get_tokenizer(self._source.name)
        with torch.no_grad():
            embedded = [
                self._network.encode_text(
                    tokenize([template.replace("{}", label) for label in self._reading.names]).to(self._device),
                    normalize=True,
                ).float()
                for template in self._templates
            ]
            return torch.nn.functional.normalize(torch.stack(embedded).sum(dim=0), dim=-1)

    def _forward(self, images: "torch.Tensor") -> "torch.Tensor":
        cosines: torch.Tensor = self._network.encode_image(images, normalize=True).float() @ self._sentences.T
        if self._scores == "cosine":
            return ((1 + cosines) / 2).clamp(0, 1)
        logits: torch.Tensor = cosines * self._network.logit_scale.float().exp()
        if self._scores == "sigmoid":
            logits = logits + self._network.logit_bias.float()
        return logits


@dataclass(frozen=True)
class ClipSource:
    """A network on this machine."""

    adapter: str  # the adapter's name, for messages
    name: str  # in open_clip: an architecture, or ``local-dir:FOLDER``
    described: str  # names of the network and the weights, for the record
    weights: Path | None  # None: in the folder
    files: tuple[Path, ...]  # all files that determine the answers
    preprocessing: Preprocessing
    quick_gelu: bool = False  # whether the weights were trained with this activation

    @property
    def model(self) -> str:
        """The network, its weights' name and the digest of its files."""
        return f"{self.described}, sha256 {digest_of(self.files)}"

    def load(self) -> Any:
        """Load the network; AdapterError if the weights do not fit it."""
        import open_clip

        options: dict[str, Any] = {"pretrained": str(self.weights)} if self.weights else {}
        try:
            return open_clip.create_model(
                self.name, **options, require_pretrained=True, force_quick_gelu=self.quick_gelu
            )
        except Exception as error:
            reason = str(error).strip().partition("\n")[0]
            raise AdapterError(f"{self.adapter} cannot be loaded: {type(error).__name__}: {reason}") from error


def find(target: str, weights: str | None, *, adapter: str, download: bool) -> ClipSource:
    """Find a network: an architecture with ``weights``, a folder, or ``hf-hub:owner/name``.

    Raises:
        AdapterError: open_clip is not installed, there is no such network, or its weights are not on this machine.
    """
    package("open_clip", adapter=adapter)
    if target.startswith("hf-hub:"):
        repository = target.removeprefix("hf-hub:")
        patterns = (_CONFIG, "open_clip_*.safetensors", *_TOKENIZER)
        folder = hub_snapshot(repository, revision=None, patterns=patterns, download=download, adapter=adapter)
        return _in_folder(folder, weights, described=f"{repository} at {folder.name}", adapter=adapter)
    if Path(target).is_dir():
        return _in_folder(Path(target), weights, described=Path(target).resolve().name, adapter=adapter)
    return _by_name(target, weights, adapter=adapter, download=download)


def _in_folder(folder: Path, weights: str | None, *, described: str, adapter: str) -> ClipSource:
    if weights is not None:
        raise AdapterError(f"{adapter}: the folder {folder} has its own weights: remove the option weights")
    try:
        declared = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
        preprocessing = _preprocessing(declared["model_cfg"], declared.get("preprocess_cfg", {}))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AdapterError(f"{adapter}: {folder / _CONFIG} cannot be read: {type(error).__name__}: {error}") from error
    networks = [file for pattern in _WEIGHTS for file in folder.glob(pattern)]
    if not networks:
        raise AdapterError(f"{adapter}: there are no weights (*.safetensors) in {folder}: download it again")
    rest = {file for pattern in _TOKENIZER for file in folder.glob(pattern)} | {folder / _CONFIG}
    return ClipSource(
        adapter, f"local-dir:{folder}", described, weights=None, files=(*networks, *rest), preprocessing=preprocessing
    )


def _by_name(architecture: str, weights: str | None, *, adapter: str, download: bool) -> ClipSource:
    import open_clip

    model = open_clip.get_model_config(architecture)
    if model is None:
        raise AdapterError(
            f"{adapter}: open_clip has no architecture {architecture!r}, and there is no such folder"
            f"{did_you_mean(architecture, open_clip.list_models(), most=3)}"
        )
    published = open_clip.pretrained.list_pretrained_tags_by_model(architecture)
    if weights is None:
        raise AdapterError(
            f"{adapter}: the option weights is required: a file, or one of {', '.join(published) or 'none'}"
        )
    tokenizer = model["text_cfg"].get("hf_tokenizer_name") or model["text_cfg"].get("hf_model_name")
    if tokenizer:
        hub_snapshot(tokenizer, revision=None, patterns=("*.json", *_TOKENIZER), download=download, adapter=adapter)
    if Path(weights).is_file():
        file, tag = Path(weights), {}
    else:
        tag = open_clip.get_pretrained_cfg(architecture, weights)
        if not tag:
            raise neither_here_nor_published(adapter, weights, published)
        file = _on_disk(tag) or _missing(architecture, weights, tag, adapter=adapter, download=download)
    return ClipSource(
        adapter,
        architecture,
        described=f"{architecture}, weights {weights}" if tag else architecture,
        weights=file,
        files=(file,),
        preprocessing=_preprocessing(model, tag),
        quick_gelu=bool(tag.get("quick_gelu")),
    )


def _on_disk(tag: Mapping[str, Any]) -> Path | None:
    """Return the file of published weights in open_clip's caches; None if it is not there."""
    from huggingface_hub import try_to_load_from_cache

    repository, _, file = tag.get("hf_hub", "").rpartition("/")
    if repository:
        files = [file] if file else ["open_clip_model.safetensors", "open_clip_pytorch_model.bin"]
        files = [str(Path(name).with_suffix(".safetensors")) for name in files] + files
        for name in files:
            found = try_to_load_from_cache(repository, name)
            if isinstance(found, str):
                return Path(found)
    cached = Path.home() / ".cache" / "clip" / (tag.get("url") or "none").rpartition("/")[2]
    return cached if cached.is_file() else None


def _missing(architecture: str, weights: str, tag: Mapping[str, Any], *, adapter: str, download: bool) -> Path:
    import open_clip

    if not download:
        command = f"python -c \"import open_clip; open_clip.create_model('{architecture}', pretrained='{weights}')\""
        instead = "a file with the option weights"
        raise not_here(adapter, f"the weights {weights} are", command=command, instead=instead)
    try:
        return Path(open_clip.download_pretrained(dict(tag)))
    except Exception as error:
        raise AdapterError(f"{adapter}: the weights {weights} cannot be downloaded: {error}") from error


def _preprocessing(model: Mapping[str, Any], declared: Mapping[str, Any]) -> Preprocessing:
    """Return a network's preprocessing: open_clip's defaults, overridden by the declaration of the weights."""
    from open_clip.transform import PreprocessCfg, merge_preprocess_dict

    merged = merge_preprocess_dict(PreprocessCfg(), dict(declared))
    size = model["vision_cfg"].get("image_size", merged["size"])
    height, width = (size, size) if isinstance(size, int) else (size[0], size[1])
    return Preprocessing(
        size=(height, width),
        mean=tuple(merged["mean"]),
        std=tuple(merged["std"]),
        fit=_FITS[merged["resize_mode"]],
        interpolation=merged["interpolation"],
    )
