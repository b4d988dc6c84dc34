import gzip
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from time import monotonic, sleep

import pytest
from fakes.http_server import FakeServer, Response
from hypothesis import example, given
from hypothesis import strategies as st
from urllib3.util.connection import create_connection

from adapters.answers import one_line
from adapters.base import NoAnswer
from adapters.http_client import Call, HttpClient, Reply, failure_of, kept_headers, raw_answers, retry_after

SECRET = "planted-secret-0123456789"


@pytest.fixture
def client() -> HttpClient:
    return HttpClient(timeout=(2.0, 2.0), longest=0.5, most_bytes=100_000)


@pytest.fixture
def raw_server() -> Iterator[Callable[[Callable[[socket.socket], None]], str]]:
    """Start a server that reads one request and then passes the socket to a function."""
    ends: list[Callable[[], None]] = []

    def start(then: Callable[[socket.socket], None]) -> str:
        listening = socket.create_server(("127.0.0.1", 0))

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    with suppress(OSError):  # the client has disconnected
                        then(connection)

        thread = threading.Thread(target=serve)
        thread.start()

        def end() -> None:
            listening.shutdown(socket.SHUT_RDWR)
            listening.close()
            thread.join()

        ends.append(end)
        return f"http://127.0.0.1:{listening.getsockname()[1]}/"

    yield start
    for end in ends:
        end()


def test_reply_is_returned_unchanged(client):
    with FakeServer(lambda request: Response(201, b"\x00\xff" + request.body, {"X-Request-Id": "7"})) as server:
        reply = client(Call(f"{server.url}/path", b"body", {"X-Key": SECRET}))
        assert (reply.status, reply.body, reply.headers["x-request-id"]) == (201, b"\x00\xffbody", "7")
        assert server.requests[0].headers["x-key"] == SECRET


def test_connection_is_reused(client, monkeypatch):
    connections = []

    def connect(*args, **kwargs):
        connections.append(args)
        return create_connection(*args, **kwargs)

    monkeypatch.setattr("urllib3.util.connection.create_connection", connect)
    with FakeServer(lambda _: Response(200, b"x" * 70_000)) as server:
        for _ in range(5):
            assert isinstance(client(Call(server.url)), Reply)
    assert len(connections) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_is_not_followed(client, status):
    with (
        FakeServer(lambda _: Response(200, b"trap")) as trap,
        FakeServer(lambda _: Response(status, b"", {"Location": trap.url})) as server,
    ):
        outcome = client(Call(server.url, headers={"Authorization": SECRET}))
        assert "redirected" in outcome.reason
        assert (outcome.retry, outcome.billed) == ("never", False)
        assert trap.requests == []


def test_overlong_reply_is_cut_and_its_start_kept(client):
    with FakeServer(lambda _: Response(200, b"x" * 5_000_000)) as server:
        outcome = client(Call(server.url))
    assert "longer than 100000 bytes" in outcome.reason
    assert outcome.billed
    assert outcome.reply.body == b"x" * 10_000


def test_decompression_bomb_is_cut(client):
    packed = gzip.compress(b"x" * 5_000_000)
    with FakeServer(lambda _: Response(200, packed, {"Content-Encoding": "gzip"})) as server:
        outcome = client(Call(server.url))
    assert "longer than" in outcome.reason


@pytest.mark.parametrize(
    ("start", "part", "seconds"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b"x", 1.5),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", 1.5),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x", 5),
    ],
)
def test_slow_reply_times_out(client, raw_server, start, part, seconds):
    def trickle(connection):
        connection.sendall(start)
        for _ in range(100):
            connection.sendall(part)
            sleep(0.02)

    started = monotonic()
    outcome = client(Call(raw_server(trickle)))
    assert "took longer than 0.5 s" in outcome.reason
    assert (outcome.retry, outcome.billed) == ("later", True)
    assert monotonic() - started < seconds


def test_time_limit_is_per_reply(raw_server):
    client = HttpClient(timeout=(2.0, 2.0), longest=0.5)

    def answer(connection):
        for _ in range(3):
            sleep(0.3)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            connection.recv(65536)

    url = raw_server(answer)
    assert [isinstance(client(Call(url)), Reply) for _ in range(3)] == [True] * 3


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain",
        b"not HTTP at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
    ],
)
def test_broken_reply_may_have_been_billed(client, raw_server, sent):
    outcome = client(Call(raw_server(lambda connection: connection.sendall(sent))))
    assert (outcome.retry, outcome.billed) == ("later", True)
    assert "127.0.0.1" in outcome.reason


