"""Editors outside the project: images in files, a Python function, a command or a service."""

import base64
import sys

import cv2
import numpy as np
import pytest
from drawn_subjects import subject
from fakes.http_server import FakeServer, Response

from models.weights import load_parser
from pipeline.config.attributes import ATTRIBUTES
from pipeline.config.options import ConfigError
from pipeline.counterfactuals.editors.outside import OutsideEditor
from pipeline.counterfactuals.editors.sources import EditError, Request, encoded, remote_host, source_of

GENDER = ATTRIBUTES["gender"]
VALUES = (-1.0, 0.0, 1.0)


@pytest.fixture(scope="module")
def parser():
    return load_parser("small")


@pytest.fixture
def face():
    return subject("a.jpg")


@pytest.fixture
def edit_request(face):
    return Request(face, GENDER, 1.0, np.full(face.pixels.shape[:2], 255, dtype=np.uint8))


def darker(pixels, value):
    return cv2.convertScaleAbs(pixels, alpha=1 + value / 4)


class CountingSource:
    """A source that records the requested values."""

    fingerprint = "counted"

    def __init__(self):
        self.values = []

    def image(self, request):
        self.values.append(request.value)
        return darker(request.subject.pixels, request.value)


def versions_of(source, parser, face, folder=None):
    editor = OutsideEditor(source, parser, ("skin",), 0.02, folder)
    return editor.read([face]).edit(GENDER, VALUES).make(0)


def test_image_is_used_inside_the_mask_only(parser, face):
    edit = versions_of(CountingSource(), parser, face)
    inside = np.zeros(face.pixels.shape[:2], dtype=np.float32)
    inside[edit.patch.window] = edit.patch.mask
    for value, version in zip(VALUES, edit.versions, strict=True):
        assert (version.pixels[inside == 0] == face.pixels[inside == 0]).all()
        assert (version.pixels[inside == 1] == darker(face.pixels, value)[inside == 1]).all()


def test_images_are_cached(parser, face, tmp_path):
    source = CountingSource()
    first, again = (versions_of(source, parser, face, tmp_path) for _ in range(2))
    assert source.values == list(VALUES)
    for version, other in zip(first.versions, again.versions, strict=True):
        assert (version.pixels == other.pixels).all()


def test_image_of_another_size_is_scaled_and_of_another_shape_raises(parser, face):
    class Half(CountingSource):
        def image(self, request):
            return cv2.resize(request.subject.pixels, None, fx=0.5, fy=self.tall)

    source = Half()
    source.tall = 0.5
    assert versions_of(source, parser, face) is not None
    source.tall = 0.25
    with pytest.raises(EditError, match=r"the version has .* the photo"):
        versions_of(source, parser, face)


def test_images_are_read_from_a_manifest(face, tmp_path, edit_request):
    (tmp_path / "up.png").write_bytes(encoded(darker(face.pixels, 1)))
    rows = "photo,attribute,value,file\na.jpg,gender,1.0,up.png\na.jpg,gender,-1,gone.png\n"
    (tmp_path / "list.csv").write_text(rows)
    source = source_of(f"images:{tmp_path / 'list.csv'}", timeout=5)
    assert (source.image(edit_request) == darker(face.pixels, 1)).all()
    with pytest.raises(EditError, match=r"gone.png"):
        source.image(Request(face, GENDER, -1.0, edit_request.mask))
    with pytest.raises(EditError, match=r"no row for gender = \+2"):
        source.image(Request(face, GENDER, 2.0, edit_request.mask))
    before = source.fingerprint
    (tmp_path / "up.png").write_bytes(encoded(darker(face.pixels, 2)))
    assert source_of(f"images:{tmp_path / 'list.csv'}", timeout=5).fingerprint != before


@pytest.mark.parametrize("content", ["", "photo,value\na,1\n", "photo,attribute,value,file\na,gender,much,b.png\n"])
def test_invalid_manifests_raise(tmp_path, content, edit_request):
    (tmp_path / "list.csv").write_text(content)
    source = source_of(f"images:{tmp_path / 'list.csv'}", timeout=5)
    with pytest.raises((ConfigError, EditError)):
        source.image(edit_request)


def test_python_function(face, edit_request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_editor.py").write_text(
        "def edit(pixels, *, attribute, value, poles, mask, prompt):\n"
        "    assert (attribute, poles) == ('gender', ('feminine', 'masculine')) and mask.all()\n"
        "    assert prompt == 'make this person look more masculine, and change nothing else'\n"
        "    return 255 - pixels\n"
        "def broken(pixels, **_):\n"
        "    raise KeyError('cuda')\n"
    )
    monkeypatch.delitem(sys.modules, "own_editor", raising=False)
    source = source_of("python:own_editor:edit", timeout=5)
    assert (source.image(edit_request) == 255 - face.pixels).all()
    with pytest.raises(EditError, match="own_editor:broken failed: KeyError: 'cuda'"):
        source_of("python:own_editor:broken", timeout=5).image(edit_request)
    with pytest.raises(ConfigError, match="cannot be loaded"):
        source_of("python:own_editor:gone", timeout=5).image(edit_request)


def test_command(face, edit_request, tmp_path):
    program = tmp_path / "edit.py"
    program.write_text(
        "import json, shutil, sys\n"
        "photo, mask, wanted, out = sys.argv[1:]\n"
        "if json.load(open(wanted))['value'] > 1: sys.exit('too far')\n"
        "shutil.copy(photo, out)\n"
    )
    source = source_of(f"command:{sys.executable} {program}", timeout=30)
    assert (source.image(edit_request) == face.pixels).all()
    with pytest.raises(EditError, match="ended with 1: too far"):
        source.image(Request(face, GENDER, 2.0, edit_request.mask))
    slow = source_of(f"command:{sys.executable} -c 'import time; time.sleep(9)'", timeout=0.3)
    with pytest.raises(EditError, match=r"more than 0\.3 s"):
        slow.image(edit_request)


def test_service_returns_an_image_or_json(face, edit_request):
    def as_image(request):
        return Response(200, base64.b64decode(request.json()["image"]), {"Content-Type": "image/png"})

    def as_json(request):
        return Response(200, {"image": request.json()["image"]})

    for answer in (as_image, as_json):
        with FakeServer(answer) as service:
            assert (source_of(f"{service.url}/edit", timeout=5).image(edit_request) == face.pixels).all()
        assert service.requests[0].json()["prompt"].startswith("make this person look more masculine")


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [(500, "text/plain", b"out of memory"), (200, "image/png", b"no image"), (200, "application/json", b"[]"),
     (200, "application/json", b'{"image": "%%"}'), (200, "text/html", b"<html>")],
)  # fmt: skip
def test_service_without_an_image_raises(edit_request, status, kind, body):
    response = Response(status, body, {"Content-Type": kind})
    with FakeServer(lambda _: response) as service, pytest.raises(EditError):
        source_of(f"{service.url}/edit", timeout=5).image(edit_request)


@pytest.mark.parametrize("spec", ["", "magic", "images:", "ftp://a/b", "python"])
def test_unknown_editor_raises(spec):
    with pytest.raises(ConfigError, match="there is no editor"):
        source_of(spec, timeout=5)


def test_remote_host_is_none_on_loopback():
    assert remote_host("https://edit.example/v1") == "edit.example"
    assert remote_host("http://127.0.0.1:8000/edit") is None
    assert remote_host("http://127.0.0.1.evil.example/edit") == "127.0.0.1.evil.example"
    assert remote_host("images:list.csv") is None
