import json

import pytest

from adapters.base import AnswerError, RawAnswer
from adapters.cloud.watson import image_names, labels_of


def answer(image: dict[str, object], position: int = 0) -> RawAnswer:
    return RawAnswer(json.dumps({"images": [image]}).encode(), position=position)


def test_answers_of_all_api_versions_are_parsed():
    old = answer({"classifiers": [{"classes": [{"class": "nurse", "score": 0.81}]}], "image": "a.jpg"})
    assert [(label.name, label.score) for label in labels_of(old)] == [("nurse", 0.81)]
    one = {"age": {"min": 23, "max": 26, "score": 0.6}, "gender": {"gender": "FEMALE", "score": 0.99}}
    two = {"age": {"max": 17, "score": 0.3}, "gender": {"gender": "female", "gender_label": "x", "score": 0.5}}
    faces = answer({"faces": [one, two]})
    found = {label.name: label.score for label in labels_of(faces)}
    assert found == {"gender FEMALE": 0.99, "age 23-26": 0.6, "age 0-17": 0.3}
    several = [{"classes": [{"class": "nurse", "score": score}]} for score in (0.2, 0.7)]
    assert labels_of(answer({"classifiers": several}))[0].score == 0.7


@pytest.mark.parametrize(
    "image",
    [
        {},
        {"classifiers": None},
        {"classifiers": [{}]},
        {"classifiers": [{"classes": [{"class": "a", "score": "0.5"}]}]},
        {"classifiers": [{"classes": [{"class": "a", "score": float("nan")}]}]},
        {"classifiers": [{"classes": [{"class": "a", "score": 1.01}]}]},
        {"classifiers": [{"classes": [{"class": None, "score": 0.5}]}]},
        {"error": {"code": 400, "description": "bad"}},
        {"faces": [{"age": 5, "gender": {"gender": "FEMALE"}}]},
    ],
)
def test_malformed_answer_is_refused(image):
    with pytest.raises(AnswerError):
        labels_of(answer(image))
    with pytest.raises(AnswerError, match="position 1"):
        labels_of(answer(image, position=1))


def test_images_of_a_zip_are_identified_by_file_name():
    body = json.dumps({"images": [{"image": "set.zip/01.png"}, {"image": "a.jpg"}, {"source_url": "x"}]}).encode()
    assert image_names(body) == ["01.png", "a.jpg", ""]
