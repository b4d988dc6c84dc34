import base64
from urllib.parse import quote

import pytest

from adapters.base import NoAnswer, RawAnswer
from pipeline.config.options import ConfigError
from pipeline.config.redaction import Redactor, planted_secret, sounds_secret
from pipeline.config.sources import load_settings

SECRET = 'pl4nted/s3cret+é"'


@pytest.mark.parametrize("name", ["key", "api_key", "apiKey", "Authorization", "X-Auth-Token", "password", "PAT"])
def test_names_that_promise_a_credential(name: str) -> None:
    assert sounds_secret(name)


@pytest.mark.parametrize("name", ["model", "max_tokens", "key_env", "token_variable", "keyboard", "endpoint", "author"])
def test_names_that_do_not(name: str) -> None:
    assert not sounds_secret(name)


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
def test_a_credential_among_the_options_is_refused_and_not_repeated(options: dict[str, object]) -> None:
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
def test_references_and_ordinary_options_are_fine(options: dict[str, object]) -> None:
    assert planted_secret(options) is None


def test_every_form_of_a_value_is_taken_out_everywhere() -> None:
    redactor = Redactor(["MY_KEY", "REGION", "NOT_SET_KEY"], {"MY_KEY": SECRET, "REGION": "us-east-1"})
    forms = [SECRET, quote(SECRET, safe=""), base64.b64encode(SECRET.encode()).decode().rstrip("=")]
    for form in forms:
        reply = RawAnswer(f"<p>{form}</p>".encode(), 500, {"x-echo": form})
        cleaned = redactor.failure(NoAnswer(f"said {form} in us-east-1", reply=reply))
        assert form not in cleaned.reason
        assert "us-east-1" in cleaned.reason
        assert cleaned.reply is not None
        assert form.encode() not in cleaned.reply.body
        assert form not in cleaned.reply.headers["x-echo"]
        assert b"[MY_KEY]" in redactor.answer(reply).body


def test_without_secrets_an_answer_stays_as_it_came() -> None:
    answer = RawAnswer(bytes(range(256)), 200, {"a": "b"})
    assert Redactor(["MY_KEY"], {}).answer(answer) is answer
    assert Redactor(["MY_KEY"], {"MY_KEY": "not-in-there"}).answer(answer) == answer
