"""A fake of Clarifai's v2 outputs, by its documentation."""

import base64
import re
from collections.abc import Callable
from typing import Any

from fakes.http_server import FakeServer, Request, Response
from fakes.pixel_scores import pixel_scores

PAT = "planted-clarifai-pat-0123456789"
GENERAL = (
    "/v2/users/clarifai/apps/main/models/general-image-recognition/versions/aa7f35c01e0642fda5cf400f543e7c40/outputs"
)
_PATH = re.compile(r"/v2/users/[\w-]+/apps/[\w-]+/models/([\w-]+)(?:/versions/(\w+))?/outputs")
OK = {"code": 10000, "description": "Ok"}


def failure(http: int, code: int | str, description: str, outputs: list[Any] | None = None) -> Response:
    """An error of the whole reply; the code is a number or its name."""
    status = {"code": code, "description": description, "details": "", "req_id": "planted-request"}
    return Response(http, {"status": status, **({} if outputs is None else {"outputs": outputs})})


class ClarifaiService(FakeServer):
    """Concepts have `pixel_scores`. ``image_error`` gives the status of an image's output, or None."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.image_error: Callable[[bytes], dict[str, Any] | None] = lambda image: None
        self.billed = 0

    def _answer(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Key {PAT}":
            return failure(401, 11009, "API key not found")
        path = _PATH.fullmatch(request.path)
        if path is None or request.query:
            return failure(404, 11101, "Resource does not exist")
        content = request.json()
        assert set(content) == {"inputs", "model"}
        if len(content["inputs"]) > 128:
            return failure(400, 11102, "Invalid request")
        config = content["model"]["output_info"]["output_config"]
        outputs = [self._output(item, config, path[1], path[2] or "newest") for item in content["inputs"]]
        succeeded = [output["status"]["code"] == 10000 for output in outputs]
        if all(succeeded):
            return Response(200, {"status": {**OK, "req_id": "planted-request"}, "outputs": outputs})
        if any(succeeded):
            return failure(200, 10010, "Mixed Success", outputs)
        return failure(400, 10020, "Failure", outputs)

    def _output(self, item: dict[str, Any], config: dict[str, Any], model: str, version: str) -> dict[str, Any]:
        image = base64.b64decode(item["data"]["image"]["base64"], validate=True)
        about = {"model": {"id": model, "model_version": {"id": version}}, "created_at": "2026-01-01T00:00:00.5Z"}
        status = self.image_error(image)
        if status is None:
            try:
                scores = pixel_scores(image)
            except ValueError:
                status = {"code": 30300, "description": "Input image decoding failed"}
        if status is not None:
            return {"id": "o", "status": status, **about}
        self.billed += 1
        wanted = [concept["name"] for concept in config.get("select_concepts", [])]
        concepts = [
            {"id": f"ai_{name}", "name": name, "value": value, "app_id": "main"}
            for name, value in sorted(scores.items(), key=lambda pair: -pair[1])
            if value >= config.get("min_value", 0) and (not wanted or name in wanted)
        ]
        return {"id": "o", "status": OK, **about, "data": {"concepts": concepts[: config.get("max_concepts", 20)]}}
