import base64
from urllib.parse import quote

import pytest
from counting_adapter import write_images

from adapters import registry
from adapters.base import NoAnswer, RawAnswer
from adapters.credentials import planted_secret, sounds_secret
from pipeline.config.options import ConfigError
from pipeline.config.redaction import Redactor, environment_redactor
from pipeline.config.sources import load_settings
from pipeline.querying.client import query_adapter
from pipeline.querying.limits import CallPolicy
from pipeline.querying.store import Store

SECRET = 'pl4nted/s3cret+é"'


SECRET_NAMES = ("key", "api_key", "apiKey", "Authorization", "X-Auth-Token", "password", "PAT")
OTHER_NAMES = ("model", "max_tokens", "key_env", "token_variable", "keyboard", "endpoint", "author")


@pytest.mark.parametrize("name", SECRET_NAMES + OTHER_NAMES)
def test_names_of_credentials_are_recognised(name):
    assert sounds_secret(name) == (name in SECRET_NAMES)


@pytest.mark.parametrize(
    "options",
    [
        {"api_key": "abcdef"},
        {"headers": {"Authorization": "Bearer abcdefgh"}},
        {"headers": [{"X-Key": "abc"}]},
        {"anything": "sk-abcdefghijklmnopqrst"},
        {"anything": "AKIAABCDEFGHIJKLMNOP"},
        {"header": "Bearer abcdefghijkl"},
    ],
)
def test_credential_in_options_is_refused_and_not_shown(options):
    name = planted_secret(options)
    assert name is not None
    with pytest.raises(ConfigError, match="environment variable") as caught:
        load_settings(given={"query": {"options": {"google": options}}}, environment={})
    for value in str(options.values()).split("'")[1::2]:
        if len(value) > 8 and value not in ("headers", "Authorization"):
            assert value not in str(caught.value)
            assert value not in str(caught.value.__cause__)


@pytest.mark.parametrize(
    "options",
    [
        {"api_key": ""},
        {"key": "MY_API_KEY"},
        {"headers": {"Authorization": "Bearer ${MY_TOKEN}"}},
        {"key_env": "whatever"},
        {"model": "gpt-4.1-mini", "max_tokens": 300, "labels": ["doctor", "key"]},
    ],
)
def test_references_and_ordinary_options_are_accepted(options):
    assert planted_secret(options) is None


def test_encoded_secrets_are_redacted_everywhere():
    redactor = Redactor(["MY_KEY", "REGION", "NOT_SET_KEY"], {"MY_KEY": SECRET, "REGION": "us-east-1"})
    forms = [SECRET, quote(SECRET, safe=""), base64.b64encode(SECRET.encode()).decode().rstrip("=")]
    for form in forms:
        reply = RawAnswer(f"<p>{form}</p>".encode(), 500, {"x-echo": form})
        cleaned = redactor.failure(NoAnswer(f"got {form} in us-east-1", reply=reply))
        assert form not in cleaned.reason
        assert "us-east-1" in cleaned.reason
        assert form.encode() not in cleaned.reply.body
        assert form not in cleaned.reply.headers["x-echo"]
        assert b"[MY_KEY]" in redactor.answer(reply).body


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("url: /v1/label?image=3&api_key=abc123 (Caused by x)", "url: /v1/label?image=3&api_key=*** (Caused by x)"),
        ("GET https://a.example/x?key=s3cr3t#top", "GET https://a.example/x?key=***#top"),
        ("https://user:pass/w@rd@a.example/", None),
        ("https://me:hidden@a.example/v1", "https://***@a.example/v1"),
        ("{'Authorization': 'Bearer abcdefghijklmnop'}", "{'Authorization': 'Bearer ***'}"),
        ("my own words: [CLINIC_TOKEN]?", "my own words: [CLINIC_TOKEN]?"),
        ("a tag?name=nurse", "a tag?name=nurse"),
    ],
)
def test_credentials_in_urls_are_redacted(text, clean):
    found = Redactor([], {}).text(text)
    assert "pass/w" not in found or clean is None
    assert clean is None or found == clean


def test_secret_variables_of_the_environment_are_redacted(monkeypatch):
    monkeypatch.setenv("CLINIC_TOKEN", "0123456789")
    monkeypatch.setenv("CLINIC_REGION_KEY_NAME", "europe-west")
    failure = environment_redactor().failure(NoAnswer("HTTPError: 403 for /v1?k=0123456789 of europe-west"))
    assert failure.reason == "HTTPError: 403 for /v1?k=[CLINIC_TOKEN] of europe-west"
    assert environment_redactor().answer(RawAnswer(b"0123456789")).body == b"[CLINIC_TOKEN]"


def test_answer_without_secrets_is_unchanged():
    answer = RawAnswer(bytes(range(256)), 200, {"a": "b"})
    assert Redactor(["MY_KEY"], {}).answer(answer) == answer
    assert Redactor(["MY_KEY"], {"MY_KEY": "not-in-there"}).answer(answer) == answer


def test_secrets_in_errors_of_a_function_are_not_stored(tmp_path, monkeypatch):
    monkeypatch.setenv("CLINIC_TOKEN", "a-planted-token-01")
    (tmp_path / "leaky_function.py").write_text(
        "import os\n"
        "def look(image):\n"
        "    token = os.environ['CLINIC_TOKEN']\n"
        "    raise ConnectionError(f'Max retries exceeded with url: /v1?key=another-planted-key (token {token})')\n"
    )
    adapter = registry.create("python:leaky_function:look", {"path": str(tmp_path)})
    images = write_images(tmp_path / "images", ["1", "2"])
    with Store(tmp_path / "responses.sqlite") as store:
        query_adapter(adapter, images, store, policy=CallPolicy())
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("responses.sqlite*"))
    assert b"Max retries exceeded with url: /v1?key=*** (token [CLINIC_TOKEN])" in kept
    assert b"planted" not in kept


def test_working_directory_is_not_a_secret(monkeypatch, tmp_path):
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.setenv("DB_PWD", "hunter2hunter2")
    assert environment_redactor().text(f"keep {tmp_path}/faces.run") == f"keep {tmp_path}/faces.run"
    assert "hunter2" not in environment_redactor().text("no hunter2hunter2")
