"""The local page on which reviewers answer: loopback only, a random token in its address, nothing from elsewhere."""

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
from pipeline.run.storage import ImageStore, location

HOST = "127.0.0.1"
MARGIN = 0.6  # of the face's box on every side
SIDE = 420  # pixels of the longer side of a picture
MOST_BYTES = 4096  # of a posted answer


@dataclass(frozen=True)
class Review:
    """What is asked of one reviewer.

    Attributes:
        folder: the run's.
        images: where its versions' files lie.
        questions: in the order in which they are asked.
        reviewer: a name or a code, kept with every answer.
        options: how photos are read.
        token: the first part of every address of the page.
    """

    folder: Path
    images: ImageStore
    questions: Sequence[Question]
    reviewer: str
    options: PhotoOptions = field(default_factory=PhotoOptions)
    token: str = field(default_factory=lambda: token_urlsafe(16))

    def state(self) -> dict[str, Any]:
        """The questions and this reviewer's answers, as the page reads them."""
        kept = read_answers(self.folder)
        own = kept[kept["reviewer"] == self.reviewer]
        names = own["item"] + "/" + own["kind"] + "/" + own["attribute"]
        questions = [
            {
                "item": question.item,
                "text": question.text,
                "choices": question.choices,
                "pictures": [f"picture/{number}/{side}" for side in range(len(question.pictures))],
                "answer": answer,
            }
            for number, question in enumerate(self.questions)
            for answer in [dict(zip(names, own["answer"], strict=True)).get(question.name)]
        ]
        return {"reviewer": self.reviewer, "questions": questions, "ends": [NO_FACE, EXCLUDE]}


class ReviewServer(ThreadingHTTPServer):
    """Serves one review on a loopback port.

    Args:
        review: what is asked.
        port: 0 for a free one.

    Raises:
        OSError: the port is taken.
    """

    daemon_threads = True

    def __init__(self, review: Review, *, port: int = 0) -> None:
        super().__init__((HOST, port), _Handler)
        self.review = review
        self.writing = Lock()
        self.jpeg = lru_cache(maxsize=64)(lambda picture: jpeg_of(picture, review))

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://{HOST}:{self.server_port}/{self.review.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: ReviewServer
    server_version, sys_version = "counterslope", ""

    def do_GET(self) -> None:
        """The page, the questions, or one picture."""
        match self._parts():
            case [""]:
                nonce = token_urlsafe(16)
                self._send(page(nonce).encode(), "text/html; charset=utf-8", nonce=nonce)
            case ["questions"]:
                self._send(json.dumps(self.server.review.state()).encode(), "application/json")
            case ["picture", number, side] if number.isdecimal() and side.isdecimal():
                self._picture(int(number), int(side))
            case _:
                self._refuse(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        """One answer: ``{"question": number, "answer": choice}``."""
        origin = self.headers.get("Origin")
        length = self.headers.get("Content-Length", "")
        if self._parts() != ["answers"] or origin not in (None, f"http://{self.headers.get('Host')}"):
            return self._refuse(HTTPStatus.NOT_FOUND)
        if not length.isdecimal() or int(length) > MOST_BYTES:
            return self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        review = self.server.review
        try:
            given = json.loads(self.rfile.read(int(length)))
            number, answer = given["question"], given["answer"]
            if not (isinstance(number, int) and 0 <= number < len(review.questions)):
                return self._refuse(HTTPStatus.BAD_REQUEST)
            with self.server.writing:
                keep_answer(review.folder, review.questions[number], answer, reviewer=review.reviewer)
        except (ValueError, KeyError, TypeError):
            return self._refuse(HTTPStatus.BAD_REQUEST)
        return self._send(b"{}", "application/json")

    def log_message(self, *_: Any) -> None:
        """Nothing: the terminal is the reviewer's."""

    def _parts(self) -> list[str]:
        """The address behind the token; a request without it, or for another host, has no such parts.

        The host is checked because another site's name may be made to lead to this machine (DNS rebinding).
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
            return self._refuse(HTTPStatus.NOT_FOUND)
        except PhotoError:
            return self._refuse(HTTPStatus.GONE)
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

    def _refuse(self, status: HTTPStatus) -> None:
        self.send_error(status)


def page(nonce: str) -> str:
    """The page's HTML; style and script run by the nonce alone."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("pipeline.review"), autoescape=True)
    return environment.get_template("review.html.j2").render(nonce=nonce)


def jpeg_of(picture: Picture, review: Review) -> bytes:
    """The face of a picture with some of what is around it, at most ``SIDE`` pixels a side.

    Raises:
        PhotoError: the file cannot be read (any more).
    """
    photo = read_photo(
        review.images.file(picture.file) if picture.value is not None else location(picture.file),
        options=review.options,
    )
    height, width = photo.pixels.shape[:2]
    left, top, right, bottom = picture.box
    reach_x, reach_y = MARGIN * (right - left), MARGIN * (bottom - top)
    rows = slice(max(0, round(top - reach_y)), min(height, round(bottom + reach_y)))
    columns = slice(max(0, round(left - reach_x)), min(width, round(right + reach_x)))
    cut = photo.pixels[rows, columns]
    scale = SIDE / max(cut.shape[:2])
    resized = cv2.resize(cut, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC)
    _, encoded = cv2.imencode(".jpg", resized[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 95])
    return encoded.tobytes()
