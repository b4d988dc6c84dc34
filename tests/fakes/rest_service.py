"""A generic REST service, which accepts an image as JSON, form or body, and answers in one of several shapes."""

import json
import math
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any

from fakes.http_server import Request, Response
from fakes.pixel_scores import pixel_scores

SHAPES: Mapping[str, Callable[[dict[str, float]], Any]] = {
    "tags": lambda scores: {"result": {"tags": [{"tag": {"en": name}, "p": s} for name, s in scores.items()]}},
    "percent": lambda scores: [{"name": name, "score": 100 * s} for name, s in scores.items()],
    "logits": lambda scores: {"out": {name: math.log(s / (1 - s)) for name, s in scores.items()}},
    "parallel": lambda scores: {"labels": list(scores), "scores": list(scores.values())},
}


def rest_service(key: str, *, shape: str = "tags") -> Callable[[Request], Response]:
    """Requires the key in ``X-Api-Key``, or as a member or field ``key`` next to the image."""

    def answer(request: Request) -> Response:
        kind = request.headers["content-type"].partition(";")[0]
        given = request.headers.get("x-api-key")
        if kind == "application/json":
            content = request.json()
            header, _, encoded = content["image"].rpartition(",")
            assert header in ("", "data:image/png;base64", "data:image/jpeg;base64")
            image, given = b64decode(encoded, validate=True), content.get("key", given)
        elif kind == "multipart/form-data":
            parts = request.parts()
            image = parts["picture"][2]
            given = parts["key"][2].decode() if "key" in parts else given
        else:
            assert kind in ("image/png", "image/jpeg", "application/octet-stream")
            image = request.body
        if given != key:
            return Response(401, {"error": {"message": f"the key {given} is not known"}})
        try:
            content = SHAPES[shape](pixel_scores(image))
        except ValueError:
            return Response(422, {"error": {"message": "no image"}})
        return Response(200, json.dumps(content).encode(), {"X-Model-Version": "7"})

    return answer