def test_missing_reply_may_have_been_billed():
    client = HttpClient(timeout=(0.2, 0.2))
    with FakeServer(lambda _: Response(200, b"late", seconds=0.5)) as server:
        outcome = client(Call(server.url))
    assert (outcome.retry, outcome.billed) == ("later", True)


def test_unreachable_host_bills_nothing(client):
    outcome = client(Call("http://127.0.0.1:1/?key=no", headers={"Authorization": SECRET}))
    assert (outcome.retry, outcome.billed) == ("later", False)
    assert "could not be reached" in outcome.reason
    assert "key=no" not in outcome.reason


def test_netrc_is_not_read(client, tmp_path, monkeypatch):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password hidden\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    with FakeServer(lambda _: Response(200, b"ok")) as server:
        client(Call(server.url))
        assert "authorization" not in server.requests[0].headers


def test_cookies_are_not_kept(client):
    with FakeServer(lambda _: Response(200, b"ok", {"Set-Cookie": "session=1; Path=/"})) as server:
        for _ in range(2):
            client(Call(server.url))
        assert "cookie" not in server.requests[1].headers


def test_secrets_are_in_no_reply_and_no_repr(client):
    def echo(request):
        return Response(200, str(dict(request.headers)).encode(), {"X-Echo": request.headers["authorization"]})

    with FakeServer(echo) as server:
        call = Call(server.url, SECRET.encode(), {"Authorization": f"Key {SECRET}"}, secrets=(SECRET,))
        reply = client(call)
        assert isinstance(reply, Reply)
        assert SECRET in server.requests[0].headers["authorization"]
    assert SECRET not in repr(reply) + repr(call) + repr(client)
    assert SECRET.encode() not in reply.body
    assert reply.headers["x-echo"] == "Key ***"


def test_invalid_header_is_not_shown(client):
    outcome = client(Call("http://127.0.0.1:1/", headers={"Authorization": f"{SECRET}\nX: y"}))
    assert isinstance(outcome, NoAnswer)
    assert SECRET not in repr(outcome)
    assert (outcome.retry, outcome.billed) == ("never", False)


@pytest.mark.parametrize(
    ("status", "retry"),
    [
        *((status, "later") for status in (408, 500, 502, 503, 504)),
        (429, "slower"),
        *((status, "never") for status in (304, 400, 401, 403, 404, 413, 415, 501)),
    ],
)
def test_status_decides_retry_and_wait(status, retry):
    failed = failure_of(Reply(status, {"retry-after": "3"}, b"raw"), "broken")
    assert failed.reason == f"HTTP {status}: broken"
    assert failed.retry == retry
    assert failed.wait == (None if retry == "never" else 3)
    assert (failed.reply.body, failed.reply.status) == (b"raw", status)
    assert failure_of(Reply(200, {}, b"<html>")) is None


NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7),
        ({"retry-after": format_datetime(NOW + timedelta(seconds=90), usegmt=True)}, 90),
        ({"retry-after": format_datetime(NOW - timedelta(days=1), usegmt=True)}, 0),
        ({"retry-after": "Sun, 01 Mar 2026 12:01:00 -0000"}, 60),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": ""}, None),
    ],
)
def test_retry_after_is_read_in_seconds(headers, seconds):
    assert retry_after(headers, now=NOW) == seconds


@given(st.text() | st.from_regex(r"[A-Z][a-z]{2}, \d{1,3} [A-Z][a-z]{2} \d{1,5} \d+:\d+:\d+ [+-]\d+"))
@example("Sun, 01 Mar 99999 12:01:00 GMT")
@example("Sun, 01 Mar 2026 12:01:00 +9999999999")
@example(" , ")
def test_arbitrary_retry_after_is_accepted(text):
    seconds = retry_after({"retry-after": text}, now=NOW)
    assert seconds is None or 0 <= seconds < float("inf")


def test_selected_headers_are_kept():
    headers = {"x-id": "7" * 500, "date": "today", "set-cookie": "no"}
    assert kept_headers(headers, ("x-id", "x-other")) == {"x-id": "7" * 200, "date": "today"}
    answers = raw_answers(Reply(207, headers, b"both"), 2, headers=("x-id",))
    found = [(answer.position, answer.body, answer.status) for answer in answers]
    assert found == [(0, b"both", 207), (1, b"both", 207)]


@given(st.text() | st.none() | st.integers() | st.lists(st.text()))
@example("a\r\nb\u202ec\x00\ud800")
def test_text_of_a_service_becomes_one_printable_line(text):
    shown = one_line(text, most=50)
    assert len(shown) <= 50
    assert shown == "" or shown.isprintable()
    shown.encode()
