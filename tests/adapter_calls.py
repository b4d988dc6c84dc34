"""Create adapters, send them one image, and read the scores of their answers."""

from typing import Any

from fakes.pixel_scores import sweep_images

from adapters import registry
from adapters.base import NoAnswer, RawAnswer

IMAGE = sweep_images()[0]


def make_adapter(name: str, target: str = "", **options: Any) -> Any:
    return registry.create(f"{name}:{target}" if target else name, options)


def answer_to(adapter: Any, image: bytes = IMAGE) -> RawAnswer:
    """The answer to one image; a failed request fails the test."""
    (outcome,) = adapter.send([image])
    assert isinstance(outcome, RawAnswer), outcome
    return outcome


def failure_on(adapter: Any, image: bytes = IMAGE) -> NoAnswer:
    """The failure to answer one image; an answer fails the test."""
    (outcome,) = adapter.send([image])
    assert isinstance(outcome, NoAnswer), outcome
    return outcome


def scores_of(adapter: Any, answer: RawAnswer) -> dict[str, float]:
    """Label -> score, as the adapter parses its answer."""
    return {label.name: label.score for label in adapter.parse(answer)}
