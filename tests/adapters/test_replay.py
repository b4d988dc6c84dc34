import json
import sqlite3
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from adapter_calls import answer_to, scores_of
from fakes.chat_service import completion
from fakes.pixel_scores import pixel_scores, score_slopes, sweep_images

from adapters import registry
from adapters.base import Adapter, AdapterError, AnswerError, NoAnswer, RawAnswer
from adapters.replay import VENDORS
from pipeline.querying.migrations import MIGRATIONS
from pipeline.querying.store import Request, Store

IMAGES = sweep_images()
DIGESTS = [sha256(image).hexdigest() for image in IMAGES]


def watson_image(image: bytes, name: str = "a.png") -> dict[str, Any]:
    classes = [{"class": label, "score": score} for label, score in pixel_scores(image).items()]
    return {"image": name, "classifiers": [{"classifier_id": "default", "classes": classes}]}


def watson_body(image: bytes) -> bytes:
    return json.dumps({"images": [watson_image(image)]}).encode()


def labels_body(image: bytes) -> bytes:
    return json.dumps({"labels": list(pixel_scores(image).items())}).encode()


def imagga_body(image: bytes) -> bytes:
    tags = [{"tag": {"en": name}, "confidence": 100 * score} for name, score in pixel_scores(image).items()]
    return json.dumps({"result": {"tags": tags}}).encode()


def chat_body(image: bytes) -> bytes:
    return json.dumps(completion(json.dumps(pixel_scores(image))).body).encode()


def rest_body(image: bytes) -> bytes:
    return json.dumps({"out": pixel_scores(image)}).encode()


REST = {"items": "out", "label": "[0]", "score": "[1]"}
BODIES: list[tuple[str, Any, dict[str, Any]]] = [
    ("watson", watson_body, {}),
    ("imagga", imagga_body, {}),
    ("labels", labels_body, {}),
    ("openai", chat_body, {}),
    ("http", rest_body, {"options": REST}),
]


def record(path: Path, adapter: str, bodies: Sequence[bytes], *, model: str = "m", **parameters: Any) -> None:
    with Store(path) as store:
        number = store.classifier(adapter=adapter, model=model, parameters=parameters)
        requests = [Request(f"{adapter} {model} {digest}", digest) for digest in DIGESTS]
        answers = [RawAnswer(body, 200, {"x-request-id": "7"}) for body in bodies]
        store.finish(zip(store.begin(requests, classifier=number), answers, strict=False), classifier=number)


def scores(adapter: Adapter) -> list[dict[str, float]]:
    return [scores_of(adapter, answer) for answer in adapter.send(IMAGES)]


@pytest.mark.parametrize(("name", "body", "options"), BODIES)
@pytest.mark.parametrize("kind", ["store", "folder"])
def test_recorded_answers_give_the_same_slopes_without_credentials(kind, name, body, options, tmp_path):
    if kind == "store":
        record(tmp_path / "responses.sqlite", f"{name}:mine", [body(image) for image in IMAGES], labels=None)
        adapter = registry.create(f"replay:{name}:mine", {"source": str(tmp_path), **options})
        answer = adapter.send(IMAGES)[0]
        assert (answer.status, answer.headers["x-request-id"]) == (200, "7")
    else:
        for image, digest in zip(IMAGES, DIGESTS, strict=True):
            (tmp_path / f"{digest}.json").write_bytes(body(image))
        adapter = registry.create(f"replay:{name}", {"source": str(tmp_path), **options})
    assert score_slopes(scores(adapter)) == pytest.approx(
        score_slopes([pixel_scores(image) for image in IMAGES]), abs=1e-12
    )
    assert not adapter.capabilities.remote


def test_every_remote_adapter_can_be_replayed():
    remote = {row.name for row in registry.describe_all() if row.capabilities and row.capabilities.remote}
    assert remote == {*VENDORS, "openai", "http"}


def test_image_without_record_is_not_retried(tmp_path):
    record(tmp_path / "responses.sqlite", "watson", [watson_body(IMAGES[0])])
    first, *others = registry.create("replay:watson", {"source": str(tmp_path)}).send(IMAGES)
    assert isinstance(first, RawAnswer)
    assert all(isinstance(other, NoAnswer) and other.retry == "never" for other in others)


def test_version_changes_with_the_recorded_answers(tmp_path):
    path = tmp_path / "responses.sqlite"
    record(path, "watson", [watson_body(IMAGES[0])], model="v3")
    before = registry.create("replay:watson", {"source": str(path)}).model
    assert before == registry.create("replay:watson", {"source": str(tmp_path)}).model
    assert before.startswith("v3, recorded answers sha256 ")
    record(path, "watson", [watson_body(image) for image in IMAGES], model="v3")
    assert before != registry.create("replay:watson", {"source": str(path)}).model


