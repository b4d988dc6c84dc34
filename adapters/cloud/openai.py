"""Chat models on any server that implements OpenAI's chat completions.

Questions and replies are in `openai_answers`, the batch API in `openai_batches`.
"""

import json
import os
import re
import threading
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field

from adapters import texts
from adapters.answers import one_line
from adapters.base import AdapterError, Capabilities, Label, Limits, NoAnswer, Price, RawAnswer, Service
from adapters.cloud import openai_answers as chat
from adapters.cloud import openai_batches as batches
from adapters.credentials import checked_url, secret
from adapters.http_client import THROTTLED, Call, HttpClient, Reply, failure_of, kept_headers, media_type
from adapters.local.labels import read_labels
from adapters.options import NamedOptions

ENDPOINT = "https://api.openai.com/v1"
KEY = "OPENAI_API_KEY"
IDENTIFIERS = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}

BILLING = frozenset(
    (
        *("insufficient_quota", "credit_balance_exhausted", "billing_hard_limit_reached", "billing_not_active"),
        *("organization_spend_limit_exceeded", "project_spend_limit_exceeded", "organization_usage_limit_exceeded"),
    )
)
_MAX_TOKENS = 'max_tokens (null omits it; extra={"max_completion_tokens": 300} sends it under the other name)'
_FORMAT = "format (json_object and text are supported by more servers)"
_MEMBERS = {
    "temperature": "temperature (null omits it)",
    "seed": "seed (null omits it)",
    "response_format": _FORMAT,
    "max_tokens": _MAX_TOKENS,
    "max_completion_tokens": _MAX_TOKENS,
    "logprobs": "logprobs",
    "top_logprobs": "logprobs",
    "json_schema": _FORMAT,
}
_COMPLAINT = re.compile(
    r"unsupported|not supported?|unknown|unrecogni[sz]ed|unexpected|invalid|not (allowed|permitted)|must be",
    re.IGNORECASE,
)
# Options that do not affect a reply; the model identifies answers separately.
_NOT_PARAMETERS = {"target", "model", "key_variable", "timeout", "concepts", "batch", "look_every"}
_NO_IMAGES = ("image input is not supported", "not a multimodal model", "does not support image")

# US$ for a million tokens sent and received, by the model's name without its date.
_USD_PER_MILLION = {"gpt-4o-mini": (0.15, 0.60), "gpt-4.1-mini": (0.40, 1.60), "gpt-5-mini": (0.25, 2.00)}
# Tokens of a photo in high detail; gpt-4o-mini counts many more than the other models.
_IMAGE_TOKENS = {"gpt-4o-mini": 48_000}
_USUAL_IMAGE_TOKENS = 2_000

SERVICE = Service(
    provider="OpenAI, or whoever runs the endpoint",
    host="api.openai.com",
    retention="stored up to 30 days to detect abuse unless agreed otherwise; not used for training by default",
    version="pinned by a dated model name; each reply names its model",
    credentials=(KEY,),
)


