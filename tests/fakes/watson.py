"""Watson Visual Recognition v3 as it was documented: classify, Basic and IAM authentication, errors within a 200."""

import re
import zipfile
from base64 import b64encode
from collections.abc import Callable
from io import BytesIO
from urllib.parse import parse_qs

from fakes.seeing import seen
from fakes.serving import Asked, Told

TOKEN = "eyJ-a-bearer-token"
DEFAULT_THRESHOLD = 0.5


def watson(key: str, *, iam: bool = False) -> Callable[[Asked], Told]:
    """Answers for who knows the key; images of a zip come back in the reverse order, as nothing promised another."""
    password = b64encode(f"apikey:{key}".encode()).decode()
    wanted = f"Bearer {TOKEN}" if iam else f"Basic {password}"

    def answer(asked: Asked) -> Told:
        if asked.path == "/identity/token":
            return _token(asked, key)
        if asked.path != "/v3/classify":
            return Told(404, {"code": 404, "error": "Not Found"})
        if asked.headers.get("authorization") != wanted:
            return Told(401, {"code": 401, "error": "Unauthorized"})
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", asked.query.get("version", "")):
            return Told(400, {"code": 400, "error": "version query parameter is required"})
        parts = asked.parts()
        name, kind, content = parts["images_file"]
        threshold = float(parts["threshold"][2]) if "threshold" in parts else DEFAULT_THRESHOLD
        if kind == "application/zip":
            with zipfile.ZipFile(BytesIO(content)) as archive:
                images = {f"{name}/{entry}": archive.read(entry) for entry in reversed(archive.namelist())}
        else:
            images = {name: content}
        if len(images) > 20:
            return Told(400, {"code": 400, "error": "Too many images in collection"})
        classifier = parts["classifier_ids"][2].decode() if "classifier_ids" in parts else "default"
        body = {
            "images": [_image(name, image, threshold, classifier) for name, image in images.items()],
            "images_processed": len(images),
            "custom_classes": 0,
        }
        return Told(200, body, {"X-Global-Transaction-ID": "7ac1"})

    return answer


def _image(name: str, image: bytes, threshold: float, classifier: str) -> dict[str, object]:
    try:
        scores = seen(image)
    except ValueError:
        error = {"code": 400, "description": "Invalid/corrupt image data", "error_id": "input_error"}
        return {"image": name, "error": error}
    classes = [
        {"class": label, "score": score, "type_hierarchy": f"/person/{label}"}
        for label, score in scores.items()
        if score >= threshold
    ]
    return {"classifiers": [{"classifier_id": classifier, "name": classifier, "classes": classes}], "image": name}


def _token(asked: Asked, key: str) -> Told:
    form = {name: values[0] for name, values in parse_qs(asked.body.decode()).items()}
    if form.get("grant_type") != "urn:ibm:params:oauth:grant-type:apikey" or form.get("apikey") != key:
        return Told(400, {"errorCode": "BXNIM0415E", "errorMessage": "Provided API key could not be found"})
    return Told(200, {"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600, "expiration": 1})
