"""Chat models over any server that speaks OpenAI's chat completions: OpenAI, vLLM, Ollama, llama.cpp and others.

What is asked and how replies are read is in `adapters.chat`; here is how a server is spoken to
and what its errors mean.
"""

import json
import os
import re
import threading
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from adapters import chat
from adapters.base import AdapterError, Capabilities, Label, Limits, NoAnswer, RawAnswer, Service
from adapters.calling import THROTTLED, Call, Caller, Reply, kept, unanswered, words
from adapters.credentials import checked_url, secret
from adapters.images import media_type
from adapters.label_lists import read_labels

ENDPOINT = "https://api.openai.com/v1"
KEY = "OPENAI_API_KEY"
IDENTIFIERS = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}

BILLING = frozenset(
    {
        "insufficient_quota",
        "credit_balance_exhausted",
        "organization_spend_limit_exceeded",
        "project_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
        "billing_hard_limit_reached",
        "billing_not_active",
    }
)
_MAX_TOKENS = 'max_tokens (null sends none; extra={"max_completion_tokens": 300} has the other name for it)'
_FORMAT = "format (json_object or text asks less of the server)"
_MEMBERS = {
    "temperature": "temperature (null sends none)",
    "seed": "seed (null sends none)",
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
_NO_EYES = ("image input is not supported", "not a multimodal model", "does not support image")

SERVICE = Service(
    provider="OpenAI, or whoever runs the endpoint",
    host="api.openai.com",
    retention="kept up to 30 days against abuse unless agreed otherwise; not trained on by default",
    version="pinned by a dated model name; each reply tells the model that gave it",
    credentials=(KEY,),
)


class OpenAI:
    """A chat model that sees, over any OpenAI-compatible server (OpenAI, vLLM, Ollama, llama.cpp): your list of labels.

    Each label gets a number from 0 to 1 in a JSON object that a schema holds the model to. That the model refused,
    that a filter withheld its reply, or that the reply was cut off is an outcome, not an error: the image then has the
    one label "(refused)", "(withheld)" or "(cut off)" with score 1, and no other. Refusals that differ along a sweep
    thus show as a slope of their own; where they are many, read every other slope with them.

    Args:
        target: a name of your own, to have several models in one run: ``openai:mini``.
        labels: a list of labels, a text file with one a line, or the name of a ready-made list.
        model: the model, as the server names it; a dated name where there is one.
        endpoint: the server's address up to ``/v1``; else ``OPENAI_BASE_URL``, else OpenAI's own.
        key_variable: the environment variable that holds the key; "" to send none. Only OpenAI's own server needs one.
        version: what else identifies the model (its file's digest), for servers whose names do not.
        prompt: the instructions before the labels; the default asks for a number from 0 to 1 for each.
        order: the labels in the order given for all images ("fixed"), or in one drawn for each image ("drawn").
        format: how the server is asked for JSON: "json_schema", "json_object", or "text" for one that knows neither.
        temperature: null for models that take none.
        seed: sent with each question, plus the repeat's number, and draws the order; null to send none.
        detail: how closely OpenAI's models look; fixed, as "auto" would depend on an image's size.
        max_tokens: of a reply; null for the server's own limit.
        logprobs: ask for the one best label by a letter and read the probabilities of all (at most 20 labels).
        repeats: separate questions about each image; the scores are their means.
        extra: further members of each request, e.g. {"reasoning_effort": "low"}.
        timeout: seconds to wait for a reply; a local server may load its model first.

    Raises:
        AdapterError: an option that does not fit, or no key for OpenAI's own server.
    """

    capabilities = Capabilities(
        service=SERVICE, scale="0-1, as asked for", concurrency=8, limits=Limits(max_bytes=20_000_000)
    )

    def __init__(
        self,
        target: str = "",
        *,
        labels: tuple[str, ...] | Path,
        model: str,
        endpoint: str = "",
        key_variable: str = KEY,
        version: str = "",
        prompt: str = "",
        order: Literal["fixed", "drawn"] = "fixed",
        format: Literal["json_schema", "json_object", "text"] = "json_schema",
        temperature: float | None = 0.0,
        seed: int | None = 1,
        detail: Literal["low", "high", "original"] = "high",
        max_tokens: int | None = None,
        logprobs: bool = False,
        repeats: int = 1,
        extra: dict[str, Any] | None = None,
        timeout: float = 300.0,
    ) -> None:
        self.name = f"openai:{target}" if target else "openai"
        self.model = model
        self._labels = read_labels(labels)
        self._check(logprobs=logprobs, repeats=repeats, timeout=timeout)
        elsewhere = endpoint or os.environ.get("OPENAI_BASE_URL", "")
        wanted = key_variable and (not elsewhere or key_variable != KEY or os.environ.get(KEY))
        self._key = secret(key_variable, adapter=self.name) if wanted else ""
        self._variable = key_variable or KEY
        hint = "; or set the option key_variable to '' to send none"
        self._url = checked_url(
            elsewhere or ENDPOINT, adapter=self.name, option="endpoint", credential=bool(self._key), hint=hint
        )
        self._host = urlsplit(self._url).hostname or ""
        self._earlier: dict[str, list[tuple[list[str], Reply]]] = {}
        self._lock = threading.Lock()
        self._caller = Caller(timeout=(10.0, timeout), longest=2 * timeout)
        self.parameters: Mapping[str, Any] = {
            "endpoint": self._url,
            "version": version,
            "labels": list(self._labels),
            "prompt": prompt or (chat.LETTER_PROMPT if logprobs else chat.SCORES_PROMPT),
            "order": order,
            "format": "text" if logprobs else format,
            "temperature": temperature,
            "seed": seed,
            "detail": detail,
            "max_tokens": max_tokens,
            "logprobs": logprobs,
            "repeats": repeats,
            "extra": dict(extra or {}),
        }
        self.capabilities = replace(
            OpenAI.capabilities,
            service=replace(
                SERVICE,
                provider="OpenAI" if self._url == ENDPOINT else "whoever runs this server",
                host=self._host,
                retention=SERVICE.retention if self._url == ENDPOINT else "what this server keeps is up to who runs it",
                credentials=(key_variable,) if self._key else (),
                rate=SERVICE.rate / repeats,
            ),
            labels=(*self._labels, *chat.OUTCOMES),
            top_k=chat.MOST_LETTERS if logprobs else None,
        )

    def send(self, images: Sequence[bytes]) -> list[RawAnswer | NoAnswer]:
        """Ask about each image, as often as there are repeats; see ``Adapter.send``.

        Where a repeat fails, those before it are remembered: asking about the image again goes on after them.
        """
        return [self._ask(image) for image in images]

    def parse(self, answer: RawAnswer) -> list[Label]:
        """See ``Adapter.parse``."""
        return chat.labels_of(answer.body, self._labels, letters=self.parameters["logprobs"])

    def _ask(self, image: bytes) -> RawAnswer | NoAnswer:
        try:
            kind = media_type(image)
        except ValueError as error:
            return NoAnswer(str(error))
        picture = {"url": f"data:{kind};base64,{b64encode(image).decode()}", "detail": self.parameters["detail"]}
        digest = sha256(image).hexdigest()
        with self._lock:
            replies = self._earlier.pop(digest, [])
        while len(replies) < self.parameters["repeats"]:
            labels = self._in_order(image, repeat=len(replies))
            outcome = self._called(self._question(picture, labels, repeat=len(replies)))
            if isinstance(outcome, NoAnswer):
                with self._lock:
                    self._earlier[digest] = replies
                return replace(outcome, billed=outcome.billed or bool(replies))
            replies.append((labels, outcome))
        last = replies[-1][1]
        headers = kept(last.headers, ("x-request-id", "openai-version", "openai-processing-ms"))
        if len(replies) == 1 and self.parameters["order"] == "fixed":
            return RawAnswer(last.body, last.status, headers)
        headers |= chat.version_of(last.body)
        return RawAnswer(chat.together([(labels, reply.body) for labels, reply in replies]), last.status, headers)

    def _in_order(self, image: bytes, *, repeat: int) -> list[str]:
        if self.parameters["order"] == "fixed":
            return list(self._labels)
        return chat.shuffled(self._labels, image, seed=self.parameters["seed"] or 0, repeat=repeat)

    def _question(self, picture: Mapping[str, str], labels: Sequence[str], *, repeat: int) -> dict[str, Any]:
        asked = self.parameters
        text = chat.text_of(asked["prompt"], labels, letters=asked["logprobs"])
        content = [{"type": "text", "text": text}, {"type": "image_url", "image_url": dict(picture)}]
        question: dict[str, Any] = {"model": self.model, "messages": [{"role": "user", "content": content}]}
        if asked["temperature"] is not None:
            question["temperature"] = asked["temperature"]
        if asked["seed"] is not None:
            question["seed"] = asked["seed"] + repeat
        if asked["max_tokens"] is not None:
            # OpenAI's newer models take only the first name, Ollama only the second.
            newer = self._host.endswith((".openai.com", ".azure.com"))
            question["max_completion_tokens" if newer else "max_tokens"] = asked["max_tokens"]
        if asked["logprobs"]:
            question |= {"logprobs": True, "top_logprobs": chat.MOST_LETTERS}
        if asked["format"] == "json_schema":
            schema = {"name": "labels", "strict": True, "schema": chat.schema_of(labels)}
            question["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif asked["format"] == "json_object":
            question["response_format"] = {"type": "json_object"}
        question.update(asked["extra"])
        return question

    def _called(self, question: Mapping[str, Any]) -> Reply | NoAnswer:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
            headers |= {name: os.environ[source] for name, source in IDENTIFIERS.items() if os.environ.get(source)}
        secrets = (self._key,) if self._key else ()
        outcome = self._caller(
            Call(f"{self._url}/chat/completions", json.dumps(question).encode(), headers, secrets=secrets)
        )
        return outcome if isinstance(outcome, NoAnswer) else self._understood(outcome)

    def _understood(self, reply: Reply) -> Reply | NoAnswer:
        """The reply if it is an answer (a refusal is one too), else what its error means.

        Raises:
            AdapterError: no further question can be answered either.
        """
        error = chat.error_of(reply.body)
        if chat.withheld(error) or (error is None and 200 <= reply.status < 300):
            return reply
        error = error or {}
        code, says = error.get("code"), words(error.get("message"))
        # Some servers pass an error on in a 200; its code is then the status.
        status = code if reply.status < 300 and isinstance(code, int) else reply.status
        cure = self._cure(status, error, says)
        if cure:
            raise AdapterError(f"the adapter {self.name!r}: {self._host} says (HTTP {status}) {says!r}: {cure}")
        if code == "slow_down":  # a rate of its own kind, whose status has changed over time
            status = THROTTLED
        return unanswered(replace(reply, status=status), says=says) or NoAnswer(f"an error in place of a reply: {says}")

    def _cure(self, status: int, error: Mapping[str, Any], says: str) -> str:
        """What would mend an error that no further question escapes; "" for one that is not of that kind."""
        if status == 402 or not BILLING.isdisjoint({str(error.get("code")), str(error.get("type"))}):
            return "its account has no money or quota left; mend that with the provider"
        if status == 401:
            return f"check the key in {self._variable}" if self._key else f"it wants a key: export {self._variable}=..."
        if status == 403:
            return "check what the key may do, and where and how the model may be used"
        if status == 404:
            return "check the options model and endpoint (which ends in /v1 with most servers)"
        if any(phrase in says.lower() for phrase in _NO_EYES):
            return f"the model {self.model!r} sees no images; load one that does (with llama.cpp: --mmproj)"
        member = _member_at_fault(error, says)
        if status in (400, 422) and member:
            return f"the model does not take this {member}; change the option {_MEMBERS[member]}"
        return ""

    def _check(self, *, logprobs: bool, repeats: int, timeout: float) -> None:
        if not self.model.strip():
            raise AdapterError(f"the adapter {self.name!r}: option 'model' is empty")
        outcomes = set(self._labels) & set(chat.OUTCOMES)
        if outcomes:
            raise AdapterError(f"the adapter {self.name!r}: the label {min(outcomes)!r} stands for an outcome already")
        if logprobs and len(self._labels) > chat.MOST_LETTERS:
            raise AdapterError(
                f"the adapter {self.name!r}: the option logprobs allows {chat.MOST_LETTERS} labels at most, "
                f"not {len(self._labels)}: servers give the log-probabilities of no more letters"
            )
        for option, number in {"repeats": repeats, "timeout": timeout}.items():
            if not number > 0:
                raise AdapterError(f"the adapter {self.name!r}: option {option!r} must be more than 0, not {number}")


def _member_at_fault(error: Mapping[str, Any], says: str) -> str:
    """The member of the request that an error is about; only some servers name it as such, others in their words."""
    named = str(error.get("param") or "").partition(".")[0]
    if named in _MEMBERS or not _COMPLAINT.search(says):
        return named if named in _MEMBERS else ""
    return next((member for member in _MEMBERS if re.search(rf"\b{member}\b", says)), "")
