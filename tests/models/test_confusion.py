"""Confusion matrices of the embedded classifiers."""

from pathlib import Path

import pytest

from models.attributes import RACES
from models.confusion import Confusion, ConfusionError, read_confusion, write_confusion
from models.weights import CLASSIFIERS, record

MATRIX = Confusion(
    weights="abc",
    data="some faces",
    groups=("feminine, White", "feminine, Black", "masculine, White", "masculine, Black"),
    counts=((8, 1, 1, 0), (0, 9, 0, 1), (2, 0, 8, 0), (0, 1, 1, 8)),
)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_embedded_matrices_belong_to_the_embedded_weights(name):
    matrix = read_confusion(name, weights=record(name).sha256)
    assert matrix.faces > 1000
    for attribute, categories in (("gender", ("feminine", "masculine")), ("race", RACES)):
        counts = matrix.of(categories)
        right = sum(counts[place][place] for place in range(len(categories)))
        assert right / matrix.faces > {"gender": 0.9, "race": 0.75}[attribute]


def test_confusion_file_round_trip(tmp_path: Path):
    write_confusion({"judge": MATRIX}, tmp_path / "confusion.json")
    assert read_confusion("judge", weights="abc", file=tmp_path / "confusion.json") == MATRIX


def test_counts_of_one_attribute_are_marginal():
    assert MATRIX.of(("masculine", "feminine")) == [[17, 3], [2, 18]]
    assert MATRIX.of(("White", "Black")) == [[19, 1], [1, 19]]


def test_missing_outdated_and_invalid_files_raise(tmp_path: Path):
    file = tmp_path / "confusion.json"
    with pytest.raises(ConfusionError, match="no confusion matrix of the judge"):
        read_confusion("judge", weights="abc", file=file)
    write_confusion({"judge": MATRIX}, file)
    with pytest.raises(ConfusionError, match="belongs to other weights"):
        read_confusion("judge", weights="def", file=file)
    file.write_text('{"judge": 3}')
    with pytest.raises(ConfusionError, match="evaluate_models"):
        read_confusion("judge", weights="abc", file=file)


def test_unknown_categories_raise():
    with pytest.raises(ConfusionError, match="there is no confusion matrix for the categories young, old"):
        MATRIX.of(("young", "old"))
