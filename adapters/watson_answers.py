"""What answers of Watson Visual Recognition v3 mean, of all the dates that the interface had. Pure: sends nothing."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from adapters.answers import checked, inner, json_object, objects
from adapters.base import AnswerError, Label, NoAnswer, RawAnswer
from adapters.calling import Reply, kept, words

_MESSAGES = ("message", "errorMessage", "statusInfo", "description")


def labels_of(answer: RawAnswer) -> list[Label]:
    """The classes of an image, or the perceived gender and age of the faces in an archived answer of detect_faces.

    Of a name that several classifiers (or faces) give, the highest score. Answers of all dates of the interface are
    read: ``type_hierarchy``, ``images_processed`` and the like may be missing.

    Raises:
        AnswerError: the answer does not hold the image, or an error in its place.
    """
    images = objects(json_object(answer.body), "images")
    if not 0 <= answer.position < len(images):
        raise AnswerError(f"the answer holds {len(images)} images, not one at position {answer.position}")
    image = images[answer.position]
    if "error" in image:
        raise AnswerError(f"the service could not read the image: {_words_of(image['error'])}")
    if "classifiers" not in image and "faces" not in image:
        raise AnswerError("the answer has neither classifiers nor faces")
    return checked([*_classes(image), *_faces(image)], repeats=True)


def matched(reply: Reply, names: Sequence[str]) -> list[RawAnswer | NoAnswer]:
    """One outcome for each name that was sent; an answer that cannot be understood is everybody's."""
    headers = kept(reply.headers, ("x-global-transaction-id", "x-dp-watson-tran-id"))
    whole = RawAnswer(reply.body, reply.status, headers)
    try:
        images = objects(json_object(reply.body), "images")
        places = {name: place for place, name in enumerate(image_names(reply.body))}
    except AnswerError:
        return [replace(whole, position=place) for place in range(len(names))]
    if len(names) == len(images) == 1:
        places = {names[0]: 0}
    outcomes: list[RawAnswer | NoAnswer] = []
    for name in names:
        if name not in places:
            outcomes.append(NoAnswer("the reply leaves this image of the zip out", retry="later", reply=whole))
            continue
        answer = replace(whole, position=places[name])
        error = images[answer.position].get("error")
        outcomes.append(answer if error is None else _image_error(error, answer))
    return outcomes


def image_names(body: bytes) -> list[str]:
    """The file names that an answer has for its images, without the zip's; "" where there is none.

    Raises:
        AnswerError: the answer holds no images.
    """
    return [str(image.get("image") or "").rpartition("/")[2] for image in objects(json_object(body), "images")]


def says(body: bytes) -> str:
    """What an error says, in any of the shapes that it has had."""
    try:
        content = json_object(body)
    except AnswerError:
        return ""
    errors = content.get("errors")
    first = errors[0] if isinstance(errors, list) and errors else None
    for held in (content.get("error"), first, *(content.get(name) for name in _MESSAGES)):
        found = _words_of(held)
        if found:
            return found
    return ""


def _words_of(error: object) -> str:
    if isinstance(error, dict):
        return next((words(error[name]) for name in _MESSAGES if isinstance(error.get(name), str)), "")
    return words(error)


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


def _image_error(error: object, answer: RawAnswer) -> NoAnswer:
    code = error.get("code") if isinstance(error, dict) else None
    passing = isinstance(code, int) and (code in (408, 429) or code >= 500)
    reason = f"the service could not read the image: {_words_of(error)}"
    return NoAnswer(reason, retry="later" if passing else "never", reply=answer)
