"""Zero-shot classification by CLIP-like networks of open_clip: labels are sentences that an image is compared with.

Which labels are asked about is the user's question and therefore a parameter; the sentences are embedded once.
"""

from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from adapters.base import AdapterError, Capabilities
from adapters.clip_weights import ClipSource, find
from adapters.label_lists import read_labels
from adapters.local_network import DType, LocalNetwork, Reading, run_torch, torch_device, versions
from adapters.preprocessing import pixels

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

Scores = Literal["softmax", "sigmoid", "cosine"]
_ACTIVATIONS: Mapping[Scores, Literal["softmax", "sigmoid", "none"]] = {
    "softmax": "softmax", "sigmoid": "sigmoid", "cosine": "none"
}  # fmt: skip


class Clip(LocalNetwork):
    """Zero-shot classification with open_clip: clip:ViT-B-32, asked about a list of labels of yours.

    "softmax" scores say which label of the list fits best: they depend on the whole list. "sigmoid" scores judge each
    label by itself and need a network that was trained so (SigLIP). "cosine" is the similarity itself, (1 + cos) / 2.

    Args:
        target: an architecture of open_clip, a folder with open_clip_config.json, or hf-hub:owner/name.
        weights: published weights of an architecture, such as laion2b_s34b_b79k, or a file of your own, which is
            taken to want OpenAI's preprocessing.
        labels: the ready-made list "occupations", a file with one label a line, or a list.
        template: what is said of the image, with {} for the label; the mean of several if a list is given.
        scores: softmax, sigmoid or cosine.
        top_k: only that many of the highest scores are returned; 1 with presence=0 counts the best label alone.
        presence: the score from which a label counts as present.
        device: cpu, cuda, cuda:1, mps.
        dtype: the precision of the network.
        batch: images at once.
        download: fetch published weights that are not on this machine.

    Raises:
        AdapterError: open_clip is not installed, or an unknown network or weights, or weights that are not there.
    """

    capabilities = Capabilities(scale="softmax, sigmoid or cosine", batch=16)

    def __init__(
        self,
        target: str,
        *,
        weights: str | None = None,
        labels: str | tuple[str, ...] = "occupations",
        template: str | tuple[str, ...] = "a photo of a {}",
        scores: Scores = "softmax",
        top_k: int | None = None,
        presence: float = 0.5,
        device: str = "cpu",
        dtype: DType = "float32",
        batch: int = 16,
        download: bool = False,
    ) -> None:
        name = f"clip:{target}"
        self._source: ClipSource = find(target, weights, adapter=name, download=download)
        self._templates = (template,) if isinstance(template, str) else template
        for text in self._templates or ("",):
            if text.count("{}") != 1:
                raise AdapterError(f"{name}: the template {text!r} needs {{}} once, where the label goes")
        names = read_labels(labels)
        self._scores = scores
        super().__init__(name, reading=Reading(names, _ACTIVATIONS[scores], top_k), batch=batch, presence=presence)
        self._device, self._dtype = torch_device(device, adapter=name), dtype
        self.parameters: Mapping[str, Any] = {
            "labels": list(names),
            "template": list(self._templates),
            "preprocessing": asdict(self._source.preprocessing),
            "scores": scores,
            "top_k": top_k,
            "device": device,
            "dtype": dtype,
            "batch": batch,
            **versions("torch", "open_clip_torch", "pillow"),
        }

    @cached_property
    def model(self) -> str:
        """The network, the weights' name and the digest of the files."""
        return self._source.model

    @cached_property
    def _network(self) -> Any:
        import torch

        with torch.random.fork_rng(devices=[]):
            network = self._source.load()
        if self._scores == "sigmoid" and getattr(network, "logit_bias", None) is None:
            raise AdapterError(f"{self.name} was not trained for sigmoid scores (SigLIP networks are): use softmax")
        return network.eval().requires_grad_(False).to(self._device, getattr(torch, self._dtype))

    @cached_property
    def _sentences(self) -> "torch.Tensor":
        """``(labels, D)`` unit embeddings of what each label says of an image."""
        import torch

        tokenize = self._source.tokenizer()
        with torch.inference_mode():
            embedded = [
                self._network.encode_text(
                    tokenize([template.replace("{}", label) for label in self._reading.names]).to(self._device),
                    normalize=True,
                ).float()
                for template in self._templates
            ]
            return torch.nn.functional.normalize(torch.stack(embedded).sum(dim=0), dim=-1)

    def _prepare(self, image: bytes) -> "NDArray[np.float32]":
        return pixels(image, self._source.preprocessing)

    def _outputs(self, batch: "NDArray[np.float32]") -> "NDArray[np.floating[Any]]":
        return run_torch(self._compare, batch, device=self._device, dtype=self._dtype)

    def _compare(self, images: "torch.Tensor") -> "torch.Tensor":
        cosines: torch.Tensor = self._network.encode_image(images, normalize=True).float() @ self._sentences.T
        if self._scores == "cosine":
            return ((1 + cosines) / 2).clamp(0, 1)
        logits: torch.Tensor = cosines * self._network.logit_scale.float().exp()
        if self._scores == "sigmoid":
            logits = logits + self._network.logit_bias.float()
        return logits
