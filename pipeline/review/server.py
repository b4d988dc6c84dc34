"""The local page on which reviewers answer: loopback only, with a random token in its URL and no external resources."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from secrets import compare_digest, token_urlsafe
from threading import Lock
from typing import Any

import cv2

from pipeline.config.options import PhotoOptions
from pipeline.photos.decoding import PhotoError, read_photo
from pipeline.review.answers import keep_answer, read_answers
from pipeline.review.questions import EXCLUDE, NO_FACE, Picture, Question
from pipeline.run.image_store import ImageStore
from pipeline.run.storage import location

HOST = "127.0.0.1"
MARGIN = 0.6  # on every side of the face's box, in multiples of the box's width or height
SIDE = 420  # longer side of a picture in pixels
MAX_POST_BYTES = 4096


@dataclass(frozen=True)
class Review:
    """One reviewer's session.

    Attributes:
        folder: the run's folder.
        images: the store of the versions' files.
        questions: in the order in which they are shown.
        reviewer: a name or a code, stored with every answer.
        options: how photos are read.
        token: the secret first component of every URL path of the page.
    """

    folder: Path
    images: ImageStore
    questions: Sequence[Question]
    reviewer: str
    options: PhotoOptions = field(default_factory=PhotoOptions)
    token: str = field(default_factory=lambda: token_urlsafe(16))

    def state(self) -> dict[str, Any]:
        """Return the questions and this reviewer's answers as JSON values for the page."""
        answers = read_answers(self.folder).query("reviewer == @self.reviewer")
        names = answers["item"] + "/" + answers["kind"] + "/" + answers["attribute"]
        answered = dict(zip(names, answers["answer"], strict=True))
        questions = [
            {
                "item": question.item,
                "text": question.text,
                "choices": question.choices,
                "pictures": [f"picture/{number}/{side}" for side in range(len(question.pictures))],
                "answer": answered.get(question.name),
            }
            for number, question in enumerate(self.questions)
        ]
        return {"reviewer": self.reviewer, "questions": questions, "ends": [NO_FACE, EXCLUDE]}


class ReviewServer(ThreadingHTTPServer):
    """HTTP server of one review on a loopback port.

    Args:
        review: the session to serve.
        port: 0 picks a free port.

    Raises:
        OSError: the port is in use.
    """

    daemon_threads = True

    def __init__(self, review: Review, *, port: int = 0) -> None:
        super().__init__((HOST, port), _Handler)
        self.review = review
        self.writing = Lock()
        self.jpeg = lru_cache(maxsize=64)(lambda picture: jpeg_of(picture, review))

    @property
    def url(self) -> str:
        """The page's URL."""
        return f"http://{HOST}:{self.server_port}/{self.review.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: ReviewServer
    server_version, sys_version = "counterslope", ""

    def do_GET(self) -> None:
        """Send the page, the questions, or one picture."""
        match self._parts():
            case [""]:
                nonce = token_urlsafe(16)
                self._send(page(nonce).encode(), "text/html; charset=utf-8", nonce=nonce)
            case ["questions"]:
                self._send(json.dumps(self.server.review.state()).encode(), "application/json")
            case ["picture", number, side] if number.isdecimal() and side.isdecimal():
                self._picture(int(number), int(side))
            case _:
                self.send_error(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        """Store one answer: ``{"question": number, "answer": choice}``."""
        origin = self.headers.get("Origin")
        length = self.headers.get("Content-Length", "")
        if self._parts() != ["answers"] or origin not in (None, f"http://{self.headers.get('Host')}"):
            return self.send_error(HTTPStatus.NOT_FOUND)
        if not length.isdecimal() or int(length) > MAX_POST_BYTES:
            return self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        review = self.server.review
        try:
            content = json.loads(self.rfile.read(int(length)))
            number, answer = content["question"], content["answer"]
            if not (isinstance(number, int) and 0 <= number < len(review.questions)):
                return self.send_error(HTTPStatus.BAD_REQUEST)
            with self.server.writing:
                keep_answer(review.folder, review.questions[number], answer, reviewer=review.reviewer)
        except (ValueError, KeyError, TypeError):
            return self.send_error(HTTPStatus.BAD_REQUEST)
        return self._send(b"{}", "application/json")

    def log_message(self, *_: Any) -> None:
        """Log nothing: the terminal shows only the review's own messages."""

    def _parts(self) -> list[str]:
        """Split the path after the token; a request with another token or host is treated as not found.

        The host is checked because the name of another site may be resolved to this machine (DNS rebinding).
        """
        _, _, path = self.path.partition("/")
        token, _, rest = path.partition("/")
        host = self.headers.get("Host", "")
        known = host in (f"{HOST}:{self.server.server_port}", f"localhost:{self.server.server_port}")
        allowed = known and compare_digest(token.encode(), self.server.review.token.encode())
        return rest.split("/") if allowed else ["not", "found"]

    def _picture(self, number: int, side: int) -> None:
        try:
            picture = self.server.review.questions[number].pictures[side]
            content = self.server.jpeg(picture)
        except IndexError:
            return self.send_error(HTTPStatus.NOT_FOUND)
        except PhotoError:
            return self.send_error(HTTPStatus.GONE)
        return self._send(content, "image/jpeg")

    def _send(self, content: bytes, kind: str, *, nonce: str = "") -> None:
        policy = f"default-src 'none'; img-src 'self' data:; connect-src 'self'; style-src 'nonce-{nonce}'; "
        headers: Mapping[str, str] = {
            "Content-Type": kind,
            "Content-Length": str(len(content)),
            "Content-Security-Policy": f"{policy}script-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'",
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
        }
        self.send_response(HTTPStatus.OK)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


def page(nonce: str) -> str:
    """Render the page's HTML; its style and script carry the nonce of the content security policy."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("pipeline.review"), autoescape=True)
    return environment.get_template("review.html.j2").render(nonce=nonce)


def jpeg_of(picture: Picture, review: Review) -> bytes:
    """Encode the face of a picture with a margin around it as JPEG, its longer side ``SIDE`` pixels.

    Raises:
        PhotoError: the file cannot be read.
    """
    file = location(picture.file) if picture.value is None else review.images.file(picture.file)
    pixels = read_photo(file, options=review.options).pixels
    left, top, right, bottom = picture.box
    x_margin, y_margin = MARGIN * (right - left), MARGIN * (bottom - top)
    rows = slice(max(0, round(top - y_margin)), round(bottom + y_margin))
    columns = slice(max(0, round(left - x_margin)), round(right + x_margin))
    crop = pixels[rows, columns]
    scale = SIDE / max(crop.shape[:2])
    resized = cv2.resize(crop, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC)
    _, encoded = cv2.imencode(".jpg", resized[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 95])
    return encoded.tobytes()
