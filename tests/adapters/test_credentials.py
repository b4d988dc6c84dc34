import json
from html import escape
from urllib.parse import quote

import pytest

from adapters.base import AdapterError
from adapters.credentials import checked_url, on_this_machine, redacted, secret


@pytest.mark.parametrize(
    "url", ["https://a.example/v1/", "http://127.0.0.1:80/v1/", "http://localhost/v1", "http://[::1]/v1"]
)
def test_https_and_loopback_urls_may_carry_credentials(url):
    assert checked_url(url, adapter="x", option="endpoint", credential=True) == url.rstrip("/")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://a.example", "only over https"),
        ("http://127.0.0.1.example", "only over https"),
        ("http://10.0.0.1", "only over https"),
        ("ftp://a.example", "must be an address"),
        ("a.example/v1", "must be an address"),
        ("https://", "must be an address"),
        ("https://a b.example", "must be an address"),
        ("https://a.example:port", "is not an address"),
        ("https://user:word@a.example", "user name or password"),
        ("https://a.example/?key=1", r"end before any \?"),
        ("https://a.example/#x", r"end before any \?"),
    ],
)
def test_invalid_url_is_refused_by_option_name(url, message):
    with pytest.raises(AdapterError, match=f"option 'endpoint'.*{message}") as caught:
        checked_url(url, adapter="x", option="endpoint", credential=True)
    assert "word" not in str(caught.value).replace("password", "")


def test_url_without_credential_may_be_http_with_query():
    url = "http://a.example/?mode=1"
    assert checked_url(url, adapter="x", option="url", credential=False, query=True) == url
    assert not on_this_machine("a.example")


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        *((one, True) for one in ("127.0.0.1", "127.9.9.9:80", "localhost", "LOCALHOST:80", "a.localhost.", "::1")),
        *((one, True) for one in ("[::1]:80", "http://127.0.0.1:80/v1", "https://[::1]/v1", "http://localhost")),
        ("http://127.0.0.1.evil.example", False),
        ("127.0.0.1.evil.example:443", False),
        ("localhost.evil.example", False),
        ("http://127.0.0.1@evil.example/", False),
        ("http://evil.example\\@127.0.0.1/", False),
        ("http://evil.example/?http://127.0.0.1", False),
        ("http://evil.example#@localhost", False),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("", False),
        ("http://[::1", False),
    ],
)
def test_loopback_is_recognised_by_the_parsed_host(address, loopback):
    assert on_this_machine(address) == loopback


@pytest.mark.parametrize("value", ["", "  ", "two\nlines", "schlüssel"])
def test_unusable_secret_is_named_but_not_shown(value, monkeypatch):
    monkeypatch.setenv("SOME_KEY", value)
    with pytest.raises(AdapterError, match="SOME_KEY") as caught:
        secret("SOME_KEY", adapter="x")
    assert not value.strip() or value not in str(caught.value)


def test_longest_secret_is_redacted_first():
    assert redacted(b"abcdef abcd xy", ["abcd", "abcdef", "xy"]) == b"*** *** xy"


def test_encoded_secrets_are_redacted():
    key = 'a/b+c="d\\e&f'
    for form in (key, json.dumps(key), json.dumps(key).replace("/", "\\/"), quote(key, safe=""), escape(key)):
        assert b"***" in redacted(form.encode(), [key])
        assert b"b+c" not in redacted(form.encode(), [key])
