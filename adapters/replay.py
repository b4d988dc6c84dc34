"""Replay of recorded answers without network and credentials; `recordings` reads them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import Field

from adapters import registry
from adapters.answers import from_answer, json_object
from adapters.base import AdapterError, Capabilities, Label, NoAnswer, RawAnswer
from adapters.cloud import openai_answers as chat
from adapters.cloud import watson
from adapters.json_labels import JsonLabels
from adapters.options import AdapterOptions, read_options
from adapters.recordings import FiledAnswers, FiledCaptions, StoredAnswers, stored_answers
from adapters.texts import PERSON, reader

Parse = Callable[[RawAnswer], list[Label]]

STORE = "responses.sqlite"
VENDORS = ("azure", "clarifai", "google", "imagga", "rekognition")  # their classes parse answers without an instance
LABELS, TEXT = "labels", "text"


class Replay:
    """Recorded answers: replay:google, from a run's responses.sqlite or a folder of raw JSON.

    No service is contacted and nothing is charged. Images are identified by the sha256 of their bytes; those without a
    recorded answer get none. Only answers are replayed, not errors.
    """

    class Options(AdapterOptions):
        target: str
        """the name that the answers were recorded under: replay:google, replay:http:clinic."""
        source: Path
        """a run's folder, its responses.sqlite, a folder of .json files, or a CSV file of captions with the columns
        caption, and sha256 (of the image) or image (its path)."""
        format: str = ""
        """the parser of the answers, if the name does not tell: azure, clarifai, google, http, imagga, openai,
        rekognition, text, watson, or labels ({"labels": [["smile", 0.7]]}, the format of local classifiers)."""
        names: Path | None = None
        """which file of a folder belongs to which image: a CSV file with the columns name and sha256 (and position), or
        the folder of the images as they were sent. Not needed for files named by sha256."""
        classifier: int | None = None
        """the number of the classifier in responses.sqlite, if it has several of that name."""
        options: dict[str, Any] = Field({})
        """options of the parser. http: items, label, score, scale, may_lack_items, text, concepts. openai, for files
        of raw JSON: labels and logprobs, or concepts for free text. Captions: concepts."""
        cut_off: float | None = Field(None, ge=0, le=1)
        """the score (0-1) below which no label was returned; default: the recorded adapter's (most archives of Watson
        need 0.5)."""
        presence: float | None = Field(None, ge=0, le=1)
        """the score (0-1) from which a label counts as present; default: the recorded adapter's."""

    capabilities = Capabilities(batch=256)

    def __init__(self, options: Options) -> None:
        self.name = f"replay:{options.target}"
        kind = options.format or options.target.removeprefix("replay:").partition(":")[0]
        self._recorded = self._found(options, kind)
        kind = TEXT if isinstance(self._recorded, FiledCaptions) else kind
        stored = self._recorded if isinstance(self._recorded, StoredAnswers) else None
        self._parse = self._parser(kind, stored, {**(stored.parameters if stored else {}), **options.options})
        self.model = f"{stored.model if stored else kind}, recorded answers sha256 {self._recorded.digest}"
        self.parameters: Mapping[str, Any] = {"recorded": dict(stored.parameters) if stored else {}}
        # The recorded adapter's capabilities, as far as they apply to its recorded answers.
        usual = watson.CAPABILITIES if kind == "watson" else self.capabilities
        if kind in registry.BUILT_IN:
            usual = registry.load(kind).capabilities
        cut_off = usual.cut_off if options.cut_off is None else options.cut_off
        presence = usual.presence if options.presence is None else options.presence
        if (cut_off or 0) > presence:
            raise AdapterError(f"the adapter {self.name!r}: option 'cut_off' must not exceed option 'presence'")
        self.capabilities = replace(
            self.capabilities, scale=usual.scale, cut_off=cut_off, presence=presence, top_k=usual.top_k
        )

    def send(self, images: Sequence[bytes]) -> list[RawAnswer | NoAnswer]:
        """Look up the recorded answer to each image; see ``Adapter.send``."""
        digests = [sha256(image).hexdigest() for image in images]
        found = self._recorded.answers(digests)
        return [
            found.get(digest) or NoAnswer(f"no answer about the image {digest[:12]} was recorded") for digest in digests
        ]

    def parse(self, answer: RawAnswer) -> list[Label]:
        """See ``Adapter.parse``."""
        return self._parse(answer)

    def _found(self, options: Options, kind: str) -> StoredAnswers | FiledAnswers | FiledCaptions:
        source, names, place = options.source, options.names, f"the adapter {self.name!r}: option"
        path = source / STORE if (source / STORE).is_file() else source
        if path.suffix.lower() == ".csv" and path.is_file() and kind not in (*VENDORS, "http", "openai", "watson"):
            return FiledCaptions(path)
        if path.is_file():
            if names is not None:
                raise AdapterError(f"{place} 'names' is for a folder of files")
            return stored_answers(path, options.target, classifier=options.classifier)
        if not path.is_dir():
            raise AdapterError(f"{place} 'source': there is no {source}")
        if options.classifier is not None:
            raise AdapterError(f"{place} 'classifier' is for a {STORE}")
        if names is not None and not names.exists():
            raise AdapterError(f"{place} 'names': there is no {names}")
        return FiledAnswers(path, names, zipped=kind == "watson")

    def _parser(self, kind: str, stored: StoredAnswers | None, options: Mapping[str, Any]) -> Parse:
        if kind in VENDORS:
            parse: Parse = registry.load(kind).parse
            return parse
        if kind == "watson":
            return watson.labels_of
        if kind == TEXT or (kind == "openai" and (options.get("concepts") or options.get("labels") == [])):
            read = reader(str(options.get("concepts") or PERSON))
            if kind == TEXT:
                return lambda answer: read(str(json_object(answer.body).get("text", "")))
            return lambda answer: chat.labels_of(answer.body, read=read)
        if kind == "openai":
            labels, letters = options.get("labels"), options.get("logprobs") is True
            return lambda answer: chat.labels_of(answer.body, labels, letters=letters)
        if kind == "http":
            given = {name: value for name, value in options.items() if name in JsonLabels.model_fields}
            labels_in = read_options(self.name, JsonLabels, given)
            return lambda answer: labels_in.labels_of(answer.body)
        if kind == LABELS or stored is not None:
            return from_answer
        raise AdapterError(
            f"the adapter {self.name!r}: there is no parser {kind!r}: give the option format, one of "
            f"{', '.join(sorted([*VENDORS, 'http', 'openai', 'watson', LABELS, TEXT]))}"
        )