class OpenAI:
    """A vision chat model on any OpenAI-compatible server (OpenAI, vLLM, Ollama, llama.cpp), with your list of labels.

    The model gives each label a number from 0 to 1 in a JSON object that follows a schema. With the option concepts it
    describes the photo freely instead, and the labels are the concepts in its text. A refusal, a reply withheld by a
    filter and a reply cut off are outcomes, not errors: the image then has the single label "(refused)", "(withheld)"
    or "(cut off)" with score 1. Refusals that depend on the attribute thus show as a slope; if there are many, other
    slopes must be read with them in mind.
    """

    class Options(NamedOptions):
        kind: ClassVar[str] = "openai"
        labels: tuple[str, ...] | Path = ()
        """a list of labels, a text file with one label per line, or the name of an included list; none with
        concepts."""
        concepts: str = ""
        """for free text in place of labels: a TOML file of concepts and their words, or person for the included list.
        After a change of the file, stored answers are parsed again."""
        model: str = Field(pattern=r"\S")
        """the model's name on the server; a dated name if there is one."""
        endpoint: str = ""
        """the server's URL up to /v1; default: OPENAI_BASE_URL, else OpenAI's."""
        key_variable: str = KEY
        """the environment variable of the API key; empty to send none. Only OpenAI's server requires one."""
        version: str = ""
        """what else identifies the model, e.g. its file's digest, if its name on the server is ambiguous."""
        prompt: str = ""
        """the instructions before the labels; the default asks for a number from 0 to 1 for each."""
        order: Literal["fixed", "drawn"] = "fixed"
        """fixed: the labels in the given order; drawn: in a random order for each image."""
        format: Literal["json_schema", "json_object", "text"] = "json_schema"
        """how JSON is requested; text for servers that support neither of the others."""
        temperature: float | None = 0.0
        """null to omit it, for models that do not accept it."""
        seed: int | None = 1
        """sent with each question, plus the number of the repeat; also draws the order. null to omit it."""
        detail: Literal["low", "high", "original"] = "high"
        """resolution at which OpenAI's models process images; not auto, which would depend on an image's size."""
        max_tokens: int | None = None
        """maximum tokens of a reply; null: the server's limit."""
        logprobs: bool = False
        """ask for the letter of the best label, and read the probabilities of all letters (at most 20 labels)."""
        repeats: int = Field(1, ge=1)
        """number of questions about each image; the scores are their means."""
        extra: dict[str, Any] = Field({})
        """additional members of each request, e.g. {"reasoning_effort": "low"}."""
        timeout: float = Field(300.0, gt=0)
        """seconds to wait for a reply; a local server may have to load its model first."""
        batch: bool = False
        """use the batch API: answers within 24 hours at half the price."""
        look_every: float = Field(30.0, gt=0)
        """with batch: polling interval in seconds."""

    capabilities = Capabilities(
        service=SERVICE, scale="0-1, as requested", concurrency=8, limits=Limits(max_bytes=20_000_000)
    )

    def __init__(self, options: Options) -> None:
        self.name, self.model, self._wanted = options.name, options.model, options
        self._concepts = texts.read_concepts(options.concepts) if options.concepts else ()
        if self._concepts:
            texts.reader(options.concepts)  # raises if its package is missing
        self._labels = self._checked_labels(options)
        elsewhere = options.endpoint or os.environ.get("OPENAI_BASE_URL", "")
        variable = options.key_variable
        wanted = variable and (not elsewhere or variable != KEY or os.environ.get(KEY))
        self._key = secret(variable, adapter=self.name) if wanted else ""
        hint = "; or set the option key_variable to '' to send no key"
        self._url = checked_url(
            elsewhere or ENDPOINT, adapter=self.name, option="endpoint", credential=bool(self._key), hint=hint
        )
        self._host = urlsplit(self._url).hostname or ""
        self._earlier: dict[str, list[tuple[list[str], Reply]]] = {}
        self._lock = threading.Lock()
        self._client = HttpClient(timeout=(10.0, options.timeout), longest=2 * options.timeout)
        self._files = HttpClient(
            timeout=(10.0, options.timeout), longest=2 * options.timeout, most_bytes=batches.MOST_BYTES
        )
        self._batches = batches.Batches(self._about_batches, self._understood)
        self.seconds_between_looks = options.look_every
        usual_prompt = chat.LETTER_PROMPT if options.logprobs else chat.SCORES_PROMPT
        usual_prompt = texts.DESCRIBE if self._concepts else usual_prompt
        self.parameters: Mapping[str, Any] = {
            **options.model_dump(exclude=_NOT_PARAMETERS),
            "endpoint": self._url,
            "labels": list(self._labels),
            "prompt": options.prompt or usual_prompt,
            "format": "text" if options.logprobs or self._concepts else options.format,
        }
        own = self._url == ENDPOINT
        self.capabilities = replace(
            OpenAI.capabilities,
            service=replace(
                SERVICE,
                provider="OpenAI" if own else "whoever runs this server",
                host=self._host,
                retention=SERVICE.retention if own else "not known: ask whoever runs the server",
                credentials=(variable,) if self._key else (),
                rate=SERVICE.rate / options.repeats,
                price=self._price(),
            ),
            labels=tuple(dict.fromkeys((*(texts.names_of(self._concepts) or self._labels), *chat.OUTCOMES))),
            top_k=chat.MOST_LETTERS if options.logprobs else None,
        )
        if options.batch:
            self.capabilities = replace(
                self.capabilities,
                service=replace(self.capabilities.service or SERVICE, retention=batches.RETENTION),
                jobs=True,
                batch=max(1, batches.QUESTIONS // options.repeats),
                batch_bytes=batches.IMAGE_BYTES // options.repeats,
                concurrency=64,
            )

    def send(self, images: Sequence[bytes]) -> list[RawAnswer | NoAnswer]:
        """Ask all repeats about each image; if one fails, the next call for that image continues with it."""
        return [self._send(image) for image in images]

    def submit(self, name: str, images: Mapping[str, bytes]) -> str | NoAnswer:
        """See `JobService`: a job is a batch."""
        questions = (
            (batches.key_of(key, repeat), self._question(self._picture(image), self._in_order(key, repeat), repeat))
            for key, image in images.items()
            for repeat in range(self._wanted.repeats)
        )
        return self._batches.create(name, questions)

    def find(self, name: str) -> str | NoAnswer | None:
        """See `JobService`."""
        return self._batches.find(name)

    def collect(self, job: str, images: Sequence[str]) -> Mapping[str, RawAnswer | NoAnswer] | NoAnswer | str:
        """See `JobService`."""
        results = self._batches.results(job)
        if not isinstance(results, dict):
            return results
        found = batches.outcomes_of(results, images, repeats=self._wanted.repeats)
        return {
            image: outcome
            if isinstance(outcome, NoAnswer)
            else self._answer([(self._in_order(image, repeat), reply) for repeat, reply in enumerate(outcome)])
            for image, outcome in found.items()
        }

    def forget(self, job: str) -> NoAnswer | None:
        """See `JobService`: the files with the images and the replies."""
        return self._batches.forget(job)

    def parse(self, answer: RawAnswer) -> list[Label]:
        """See ``Adapter.parse``."""
        if self._concepts:
            return chat.labels_of(answer.body, read=texts.reader(self._wanted.concepts))
        return chat.labels_of(answer.body, self._labels, letters=self._wanted.logprobs)

    def _price(self) -> Price | None:
        """Return the price of a known model of OpenAI, with an estimate of the tokens per image."""
        undated = re.sub(r"-\d{4}-\d\d-\d\d$", "", self.model)
        if undated not in _USD_PER_MILLION or self._url != ENDPOINT:
            return None
        sent, received = _USD_PER_MILLION[undated]
        question = len(self.parameters["prompt"]) + sum(map(len, self._labels))
        reply = 1 if self._wanted.logprobs else 12 * len(self._labels) or 100
        usd = sent * (_IMAGE_TOKENS.get(undated, _USUAL_IMAGE_TOKENS) + question / 2) + received * reply
        share, ways = (batches.SHARE, (1 / batches.SHARE, 1.0)) if self._wanted.batch else (1.0, (1.0, batches.SHARE))
        return Price(
            round(share * self._wanted.repeats * usd / 1000, 4),
            as_of=date(2026, 11, 20),
            source="public price tables of 2026",
            note="a rough estimate until answers report their tokens; reasoning costs more",
            tokens=(share * sent, share * received),
            calls=ways[0],
            jobs=ways[1],
        )

    def _send(self, image: bytes) -> RawAnswer | NoAnswer:
        try:
            picture = self._picture(image)
        except ValueError as error:
            return NoAnswer(str(error))
        digest = sha256(image).hexdigest()
        with self._lock:
            replies = self._earlier.pop(digest, [])
        while len(replies) < self._wanted.repeats:
            labels = self._in_order(digest, len(replies))
            body = json.dumps(self._question(picture, labels, len(replies))).encode()
            headers = self._headers("application/json")
            reply = self._client(Call(f"{self._url}/chat/completions", body, headers, secrets=(self._key,)))
            outcome = reply if isinstance(reply, NoAnswer) else self._understood(reply)
            if isinstance(outcome, NoAnswer):
                with self._lock:
                    self._earlier[digest] = replies
                return replace(outcome, billed=outcome.billed or bool(replies))
            replies.append((labels, outcome))
        return self._answer(replies)

    def _answer(self, replies: Sequence[tuple[Sequence[str], Reply]]) -> RawAnswer:
        """Combine the replies to all questions about an image, each with its order of labels, into one answer."""
        last = replies[-1][1]
        headers = kept_headers(last.headers, ("x-request-id", "openai-version", "openai-processing-ms"))
        if len(replies) == 1 and self._wanted.order == "fixed":
            return RawAnswer(last.body, last.status, headers)
        headers |= chat.version_of(last.body)
        return RawAnswer(chat.together([(labels, reply.body) for labels, reply in replies]), last.status, headers)

    def _picture(self, image: bytes) -> dict[str, str]:
        """Encode an image for a question; ValueError if it is neither PNG nor JPEG."""
        url = f"data:{media_type(image)};base64,{b64encode(image).decode()}"
        return {"url": url, "detail": self._wanted.detail}

    def _in_order(self, image: str, repeat: int) -> list[str]:
        if self._wanted.order == "fixed":
            return list(self._labels)
        return chat.shuffled(self._labels, image, seed=self._wanted.seed or 0, repeat=repeat)

    def _question(self, picture: Mapping[str, str], labels: Sequence[str], repeat: int) -> dict[str, Any]:
        wanted, format_ = self._wanted, self.parameters["format"]
        text = chat.text_of(self.parameters["prompt"], labels, letters=wanted.logprobs)
        content = [{"type": "text", "text": text}, {"type": "image_url", "image_url": dict(picture)}]
        question: dict[str, Any] = {"model": self.model, "messages": [{"role": "user", "content": content}]}
        # OpenAI's newer models accept only the first name, Ollama only the second.
        newer = self._host.endswith((".openai.com", ".azure.com"))
        optional = {
            "temperature": wanted.temperature,
            "seed": None if wanted.seed is None else wanted.seed + repeat,
            "max_completion_tokens" if newer else "max_tokens": wanted.max_tokens,
        }
        question |= {name: value for name, value in optional.items() if value is not None}
        if wanted.logprobs:
            question |= {"logprobs": True, "top_logprobs": chat.MOST_LETTERS}
        if format_ == "json_schema":
            schema = {"name": "labels", "strict": True, "schema": chat.schema_of(labels)}
            question["response_format"] = {"type": format_, "json_schema": schema}
        elif format_ == "json_object":
            question["response_format"] = {"type": format_}
        return question | wanted.extra

    def _about_batches(
        self, method: Literal["GET", "POST", "DELETE"], path: str, *, kind: str = "", **request: Any
    ) -> Reply | NoAnswer:
        """See `openai_batches.Calls`; ``request`` are other fields of `Call`."""
        call = Call(f"{self._url}{path}", headers=self._headers(kind), method=method, secrets=(self._key,), **request)
        outcome = self._files(call)
        if isinstance(outcome, NoAnswer) or 200 <= outcome.status < 300 or outcome.status == 404:
            return outcome
        found = self._understood(outcome)
        return found if isinstance(found, NoAnswer) else NoAnswer(f"HTTP {outcome.status}", reply=None)

    def _headers(self, kind: str) -> dict[str, str]:
        headers = {"Accept": "application/json"} | ({"Content-Type": kind} if kind else {})
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
            headers |= {name: os.environ[source] for name, source in IDENTIFIERS.items() if os.environ.get(source)}
        return headers

    def _understood(self, reply: Reply) -> Reply | NoAnswer:
        """Return the reply if it is an answer (including a refusal), else the meaning of its error."""
        error = chat.error_of(reply.body)
        if chat.withheld(error) or (error is None and 200 <= reply.status < 300):
            return reply
        error = error or {}
        code, message = error.get("code"), one_line(error.get("message"))
        # Some servers report errors with HTTP status 200; the error's code is then the status.
        status = code if reply.status < 300 and isinstance(code, int) else reply.status
        remedy = self._remedy(status, error, message)
        if remedy:
            raise AdapterError(f"the adapter {self.name!r}: {self._host} replies (HTTP {status}) {message!r}: {remedy}")
        if code == "slow_down":  # OpenAI has changed its HTTP status over time
            status = THROTTLED
        return failure_of(replace(reply, status=status), message) or NoAnswer(
            f"an error in place of a reply: {message}"
        )

    def _remedy(self, status: int, error: Mapping[str, Any], message: str) -> str:
        """Say what to do about an error that every further question would get; "" for any other error."""
        if status == 402 or not BILLING.isdisjoint({str(error.get("code")), str(error.get("type"))}):
            return "the account has no money or quota left; settle that with the provider"
        if status == 401:
            variable = self._wanted.key_variable or KEY
            return f"check the key in {variable}" if self._key else f"a key is required: export {variable}=..."
        if status == 403:
            return "check the permissions of the key, and where the model may be used"
        if status == 404:
            return "check the options model and endpoint (which ends in /v1 on most servers)"
        if any(phrase in message.lower() for phrase in _NO_IMAGES):
            return f"the model {self.model!r} does not take images; load one that does (with llama.cpp: --mmproj)"
        member = _member_at_fault(error, message)
        if status in (400, 422) and member:
            return f"the model does not take this {member}; change the option {_MEMBERS[member]}"
        return ""

    def _checked_labels(self, options: Options) -> tuple[str, ...]:
        if bool(options.labels) == bool(options.concepts) or (options.concepts and options.logprobs):
            raise AdapterError(
                f"the adapter {self.name!r}: give the option labels, or concepts for free text (without logprobs)"
            )
        if options.concepts:
            return ()
        labels = read_labels(options.labels)
        if outcomes := set(labels) & set(chat.OUTCOMES):
            raise AdapterError(f"the adapter {self.name!r}: the label {min(outcomes)!r} is reserved for an outcome")
        if options.logprobs and len(labels) > chat.MOST_LETTERS:
            raise AdapterError(
                f"the adapter {self.name!r}: the option logprobs allows at most {chat.MOST_LETTERS} labels, not "
                f"{len(labels)}, because servers return log-probabilities of no more letters"
            )
        return labels


def _member_at_fault(error: Mapping[str, Any], message: str) -> str:
    """Return the member of the request that an error is about, from its ``param`` or, on other servers, its message."""
    named = str(error.get("param") or "").partition(".")[0]
    if named in _MEMBERS or not _COMPLAINT.search(message):
        return named if named in _MEMBERS else ""
    return next((member for member in _MEMBERS if re.search(rf"\b{member}\b", message)), "")
