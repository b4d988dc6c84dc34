import json

import pytest
from fakes.chat_service import completion
from fakes.pixel_scores import sweep_images
from hypothesis import given
from hypothesis import strategies as st

from adapters.base import AnswerError
from adapters.cloud import openai_answers as chat


def reply(text: str | None, **more: object) -> bytes:
    return json.dumps(completion(text, **more).body).encode()


def scores(body: bytes, *labels: str, letters: bool = False) -> dict[str, float]:
    return {label.name: label.score for label in chat.labels_of(body, labels or None, letters=letters)}


def test_scores_are_read_from_json_in_the_message():
    assert scores(reply('{"nurse": 0.2, "engineer": 1}'), "nurse", "engineer") == {"nurse": 0.2, "engineer": 1.0}
    assert scores(reply('```json\n{"nurse": 0.2}\n```')) == {"nurse": 0.2}
    assert scores(reply('<think>A {cap}?</think>\n{"nurse": 0.2}')) == {"nurse": 0.2}
    assert scores(reply('{"nurse": 0.2, "because": "so"}'), "nurse") == {"nurse": 0.2}


def test_message_in_parts_is_joined():
    halves = [{"type": "text", "text": '{"nurse":'}, {"type": "text", "text": " 0.2}"}]
    assert scores(reply(halves)) == {"nurse": 0.2}
    refusal = [{"type": "refusal", "refusal": "I cannot help with that."}]
    assert scores(reply(refusal), "nurse") == {"(refused)": 1.0}


def test_unanswered_question_gets_an_outcome_label():
    assert scores(reply(None, refusal="I cannot help with that."), "nurse") == {"(refused)": 1.0}
    assert scores(reply('{"nurse', reason="content_filter"), "nurse") == {"(withheld)": 1.0}
    assert scores(reply('{"nurse', reason="length"), "nurse") == {"(cut off)": 1.0}
    assert scores(b'{"error": {"code": "content_policy_violation"}}', "nurse") == {"(withheld)": 1.0}


def test_repeats_give_mean_scores_and_outcome_shares():
    replies = [reply('{"nurse": 0.2}'), reply('{"nurse": 0.6}'), reply(None, refusal="No."), reply("", reason="length")]
    body = chat.together([(["nurse"], one) for one in replies])
    assert scores(body) == {"nurse": pytest.approx(0.4), "(refused)": 0.25, "(cut off)": 0.25}


def test_letter_probabilities_ignore_whitespace_tokens():
    tops = [{"token": " A", "logprob": -1.0}, {"token": "A", "logprob": -2.0}, {"token": "B", "logprob": -9999.0}]
    tokens = [
        {"token": "\n", "top_logprobs": []},
        {"token": "A", "top_logprobs": [*tops, {"token": "C", "logprob": -3}]},
    ]
    found = scores(reply("A", logprobs={"content": tokens}), "nurse", "engineer", letters=True)
    assert found == {"nurse": pytest.approx(0.5032147), "engineer": 0.0}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (reply("A nurse."), "not a JSON object of labels but 'A nurse.'"),
        (reply('{"engineer": 0.5}'), "no score for 'nurse'"),
        (reply('{"nurse": "0.5"}'), "must be a number"),
        (reply('{"nurse": NaN}'), "0-1"),
        (reply('{"nurse": 1.5}'), "0-1"),
        (reply('{"nurse": null}'), "must be a number"),
        (reply(None), "no text"),
        (b'{"choices": []}', "no choices"),
        (b'{"choices": null}', "list of objects"),
        (b"<html>", "not JSON"),
        (b'{"replies": []}', "no replies"),
        (b'{"replies": [{"labels": ["nurse"], "reply": 5}]}', "lacks its text"),
        (b'{"replies": [{"labels": "nurse", "reply": "{}"}]}', "lacks the labels"),
    ],
)
def test_answer_without_labels_is_refused(body, message):
    with pytest.raises(AnswerError, match=message):
        scores(body, "nurse")


@pytest.mark.parametrize(
    ("logprobs", "message"),
    [
        (None, "no log-probabilities"),
        ({"content": []}, "begin with one of the letters"),
        ({"content": [{"token": "A", "top_logprobs": [{"token": "The", "logprob": -1}]}]}, "begin with one"),
        ({"content": [{"token": "A", "top_logprobs": [{"token": "A", "logprob": 0.1}]}]}, "at most 0"),
        ({"content": [{"token": "A", "top_logprobs": [{"token": "A", "logprob": None}]}]}, "at most 0"),
    ],
)
def test_letter_without_probabilities_is_refused(logprobs, message):
    with pytest.raises(AnswerError, match=message):
        scores(reply("A", logprobs=logprobs), "nurse", letters=True)


FIELDS = ["choices", "message", "content", "refusal", "finish_reason", "logprobs", "replies", "reply", "labels"]
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=20,
)


@given(content=JSON, letters=st.booleans())
def test_arbitrary_reply_is_parsed_or_refused(content, letters):
    for body in (json.dumps(content).encode(), json.dumps({"choices": [content]}).encode()):
        try:
            for label in chat.labels_of(body, ["nurse"], letters=letters):
                assert 0 <= label.score <= 1
        except AnswerError:
            pass
        chat.error_of(body)


@given(body=st.binary(max_size=60))
def test_combined_replies_keep_their_bytes(body):
    row = json.loads(chat.together([(["nurse"], body)]))["replies"][0]
    assert row["reply"].encode("utf-8", "surrogateescape") == body


def test_label_order_depends_on_image_seed_and_repeat():
    labels = [str(number) for number in range(50)]
    first, second = sweep_images()[:2]
    drawn = [
        chat.shuffled(labels, image, seed=seed, repeat=repeat)
        for image, seed, repeat in [(first, 1, 0), (first, 1, 0), (second, 1, 0), (first, 2, 0), (first, 1, 1)]
    ]
    assert drawn[0] == drawn[1]
    assert len({tuple(order) for order in drawn}) == 4
    assert all(sorted(order) == sorted(labels) for order in drawn)


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with identifying people.",
        "I’m sorry, I can’t assist with that.",
        "Sorry, this is not something I do.",
        "I cannot rate the people in this photograph.",
        "I am not able to judge that from a picture.",
        "As an AI model, I do not label people.",
        "<think>Is this allowed?</think>\nI can't help with that.",
        "I apologise, but no.",
    ],
)
def test_refusal_in_prose_is_recognised(text):
    assert scores(reply(text), "nurse") == {"(refused)": 1.0}


@pytest.mark.parametrize("text", ["nurse: 0.2", "The person looks sorry.", "{'nurse': 0.2}", "[0.2]", ""])
def test_other_prose_is_not_a_refusal(text):
    with pytest.raises(AnswerError, match="not a JSON object"):
        scores(reply(text), "nurse")
