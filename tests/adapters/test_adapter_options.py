from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from adapters.base import AdapterError
from adapters.options import kind_of
from adapters.registry import describe


def test_options_are_described_with_type_default_and_help():
    found = describe("onnx:any.onnx")
    options = {option.name: option for option in found.options}
    assert found.usage == "onnx:TARGET"
    assert "model.onnx.data" in found.target
    assert options["labels"].default is None
    assert (options["layout"].kind, options["layout"].default) == ("nchw | nhwc", "nchw")
    assert (options["mean"].kind, options["resize"].default) == ("list of 3 numbers", "none")
    assert options["mean"].help.endswith("the units of values.")
    assert "Args" not in found.about


def test_adapter_without_target_is_described():
    found = describe("opencv")
    assert (found.usage, found.target) == ("opencv", "")
    with pytest.raises(AdapterError, match="no adapter 'opncv'"):
        describe("opncv")


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (str, "text"),
        (int | None, "whole number"),
        (float, "number"),
        (Path, "path"),
        (bool, "true | false"),
        (Literal["", "us"], '"" | us'),
        (str | tuple[str, ...], "text or list of text"),
        (int | tuple[int, int], "whole number or list of 2 whole numbers"),
        (Sequence[float], "list of numbers"),
        (Mapping[str, str], "table of text"),
        (dict[str, float], "table of numbers"),
        (Annotated[int, "of something"], "whole number"),
        (Any, "value"),
    ],
)
def test_annotation_is_put_into_words(annotation, words):
    assert kind_of(annotation) == words
