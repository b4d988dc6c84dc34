"""Versions made by others: from files, a function, a program or a service, put back by the mask and kept."""

import base64
import json
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import cv2
import numpy as np
import pytest
from drawn import subject

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
def request_(face):
    return Request(face, GENDER, 1.0, np.full(face.pixels.shape[:2], 255, dtype=np.uint8))


def darker(pixels, value):
    return cv2.convertScaleAbs(pixels, alpha=1 + value / 4)


class Counted:
    """A source that counts what it is asked for."""

    fingerprint = "counted"

    def __init__(self):
        self.values = []

    def image(self, request):
        self.values.append(request.value)
        return darker(request.subject.pixels, request.value)


def edit_of(source, parser, face, folder=None):
    editor = OutsideEditor(source, parser, ("skin",), 0.02, folder)
    return editor.read([face]).edit(GENDER, VALUES).make(0)


def test_an_image_is_used_inside_the_mask_and_nowhere_else(parser, face):
    made = edit_of(Counted(), parser, face)
    inside = np.zeros(face.pixels.shape[:2], dtype=np.float32)
    inside[made.patch.window] = made.patch.mask
    for value, version in zip(VALUES, made.versions, strict=True):
        assert (version.pixels[inside == 0] == face.pixels[inside == 0]).all()
        assert (version.pixels[inside == 1] == darker(face.pixels, value)[inside == 1]).all()


def test_no_image_is_asked_for_twice(parser, face, tmp_path):
    source = Counted()
    first, again = (edit_of(source, parser, face, tmp_path) for _ in range(2))
    assert source.values == list(VALUES)
    for one, other in zip(first.versions, again.versions, strict=True):
        assert (one.pixels == other.pixels).all()


def test_an_image_of_another_size_is_scaled_and_one_of_another_shape_refused(parser, face):
    class Half(Counted):
        def image(self, request):
            return cv2.resize(request.subject.pixels, None, fx=0.5, fy=self.tall)

    source = Half()
    source.tall = 0.5
    assert edit_of(source, parser, face) is not None
    source.tall = 0.25
    with pytest.raises(EditError, match=r"the version has .* the photo"):
        edit_of(source, parser, face)


def test_versions_in_files(face, tmp_path, request_):
    (tmp_path / "up.png").write_bytes(encoded(darker(face.pixels, 1)))
    (tmp_path / "list.csv").write_text(
        "photo,attribute,value,file\na.jpg,gender,1.0,up.png\na.jpg,gender,-1,gone.png\n"
    )
    source = source_of(f"images:{tmp_path / 'list.csv'}", timeout=5)
    assert (source.image(request_) == darker(face.pixels, 1)).all()
    with pytest.raises(EditError, match=r"gone.png"):
        source.image(Request(face, GENDER, -1.0, request_.mask))
    with pytest.raises(EditError, match=r"no row for gender = \+2"):
        source.image(Request(face, GENDER, 2.0, request_.mask))
    before = source.fingerprint
    (tmp_path / "up.png").write_bytes(encoded(darker(face.pixels, 2)))
    assert source_of(f"images:{tmp_path / 'list.csv'}", timeout=5).fingerprint != before


@pytest.mark.parametrize("content", ["", "photo,value\na,1\n", "photo,attribute,value,file\na,gender,much,b.png\n"])
def test_what_is_no_manifest_of_versions_is_refused(tmp_path, content, request_):
    (tmp_path / "list.csv").write_text(content)
    source = source_of(f"images:{tmp_path / 'list.csv'}", timeout=5)
    with pytest.raises((ConfigError, EditError)):
        source.image(request_)


def test_a_function(face, request_, tmp_path, monkeypatch):
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
    assert (source.image(request_) == 255 - face.pixels).all()
    with pytest.raises(EditError, match="own_editor:broken failed: KeyError: 'cuda'"):
        source_of("python:own_editor:broken", timeout=5).image(request_)
    with pytest.raises(ConfigError, match="cannot be loaded"):
        source_of("python:own_editor:gone", timeout=5).image(request_)


def test_a_program(face, request_, tmp_path):
    program = tmp_path / "edit.py"
    program.write_text(
        "import json, shutil, sys\n"
        "photo, mask, wanted, out = sys.argv[1:]\n"
        "if json.load(open(wanted))['value'] > 1: sys.exit('too far')\n"
        "shutil.copy(photo, out)\n"
    )
    source = source_of(f"command:{sys.executable} {program}", timeout=30)
    assert (source.image(request_) == face.pixels).all()
    with pytest.raises(EditError, match="ended with 1: too far"):
        source.image(Request(face, GENDER, 2.0, request_.mask))
    slow = source_of(f"command:{sys.executable} -c 'import time; time.sleep(9)'", timeout=0.3)
    with pytest.raises(EditError, match=r"more than 0\.3 s"):
        slow.image(request_)


@contextmanager
def service(reply):
    """A service on loopback that answers with ``reply(content)``: status, type and body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, kind, body = reply(content)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/edit"
        finally:
            server.shutdown()
            thread.join()


def test_a_service_gives_an_image_or_json_with_one(face, request_):
    def as_image(content):
        assert content["prompt"].startswith("make this person look more masculine")
        return 200, "image/png", base64.b64decode(content["image"])

    def as_json(content):
        return 200, "application/json", json.dumps({"image": content["image"]}).encode()

    for reply in (as_image, as_json):
        with service(reply) as url:
            assert (source_of(url, timeout=5).image(request_) == face.pixels).all()


@pytest.mark.parametrize(
    "reply", [(500, "text/plain", b"out of memory"), (200, "image/png", b"no image"), (200, "application/json", b"[]"),
              (200, "application/json", b'{"image": "%%"}'), (200, "text/html", b"<html>")],
)  # fmt: skip
def test_a_service_that_gives_no_image_is_named(request_, reply):
    with service(lambda _: reply) as url, pytest.raises(EditError):
        source_of(url, timeout=5).image(request_)


@pytest.mark.parametrize("spec", ["", "magic", "images:", "ftp://a/b", "python"])
def test_what_is_no_editor_is_refused(spec):
    with pytest.raises(ConfigError, match="there is no editor"):
        source_of(spec, timeout=5)


def test_only_services_elsewhere_are_remote():
    assert remote_host("https://edit.example/v1") == "edit.example"
    assert remote_host("http://127.0.0.1:8000/edit") is None
    assert remote_host("http://127.0.0.1.evil.example/edit") == "127.0.0.1.evil.example"
    assert remote_host("images:list.csv") is None
