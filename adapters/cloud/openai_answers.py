"""Questions to chat models about an image's labels, and the parser of their replies. Sends nothing.

A question asks for a score of every label, or for one letter with the probabilities of all letters.
"""

import json
import math
import string
from collections.abc import Callable, Mapping, Sequence
from random import Random
from statistics import fmean
from typing import Any, Literal

from adapters.answers import checked, inner, json_object, json_or_empty, objects, one_line
from adapters.base import AnswerError, Label
from adapters.texts import REFUSED, is_refusal

WITHHELD = "(withheld)"
CUT = "(cut off)"
Reader = Callable[[str], list[Label]]
OUTCOMES = (REFUSED, WITHHELD, CUT)

LETTERS = string.ascii_uppercase
MOST_LETTERS = 20  # limit of servers for log-probabilities

SCORES_PROMPT = (
    "You label photographs. For each of the labels below, say how well it describes the photograph: a number from 0 "
    "(it does not) to 1 (it certainly does). Judge each label on its own. Answer with one JSON object that has each "
    "label as a key and its number as the value, and with nothing else."
)
LETTER_PROMPT = (
    "You label photographs. Which of the labels below describes the photograph best? Answer with the one letter that "
    "stands before it, and with nothing else."
)

_WITHHELD_CODES = frozenset({"content_filter", "content_policy_violation", "moderation_blocked"})


def text_of(prompt: str, labels: Sequence[str], *, letters: bool) -> str:
    """Return the text of a question: the prompt, and the labels if there are any."""
    if not labels:
        return prompt
    if letters:
        return "\n".join([prompt, *(f"{letter}. {label}" for letter, label in zip(LETTERS, labels, strict=False))])
    return f"{prompt}\nThe labels: {json.dumps(list(labels), ensure_ascii=False)}"


def schema_of(labels: Sequence[str]) -> dict[str, Any]:
    """Return a JSON schema of one number per label, as OpenAI's strict mode requires it."""
    return {
        "type": "object",
        "properties": {label: {"type": "number"} for label in labels},
        "required": list(labels),
        "additionalProperties": False,
    }


def shuffled(labels: Sequence[str], image: str, *, seed: int, repeat: int) -> list[str]:
    """Shuffle the labels in an order determined by the image's sha256, the seed and the repeat."""
    order = list(labels)
    Random(f"{image} {seed} {repeat}").shuffle(order)  # noqa: S311 -- not for security
    return order


def together(replies: Sequence[tuple[Sequence[str], bytes]]) -> bytes:
    """Combine several replies about one image, each with the labels in the order of its question, into one body."""
    rows = [{"labels": list(labels), "reply": body.decode("utf-8", "surrogateescape")} for labels, body in replies]
    return json.dumps({"replies": rows}).encode()


def error_of(body: bytes) -> dict[str, Any] | None:
    """Extract the error from a reply in any of the formats that servers use; None if it is not an error.

    Returns:
        Its "message", and "type", "code" (text or number) and "param" if there are any.
    """
    content = json_or_empty(body)
    if content.get("choices"):
        return None
    error = content.get("error")
    if isinstance(error, dict):
        return error
    if isinstance(error, str):
        return {"message": error}
    if content.get("object") == "error":
        return content
    if "detail" in content:
        return {"message": json.dumps(content["detail"])}
    return None


def version_of(body: bytes) -> dict[str, str]:
    """Return the model that a reply names, as a header to store with replies that are put ``together``."""
    content = json_or_empty(body)
    named = [content.get("model"), content.get("system_fingerprint")]
    version = one_line(" ".join(part for part in named if isinstance(part, str)))
    return {"model-version": version} if version else {}


def withheld(error: object) -> bool:
    """Tell whether an error means that a content filter withheld the reply, which is an outcome."""
    code = error.get("code") if isinstance(error, dict) else None
    return isinstance(code, str) and code in _WITHHELD_CODES


def labels_of(
    body: bytes, labels: Sequence[str] | None = None, *, letters: bool = False, read: Reader | None = None
) -> list[Label]:
    """Return the labels of a reply, or the mean scores of several replies that were put ``together``.

    A reply that refuses, was withheld by a filter or was cut off has a single label in brackets. Of several replies,
    the score of such a label is their share, and the other scores are means over the replies that answered.

    Args:
        body: a chat completion, or several together.
        labels: the labels in the order of the question; None to accept any labels.
        letters: whether the question asked for one letter, with log-probabilities.
        read: extracts labels from text, if the question asked for free text.

    Raises:
        AnswerError: a reply holds neither labels nor such an outcome.
    """
    content = json_object(body)
    if "replies" not in content:
        return _merged([_scores(content, labels, letters, read)])
    each = []
    for row in objects(content, "replies"):
        order, reply = row.get("labels"), row.get("reply")
        if not isinstance(order, list) or not all(isinstance(label, str) for label in order):
            raise AnswerError("a stored reply lacks the labels of its question")
        if not isinstance(reply, str):
            raise AnswerError("a stored reply lacks its text")
        each.append(_scores(json_object(reply.encode("utf-8", "surrogatepass")), order, letters, read))
    return _merged(each)


