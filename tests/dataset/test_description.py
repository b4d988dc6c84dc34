"""The card and the Croissant file of a dataset."""

import json

import pytest

from pipeline.config.sources import load_settings
from pipeline.dataset.description import croissant, dataset_card, licence_of
from pipeline.dataset.facts import DatasetFacts, SplitFacts
from pipeline.dataset.metadata import columns_of

TERMS = "non-commercial research only (learnt from faces)"


def facts(*, editor="residual", **options):
    settings = load_settings(given={"dataset": options, "sweep": {"editor": editor}}, environment={})
    return DatasetFacts(
        name="faces <&> *é*",
        splits={"train": SplitFacts(2, 14, "a" * 64), "test": SplitFacts(1, 7, "b" * 64)},
        listed=4,
        left_out={"no face": 1},
        opted_out=["c" * 64],
        columns=columns_of(["gender"], photo_names=False, manifest=['per|son "x"']),
        sweep=settings.sweep,
        options=settings.dataset,
        weights={"residual": "d" * 64},
        terms=TERMS,
        validity=(),
        published="2026-01-02",
        program="Counterslope 0.1.0",
    )


@pytest.mark.parametrize(
    ("dataset", "photos", "expected"),
    [
        ("cc-by-nc-4.0", "cc-by-nc-4.0", "cc-by-nc-4.0"),
        ("cc-by-nc-4.0", "cc0-1.0", "cc-by-nc-4.0"),
        ("cc-by-nc-4.0", "CC-BY-NC-ND-4.0", "CC-BY-NC-ND-4.0"),
        # Freer than the weights allow: both terms apply.
        ("cc-by-4.0", "cc-by-4.0", f"cc-by-4.0; {TERMS}"),
        ("cc0-1.0", "cc0-1.0", TERMS),
        ("ask us", "cc-by-nc-4.0", "ask us; cc-by-nc-4.0"),
    ],
)
def test_licence_is_never_freer_than_photos_and_weights(dataset, photos, expected):
    stated = facts(licence=dataset, source_licence=photos)
    assert licence_of(stated).words == expected
    assert json.loads(croissant(stated))["license"] == expected
    card = dataset_card(stated)
    if ";" in expected or " " in expected:
        assert f"license: other\nlicense_name: {json.dumps(expected)}" in card
    else:
        assert f'license: "{expected.lower()}"' in card
    assert f"* Licence of the photos: {photos}\n* Licence of the dataset: {dataset}" in card


def test_unstated_licences_are_named():
    assert licence_of(facts()).words == (
        f"licence of the dataset not stated; licence of the source photos not stated; {TERMS}"
    )


@pytest.mark.parametrize(
    ("editor", "words"),
    [
        ("residual", f"residual (Counterslope, weights sha256 {'d' * 64})"),
        ("python:mine:edit", "not a part of Counter"),
    ],
)
def test_description_names_the_editor(editor, words):
    assert words in json.loads(croissant(facts(editor=editor)))["rai:dataManipulationProtocol"]


def test_texts_of_the_user_are_escaped():
    hostile = facts(
        source="a\x1b[31m <b>", creator='we "us"', licence='say "hi"\nlicense: mit', url="https://x.example"
    )
    card = dataset_card(hostile)
    assert "\x1b" not in card
    assert "\nlicense: mit" not in card
    assert "# faces \\<\\&\\> \\*é\\*" in card
    described = json.loads(croissant(hostile))
    assert described["creator"]["name"] == 'we "us"'
    assert described["url"] == "https://x.example"
    assert described["recordSet"][0]["field"][-1]["source"]["extract"] == {"column": 'per|son "x"'}
    assert '| `per\\|son "x"` |' in card