def test_store_of_the_first_schema_is_read(tmp_path):
    path = tmp_path / "old.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript(MIGRATIONS[0][1])
        connection.execute("INSERT INTO classifiers VALUES (1, 'opencv', 'm', '{}')")
        row = ("k", 1, DIGESTS[0], labels_body(IMAGES[0]), None, "{}", "2026-01-01")
        connection.execute("INSERT INTO responses VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    connection.close()
    adapter = registry.create("replay:opencv", {"source": str(path)})
    assert len(scores_of(adapter, answer_to(adapter, IMAGES[0]))) == 3


def test_ambiguous_classifier_has_to_be_chosen(tmp_path):
    path = tmp_path / "responses.sqlite"
    record(path, "watson", [watson_body(IMAGES[0])], threshold="0.0")
    record(path, "watson", [watson_body(IMAGES[1])], model="other", threshold="0.5")
    with pytest.raises(AdapterError, match=r"classifier: 1: m, .*0.0.*; 2: other, .*0.5"):
        registry.create("replay:watson", {"source": str(path)})
    adapter = registry.create("replay:watson", {"source": str(path), "classifier": 2, "cut_off": 0.5})
    assert scores_of(adapter, answer_to(adapter, IMAGES[0])) == pixel_scores(IMAGES[1])
    assert adapter.capabilities.cut_off == 0.5
    assert adapter.parameters == {"recorded": {"threshold": "0.5"}}


def test_answers_of_zips_are_matched_by_file_name(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "answers").mkdir()
    for number, image in enumerate(IMAGES):
        (tmp_path / "images" / f"face {number}.png").write_bytes(image)
    named = [watson_image(image, f"set.zip/face {number}.jpg") for number, image in enumerate(IMAGES)]
    (tmp_path / "answers" / "batch.json").write_text(json.dumps({"images": named[::-1]}))
    options = {"source": str(tmp_path / "answers"), "names": str(tmp_path / "images")}
    assert scores(registry.create("replay:watson", options)) == [pixel_scores(image) for image in IMAGES]


def test_csv_list_assigns_answers_to_images(tmp_path):
    (tmp_path / "both.json").write_text(json.dumps({"images": [watson_image(image) for image in IMAGES[:2]]}))
    (tmp_path / "third.json").write_bytes(watson_body(IMAGES[2]))
    rows = [f"both,{DIGESTS[0]},0", f"both.json,{DIGESTS[1].upper()},1", f"third,{DIGESTS[2]},", f"none,{DIGESTS[3]},"]
    (tmp_path / "list.csv").write_text("\n".join(["name,sha256,position", *rows]))
    options = {"source": str(tmp_path), "names": str(tmp_path / "list.csv"), "format": "watson"}
    adapter = registry.create("replay:archive", options)
    *found, missing, _ = adapter.send(IMAGES)
    assert [scores_of(adapter, answer) for answer in found] == [pixel_scores(image) for image in IMAGES[:3]]
    assert isinstance(missing, NoAnswer)


def test_malformed_recorded_answer_is_refused(tmp_path):
    (tmp_path / f"{DIGESTS[0]}.json").write_bytes(b"<html>")
    adapter = registry.create("replay:watson", {"source": str(tmp_path)})
    answer = answer_to(adapter, IMAGES[0])
    with pytest.raises(AnswerError, match="not JSON"):
        adapter.parse(answer)


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("replay", {}, "write replay:..."),
        ("replay:watson", {"source": "{folder}/none"}, "'source': there is no"),
        ("replay:watson", {"source": "{folder}"}, "no .json files"),
        ("replay:watson", {"source": "{folder}/files"}, "named by the sha256"),
        ("replay:watson", {"source": "{folder}/files", "names": "{folder}/nowhere"}, "'names': there is no"),
        ("replay:watson", {"source": "{folder}/files", "names": "{folder}/bad.csv"}, r"bad.csv, line 2: a name"),
        ("replay:watson", {"source": "{folder}/files", "classifier": 1}, "'classifier' is for"),
        ("replay:watson", {"source": "{folder}/bad.csv"}, "not a file of recorded answers"),
        ("replay:watson", {"source": "{folder}/r.sqlite"}, "no answers of 'watson'; it has those of: imagga"),
        ("replay:imagga", {"source": "{folder}/r.sqlite", "names": "{folder}"}, "'names' is for a folder"),
        ("replay:imagga", {"source": "{folder}/r.sqlite", "cut_off": 0.9}, "'cut_off' must not exceed"),
        ("replay:mine", {"source": "{folder}/ok"}, "no parser 'mine'.*option format, one of azure"),
        ("replay:http:mine", {"source": "{folder}/ok"}, "one of the options 'label' and 'text' is required"),
    ],
)
def test_wrong_source_or_option_is_explained(spec, options, message, tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.json").write_text("{}")
    (tmp_path / "ok").mkdir()
    (tmp_path / "ok" / f"{DIGESTS[0]}.json").write_text("{}")
    (tmp_path / "bad.csv").write_text("name,sha256\na,123\n")
    record(tmp_path / "r.sqlite", "imagga", [b"{}"])
    folder = tmp_path / "empty" if options.get("source") == "{folder}" else tmp_path
    folder.mkdir(exist_ok=True)
    given = {name: value.format(folder=folder) if isinstance(value, str) else value for name, value in options.items()}
    with pytest.raises(AdapterError, match=message):
        registry.create(spec, given)