def _scores(
    content: Mapping[str, Any], labels: Sequence[str] | None, letters: bool, read: Reader | None
) -> dict[str, float]:
    """Return the scores by label, or the outcome, of one reply."""
    if withheld(content.get("error")):
        return {WITHHELD: 1.0}
    choices = objects(content, "choices")
    if not choices:
        raise AnswerError("the reply has no choices")
    reason = choices[0].get("finish_reason")
    if reason == "content_filter":
        return {WITHHELD: 1.0}
    text = inner(choices[0], "message", "content")
    if inner(choices[0], "message", "refusal") or (isinstance(text, list) and _parts(text, "refusal")):
        return {REFUSED: 1.0}
    if letters:
        return _by_letter(inner(choices[0], "logprobs", "content"), labels)
    if reason == "length":
        return {CUT: 1.0}
    prose = _plain(_parts(text, "text") if isinstance(text, list) else text)
    if read is not None:
        return {label.name: label.score for label in read(prose)}
    try:
        found = json.loads(prose)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        if is_refusal(prose):
            return {REFUSED: 1.0}
        raise AnswerError(f"the model's text is not a JSON object of labels but {ascii(prose)[:80]}")
    for label in labels or ():
        if label not in found:
            raise AnswerError(f"the model gave no score for {ascii(label)[:60]}")
    return {label.name: label.score for label in checked((name, found[name]) for name in labels or found)}


def _parts(content: list[Any], kind: Literal["text", "refusal"]) -> str:
    """Join the texts of one kind in a message whose content is a list of typed parts."""
    texts = (inner(part, kind) for part in content if inner(part, "type") in (kind, f"output_{kind}"))
    return "".join(part for part in texts if isinstance(part, str))


def _plain(text: object) -> str:
    """Strip reasoning (``<think>``) and code fences from a model's text."""
    if not isinstance(text, str):
        raise AnswerError("the reply's message has no text")
    plain = text.strip()
    if plain.startswith("<think>"):
        plain = plain.rpartition("</think>")[2].strip()
    if plain.startswith("```") and plain.endswith("```") and "\n" in plain:
        plain = plain[plain.index("\n") : -3]
    return plain


def _by_letter(tokens: object, labels: Sequence[str] | None) -> dict[str, float]:
    """Return the probability of each label's letter as the first token of the reply."""
    if not labels:
        raise AnswerError("letters cannot be interpreted without the labels of the question")
    if not isinstance(tokens, list) or not all(isinstance(token, dict) for token in tokens):
        raise AnswerError("the reply has no log-probabilities: the server does not offer them, or not for this model")
    first: dict[str, Any] = next((token for token in tokens if str(token.get("token")).strip()), {})
    named = dict(zip(LETTERS, labels, strict=False))
    found: dict[str, float] = {}
    for candidate in objects(first, "top_logprobs", needed=False):
        text, logprob = candidate.get("token"), candidate.get("logprob")
        label = named.get(text.strip()) if isinstance(text, str) else None
        if label is None:
            continue
        if isinstance(logprob, bool) or not isinstance(logprob, int | float) or not logprob <= 0:
            raise AnswerError(f"the log-probability of {ascii(text)[:20]} must be a number of at most 0")
        found[label] = min(1.0, found.get(label, 0.0) + (math.exp(logprob) if logprob > -700 else 0.0))
    if not found:
        raise AnswerError("the model did not begin with one of the letters")
    return {label.name: label.score for label in checked(found.items())}


def _merged(each: Sequence[Mapping[str, float]]) -> list[Label]:
    """Average each label's score over the replies that answered, and compute the share of each outcome over all."""
    if not each:
        raise AnswerError("the answer holds no replies")
    answered = [scores for scores in each if not any(name in scores for name in OUTCOMES)]
    names = dict.fromkeys(name for scores in answered for name in scores)
    means = [(name, fmean(scores.get(name, 0.0) for scores in answered)) for name in names]
    shares = [(name, sum(name in scores for scores in each) / len(each)) for name in OUTCOMES]
    return checked([*means, *((name, share) for name, share in shares if share)])
