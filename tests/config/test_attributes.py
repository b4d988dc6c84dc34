"""The table of attributes; a new attribute needs one row."""

import numpy as np
import pandas as pd
import pytest

from models.attributes import RACES
from pipeline.config.attributes import ATTRIBUTES, Attribute, attribute_of, source_groups
from pipeline.config.sources import ConfigError, load_settings
from pipeline.config.sweep_options import SweepOptions
from pipeline.report.words import poles_of
from pipeline.run.tables import COUNTERFACTUALS, FACES

TOY = Attribute(
    name="glasses",
    poles=("bare", "bespectacled"),
    directions=("without glasses", "with glasses"),
    default_steps=3,
    inputs=("glasses",),
    judged=("judge_glasses",),
    judged_as="glasses being perceived",
)


@pytest.fixture
def toy(monkeypatch):
    """Add one row to the table."""
    import pipeline.config.attributes
    import pipeline.config.options

    table = {**ATTRIBUTES, TOY.name: TOY}
    monkeypatch.setattr(pipeline.config.attributes, "ATTRIBUTES", table)
    monkeypatch.setattr(pipeline.config.sweep_options, "ATTRIBUTES", table)
    return TOY


def test_new_attribute_needs_one_row_of_the_table(toy):
    settings = load_settings(given={"sweep": {"attributes": ["glasses", "race"], "steps": {"race": 7}}}, environment={})
    assert settings.sweep.steps == {"glasses": 3, "race": 7}
    assert settings.sweep.poles == {"race": ("Black", "White")}
    assert settings.sweep.chosen()["glasses"] is toy
    assert settings.sweep.values("glasses") == (-2, 0, 2)
    assert settings.sweep.versions == 3 + 7 + settings.sweep.placebo_versions
    assert settings.sweep.placebo_versions == 2 * 2 * 3
    assert poles_of("glasses", settings.sweep.chosen()).with_high == "with glasses"


def test_new_attribute_is_an_option_of_the_command_line(toy, tmp_path, invoke):
    (tmp_path / "in").mkdir()

    def audit(*words):
        return invoke("audit", tmp_path / "in", "-a", "glasses,gender", "--out", tmp_path / "out", *words).output

    # The options are valid, so the audit stops at the empty folder.
    assert "in" in audit("--steps", "glasses=5")
    assert "sweep" not in audit("--steps", "glasses=5")
    assert "glasses=4 must be odd" in audit("--steps", "glasses=4")
    assert "there is no attribute 'hat'; choose from gender, race, skin-tone, age, smile, glasses" in audit("-a", "hat")


def test_columns_of_attributes_are_columns_of_a_run():
    for attribute in ATTRIBUTES.values():
        assert set(attribute.inputs) <= set(FACES)
        assert set(attribute.judged) <= set(COUNTERFACTUALS)
        for control in (*attribute.must_not_move, *attribute.may_move):
            assert set(control.columns) <= set(COUNTERFACTUALS)
            assert not set(control.columns) & set(attribute.judged)
        assert attribute.default_steps % 2 == 1
        assert len(attribute.inputs) == len(attribute.judged) == len(attribute.categories or [attribute])


def test_own_value_and_perceived_value_of_a_face():
    shares = pd.DataFrame({f"race_{race}": [0.1, 0.0] for race in RACES}).assign(
        race_Black=[0.6, 0.25], race_White=[0.2, 0.75], gender=[-0.8, 0.3]
    )
    assert ATTRIBUTES["gender"].own_value(shares).tolist() == [-0.8, 0.3]
    np.testing.assert_allclose(ATTRIBUTES["race"].own_value(shares), [-0.4, 0.5])
    np.testing.assert_allclose(ATTRIBUTES["race"].with_poles(("White", "Black")).own_value(shares), [0.4, -0.5])
    judged = shares.rename(columns=lambda name: f"judge_{name}")
    np.testing.assert_allclose(ATTRIBUTES["race"].perceived(judged), [0.25, 0.75])
    assert ATTRIBUTES["race"].classes_of(shares) == ["Black", "White"]
    assert source_groups(shares.assign(photo=["a", "b"], status=["ok", "excluded"])) == {"a": "feminine, Black"}


@pytest.mark.parametrize(
    ("name", "poles", "message"),
    [
        ("race", ("White", "White"), "must differ"),
        ("race", ("White", "Green"), "no category 'Green'; choose from White, Black"),
        ("gender", ("young", "old"), "the poles of gender are always feminine and masculine"),
    ],
)
def test_invalid_poles_are_refused(name, poles, message):
    with pytest.raises(ValueError, match=message):
        ATTRIBUTES[name].with_poles(poles)
    with pytest.raises(ConfigError, match=rf"sweep\.poles .*{message}"):
        load_settings(given={"sweep": {"poles": {name: poles}}}, environment={})


def test_own_value_of_a_measured_attribute_is_on_its_scale():
    faces = pd.DataFrame({"skin_l": [30.68, 77.90, np.nan], "age": [30.0, 60.0, 45.0]})
    tone, age = ATTRIBUTES["skin-tone"], ATTRIBUTES["age"]
    np.testing.assert_allclose(tone.own_value(faces), [-2, 2, np.nan])
    np.testing.assert_allclose(tone.perceived(faces)[:2], [0, 1], atol=1e-12)
    assert age.own_value(faces).tolist() == [0, 0, 0], "a is relative to the age of each face"
    assert age.classes_of(faces) == ["younger", "older", "older"]
    assert tone.classes_of(faces)[:2] == ["dark", "light"]


def test_intersection_is_three_sweeps_of_the_first_attribute():
    sweep = SweepOptions(attributes=("gender", "gender*race"), poles={"race": ("Asian", "White")}, steps={"gender": 5})
    swept = sweep.chosen()
    assert list(swept) == ["gender", "gender@Asian", "gender@White"]
    assert [swept[name].given and swept[name].given[1] for name in swept] == [None, -1, 1]
    assert sweep.values("gender@Asian") == sweep.values("gender") == (-2, -1, 0, 1, 2)
    assert sweep.versions == 3 * (5 + 2 * 3)
    words = poles_of("gender@Asian", swept)
    assert words.with_high == "with perceived masculinity on faces edited to perceived Asian"
    assert (words.high, words.short_high) == ("Perceived masculine", "masculine")


def test_unknown_attribute_has_neutral_words():
    words = poles_of("height", SweepOptions().chosen())
    assert (words.subject, words.high) == ("perceived height", "Perceived height, a > 0")
    assert attribute_of("height").poles == ("low", "high")
