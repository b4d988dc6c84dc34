"""The server of the review page: access, validation, and a review in a browser."""

import threading
from contextlib import contextmanager

import pytest
import requests
from run_to_review import tables

from pipeline.config.attributes import ATTRIBUTES
from pipeline.review.answers import read_answers
from pipeline.review.questions import face_questions, pair_questions
from pipeline.review.server import Review, ReviewServer
from pipeline.run.image_store import ImageStore


@pytest.fixture
def review(tmp_path):
    photos, faces, versions = tables(tmp_path, photos=3)
    swept = {"gender": ATTRIBUTES["gender"]}
    asked = face_questions(photos, faces, unsure=1, sure=1)
    return Review(
        tmp_path, ImageStore(tmp_path), asked + pair_questions(photos, faces, versions, swept=swept, pairs=2), "anna"
    )


@contextmanager
def running(review):
    with ReviewServer(review) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def server(review):
    with running(review) as server:
        yield server


def test_server_listens_on_loopback_only(server):
    assert server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("path", ["", "questions", "picture/0/0"])
def test_requests_need_the_token(server, path):
    base = f"http://127.0.0.1:{server.server_port}"
    for address in (f"{base}/{path}", f"{base}/{'x' * 22}/{path}"):
        assert requests.get(address, timeout=5).status_code == 404
    assert requests.get(server.url + path, timeout=5).status_code == 200


def test_other_host_header_is_refused(server):
    assert requests.get(server.url, headers={"Host": "evil.example"}, timeout=5).status_code == 404


def test_cross_origin_answer_is_refused(server, review):
    content = {"question": 0, "answer": "feminine"}
    sent = requests.post(server.url + "answers", json=content, headers={"Origin": "http://evil.example"}, timeout=5)
    assert sent.status_code == 404
    assert read_answers(review.folder).empty


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"question": 99, "answer": "feminine"}', b'{"question": 0, "answer": "purple"}',
                b'{"question": -1, "answer": "left"}', b'{"question": true}', b"\xff\xfe"],
)  # fmt: skip
def test_invalid_answer_is_refused_and_not_stored(server, review, content):
    assert requests.post(server.url + "answers", data=content, timeout=5).status_code == 400
    assert read_answers(review.folder).empty


def test_long_request_is_refused(server):
    assert requests.post(server.url + "answers", data=b"x" * 5000, timeout=5).status_code == 413


@pytest.mark.parametrize("path", ["picture/99/0", "picture/0/7", "picture/../../run.json", "run.json", "picture/0/0/0"])
def test_only_pictures_of_questions_are_served(server, path):
    assert requests.get(server.url + path, timeout=5).status_code == 404


def test_missing_picture_is_gone(server, review):
    (review.folder / "p0.png").unlink()
    number = next(number for number, question in enumerate(review.questions) if question.photo == "p0.png")
    assert requests.get(f"{server.url}picture/{number}/0", timeout=5).status_code == 410


def test_reviewer_answers_by_keys_and_continues_later(browser, review):
    with running(review) as server:
        page = browser.new_page()
        outside = []
        page.on("request", lambda request: outside.append(request.url) if server.url not in request.url else None)
        page.on("console", lambda message: outside.append(message.text))
        page.goto(server.url)
        page.wait_for_selector("#choices button")
        page.keyboard.press("1")
        page.wait_for_function("() => document.getElementById('count').textContent === '1 of 7'")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("2")
        page.wait_for_function("() => document.getElementById('text').textContent.includes('race')")
        page.close()
    assert list(read_answers(review.folder)["answer"]) == ["masculine"]
    assert not [message for message in outside if not message.startswith("data:")]
    with running(review) as server:
        page = browser.new_page()
        page.goto(server.url)
        page.wait_for_function("() => document.getElementById('count').textContent === '1 of 7'")
        page.get_by_role("button", name="exclude this photo").click()
        page.wait_for_function("() => document.getElementById('count').textContent === '2 of 7'")
        while page.locator("#choices button").count():
            before = page.locator("#count").inner_text()
            page.locator("#choices button").first.click()
            page.wait_for_function("old => document.getElementById('count').textContent !== old", arg=before)
        assert "All questions are answered" in page.locator("#text").inner_text()
        page.close()
