"""A fake of OpenAI's chat completions, which answers with `pixel_scores`."""

import json
import math
import re
from base64 import b64decode
from collections.abc import Callable
from typing import Any

from fakes.http_server import Request, Response
from fakes.pixel_scores import pixel_scores

MODEL = "seer-2026-01-01"


def chat_service(key: str | None) -> Callable[[Request], Response]:
    """Scores the labels of the schema or of the text; where log-probabilities are requested, answers with a letter."""

    def answer(request: Request) -> Response:
        if key and request.headers.get("authorization") != f"Bearer {key}":
            return api_error(401, "Incorrect API key provided", code="invalid_api_key")
        if request.path != "/v1/chat/completions":
            return api_error(404, f"Invalid URL ({request.path})")
        question = request.json()
        if question["model"] != "seer":
            return api_error(404, f"The model {question['model']!r} does not exist", code="model_not_found")
        text, picture = question["messages"][-1]["content"]
        found = re.fullmatch(r"data:image/(?:png|jpeg);base64,([A-Za-z0-9+/=]+)", picture["image_url"]["url"])
        try:
            scores = pixel_scores(b64decode(found[1], validate=True))
        except (TypeError, ValueError):
            return api_error(400, "You uploaded an unsupported image", code="invalid_image_format")
        if question.get("logprobs"):
            return _letter(question, text["text"], scores)
        labels = _labels_of_schema(question["response_format"]) if "response_format" in question else None
        labels = labels or json.loads(text["text"].rpartition("The labels: ")[2])
        return completion(json.dumps({label: scores.get(label, 0) for label in labels}))

    return answer


def completion(text: str | None, *, reason: str = "stop", refusal: str | None = None, logprobs: Any = None) -> Response:
    """A chat completion."""
    message = {"role": "assistant", "content": text, "refusal": refusal}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1768435200,
        "model": MODEL,
        "system_fingerprint": "fp_1",
        "choices": [{"index": 0, "message": message, "logprobs": logprobs, "finish_reason": reason}],
        "usage": {"prompt_tokens": 1200, "completion_tokens": 30, "total_tokens": 1230},
    }
    return Response(200, body, {"x-request-id": "req_1"})


def api_error(
    status: int, message: str, *, code: str | int | None = None, kind: str = "", param: str | None = None
) -> Response:
    """An error in the format of OpenAI."""
    return Response(status, {"error": {"message": message, "type": kind, "param": param, "code": code}})


def _labels_of_schema(response_format: dict[str, Any]) -> list[str] | None:
    if response_format["type"] != "json_schema":
        return None
    json_schema = response_format["json_schema"]
    schema = json_schema["schema"]
    assert json_schema["strict"] is True
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", json_schema["name"])
    assert schema["additionalProperties"] is False
    assert schema["required"] == list(schema["properties"])
    return list(schema["properties"])


def _letter(question: dict[str, Any], text: str, scores: dict[str, float]) -> Response:
    """Letters have probabilities in proportion to the scores; 5 % goes to a token that is not a letter."""
    letters = dict(re.findall(r"^([A-Z])\. (.+)$", text, flags=re.MULTILINE))
    total = sum(scores[label] for label in letters.values()) / 0.95
    shares = {letter: scores[label] / total for letter, label in letters.items()} | {"The": 0.05}
    tops = [{"token": token, "logprob": math.log(share)} for token, share in shares.items()]
    assert question["top_logprobs"] <= 20
    best = max(letters, key=lambda letter: shares[letter])
    return completion(best, logprobs={"content": [{"token": best, "logprob": 0.0, "top_logprobs": tops}]})
