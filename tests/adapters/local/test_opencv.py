import cv2
import numpy as np
import pytest
from adapter_calls import make_adapter
from drawn_faces import drawn_face, png

from adapters.base import Label
from adapters.local.opencv import OpenCV


def _labels(image: bytes) -> dict[str, float]:
    adapter = make_adapter("opencv")
    return {label.name: label.score for label in adapter.parse(adapter.send([image])[0])}


def test_frontal_face_is_found_and_blank_image_has_no_labels():
    assert _labels(png(drawn_face()))["frontal face"] >= OpenCV.capabilities.presence
    assert _labels(png(np.full((275, 225, 3), 128, np.uint8))) == {}


def test_label_is_present_where_opencv_detects_by_default():
    generator = np.random.default_rng(0)
    cascade = cv2.CascadeClassifier(cv2.data.haarcascades + "haarcascade_frontalface_alt2.xml")
    found = set()
    for shift in range(0, 100, 5):
        face = drawn_face(shift=shift).astype(float) + generator.normal(0, 20, (275, 225, 3))
        image = np.clip(face, 0, 255).astype(np.uint8)
        grey = cv2.imdecode(np.frombuffer(png(image), np.uint8), cv2.IMREAD_GRAYSCALE)
        small = cv2.resize(grey, (72, 88), interpolation=cv2.INTER_AREA)
        detected = len(cascade.detectMultiScale(small, scaleFactor=1.2, minSize=(22, 22))) > 0
        found.add(detected)
        assert (_labels(png(image)).get("frontal face", 0) >= 0.5) == detected
    assert found == {True, False}


def test_eyes_and_smiles_are_detected_inside_faces_only():
    eyes = drawn_face()[95:150]
    assert not {"smile", "eyes or eyeglasses"} & _labels(png(eyes)).keys()


def test_number_of_threads_does_not_change_answers():
    image = png(drawn_face())
    before = cv2.getNumThreads()
    bodies = set()
    try:
        for threads in (1, 4):
            cv2.setNumThreads(threads)
            bodies |= {make_adapter("opencv").send([image])[0].body for _ in range(5)}
    finally:
        cv2.setNumThreads(before)
    assert len(bodies) == 1


def test_version_names_opencv_and_the_cascades():
    assert cv2.__version__ in make_adapter("opencv").model
    assert len(make_adapter("opencv").model.rpartition(" ")[2]) == 64


def test_model_changes_with_the_search_so_that_cached_answers_are_not_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = make_adapter("opencv").model
    monkeypatch.setattr("adapters.local.opencv._BESIDE_FACE", 0.5)
    assert make_adapter("opencv").model != before


@pytest.mark.parametrize("size", [(40, 40), (30, 400), (2000, 1500)])
def test_images_of_any_size_are_accepted(size):
    image = cv2.resize(drawn_face(), size)
    adapter = make_adapter("opencv")
    assert all(isinstance(label, Label) for label in adapter.parse(adapter.send([png(image)])[0]))
