"""Parser of recorded answers of IBM Watson Visual Recognition v3, of all versions of its API.

The service ended on 1 December 2021; `adapters.replay` replays its recorded answers.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from adapters.answers import checked, inner, json_object, objects, one_line, part_of
from adapters.base import AnswerError, Capabilities, Label, RawAnswer

CAPABILITIES = Capabilities(cut_off=0.0)  # if the lowest threshold was requested; most archives have 0.5
_MESSAGES = ("message", "errorMessage", "statusInfo", "description")


def labels_of(answer: RawAnswer) -> list[Label]:
    """Return the classes of an image, or perceived gender and age of the faces in an answer of detect_faces.

    A name that several classifiers or faces give gets the highest score. ``type_hierarchy``, ``images_processed`` and
    the like may be missing, as in some versions of the API.

    Raises:
        AnswerError: the answer does not hold the image, or has an error in its place.
    """
    image = part_of(answer, "images")
    if "error" in image:
        error = image["error"]
        texts = [error.get(name) for name in _MESSAGES] if isinstance(error, dict) else [error]
        raise AnswerError(f"the service could not read the image: {next(filter(None, map(one_line, texts)), '')}")
    if "classifiers" not in image and "faces" not in image:
        raise AnswerError("the answer has neither classifiers nor faces")
    return checked([*_classes(image), *_faces(image)], repeats=True)


def image_names(body: bytes) -> list[str]:
    """Return the file names of an answer's images within the zip archive, "" for unnamed ones; else AnswerError."""
    return [str(image.get("image") or "").rpartition("/")[2] for image in objects(json_object(body), "images")]


def _classes(image: Mapping[str, Any]) -> Iterator[tuple[object, object]]:
    for classifier in objects(image, "classifiers", needed=False):
        for entry in objects(classifier, "classes"):
            yield entry.get("class"), entry.get("score")


def _faces(image: Mapping[str, Any]) -> Iterator[tuple[object, object]]:
    for face in objects(image, "faces", needed=False):
        gender, age = inner(face, "gender", "gender"), face.get("age")
        if isinstance(gender, str):
            yield f"gender {gender.upper()}", inner(face, "gender", "score")
        if isinstance(age, dict):
            yield f"age {json.dumps(age.get('min', 0))}-{json.dumps(age.get('max'))}", age.get("score")
