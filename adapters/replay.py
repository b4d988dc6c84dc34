"""Answers that were recorded, given again: contacts nobody, needs no credentials.

Where they lie is in `adapters.recordings`; each adapter's own file says what its answers mean.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

from adapters import chat, registry
from adapters.answers import from_answer
from adapters.base import AdapterError, Capabilities, Label, NoAnswer, RawAnswer
from adapters.json_labels import Scale, json_labels
from adapters.recordings import FiledAnswers, StoredAnswers, stored_answers

Parse = Callable[[RawAnswer], list[Label]]

STORE = "responses.sqlite"
PARSERS = {
    "azure": "adapters.azure:labels_of",
    "clarifai": "adapters.clarifai:labels_of",
    "google": "adapters.google:labels_of",
    "imagga": "adapters.imagga:labels_of",
    "rekognition": "adapters.rekognition:labels_of",
    "watson": "adapters.watson_answers:labels_of",
}
LABELS = "labels"


class Replay:
    """Recorded answers, given again: replay:google, from a run's responses.sqlite or a folder of raw JSON.

    Nobody is contacted and nothing is charged. An image is known by the sha256 of its bytes; one without a recorded
    answer gets none. Recorded errors are not replayed, only answers.

    Args:
        target: whose answers, by the name they were recorded under: ``replay:google``, ``replay:http:clinic``.
        source: a run's folder, its ``responses.sqlite``, or a folder of ``.json`` files.
        format: whose parser reads them, where the name does not tell: azure, clarifai, google, http, imagga, openai,
            rekognition, watson, or labels (``{"labels": [["smile", 0.7]]}``, as local classifiers answer).
        names: which file of a folder belongs to which image: a CSV file with the columns name and sha256 (and
            position), or the folder of the images as they were sent. Not needed for files named by sha256.
        classifier: which of several ways of asking in a ``responses.sqlite``, by its number there.
        options: what the parser of http needs: its options items, label, score, scale, may_lack_items; and of openai,
            for files of raw JSON: labels and logprobs.
        cut_off: the score (0-1) below which nothing was returned, where it was not the adapter's usual one (0.5 for
            most archives of Watson).
        presence: the score (0-1) from which a label counts as present; the recorded adapter's unless given.

    Raises:
        AdapterError: nothing of the kind is there.
    """

    capabilities = Capabilities(batch=256)

    def __init__(
        self,
        target: str,
        *,
        source: Path,
        format: str = "",
        names: Path | None = None,
        classifier: int | None = None,
        options: dict[str, Any] | None = None,
        cut_off: float | None = None,
        presence: float | None = None,
    ) -> None:
        self.name = f"replay:{target}"
        kind = format or target.removeprefix("replay:").partition(":")[0]
        self._recorded = self._found(target, source, classifier, names, zipped=kind == "watson")
        stored = self._recorded if isinstance(self._recorded, StoredAnswers) else None
        self._parse = self._parser(kind, stored, {**(stored.parameters if stored else {}), **(options or {})})
        self.model = f"{stored.model if stored else kind}, recorded answers sha256 {self._recorded.digest}"
        self.parameters: Mapping[str, Any] = {"recorded": dict(stored.parameters) if stored else {}}
        usual = _usual(kind)
        self.capabilities = replace(
            usual,
            cut_off=usual.cut_off if cut_off is None else cut_off,
            presence=usual.presence if presence is None else presence,
        )
        if not 0 <= (self.capabilities.cut_off or 0) <= self.capabilities.presence <= 1:
            raise AdapterError(f"the adapter {self.name!r}: cut_off and presence must be in 0-1, in this order")

    def send(self, images: Sequence[bytes]) -> list[RawAnswer | NoAnswer]:
        """The recorded answer to each image; see ``Adapter.send``."""
        digests = [sha256(image).hexdigest() for image in images]
        found = self._recorded.answers(digests)
        return [
            found.get(digest) or NoAnswer(f"no answer about the image {digest[:12]} was recorded") for digest in digests
        ]

    def parse(self, answer: RawAnswer) -> list[Label]:
        """See ``Adapter.parse``."""
        return self._parse(answer)

    def _found(
        self, target: str, source: Path, classifier: int | None, names: Path | None, *, zipped: bool
    ) -> StoredAnswers | FiledAnswers:
        path = source / STORE if (source / STORE).is_file() else source
        if path.is_file():
            if names is not None:
                raise AdapterError(f"the adapter {self.name!r}: option 'names' is for a folder of files")
            return stored_answers(path, target, classifier=classifier)
        if not path.is_dir():
            raise AdapterError(f"the adapter {self.name!r}: option 'source': there is no {source}")
        if classifier is not None:
            raise AdapterError(f"the adapter {self.name!r}: option 'classifier' is for a {STORE}")
        if names is not None and not names.exists():
            raise AdapterError(f"the adapter {self.name!r}: option 'names': there is no {names}")
        return FiledAnswers(path, names, zipped)

    def _parser(self, kind: str, stored: StoredAnswers | None, options: Mapping[str, Any]) -> Parse:
        if kind in PARSERS:
            module, _, function = PARSERS[kind].partition(":")
            parse: Parse = getattr(import_module(module), function)
            return parse
        if kind == "openai":
            labels, letters = options.get("labels"), options.get("logprobs") is True
            return lambda answer: chat.labels_of(answer.body, labels, letters=letters)
        if kind == "http":
            return self._http_parser(options)
        if kind == LABELS or stored is not None:
            return from_answer
        raise AdapterError(
            f"the adapter {self.name!r}: {kind!r} does not tell whose answers these are: give the option format, one "
            f"of {', '.join(sorted([*PARSERS, 'http', 'openai', LABELS]))}"
        )

    def _http_parser(self, options: Mapping[str, Any]) -> Parse:
        label, score, items = (options.get(name) for name in ("label", "score", "items"))
        scale = options.get("scale", "0-1")
        paths = isinstance(score, str | None) and isinstance(items, str | None)
        if not isinstance(label, str) or not paths or scale not in get_args(Scale):
            raise AdapterError(
                f"the adapter {self.name!r}: option 'options' must hold label, score, ... as http had them"
            )
        where = json_labels(
            items=items,
            label=label,
            score=score,
            scale=scale,
            may_lack_items=options.get("may_lack_items") is True,
            adapter=self.name,
        )
        return lambda answer: where.labels_of(answer.body)


def _usual(kind: str) -> Capabilities:
    """What the recorded adapter declares, as far as it is true of its recorded answers."""
    if kind not in registry.BUILT_IN:
        return Replay.capabilities
    module, _, name = registry.BUILT_IN[kind].partition(":")
    declared: Capabilities = getattr(import_module(module), name).capabilities
    return replace(
        Replay.capabilities,
        scale=declared.scale,
        cut_off=declared.cut_off,
        presence=declared.presence,
        top_k=declared.top_k,
    )
