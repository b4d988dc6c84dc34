import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pipeline.config.options import ConfigError, Settings
from pipeline.config.sources import load_settings
from pipeline.config.sweep_options import SweepOptions
from pipeline.run.folder import Run, settings_of
from pipeline.stages.adapters import make_adapters

# Values of an option by source, from the weakest source to the strongest.
REACH = {"default": 2.0, "environment": 1.25, "file": 1.5, "command line": 1.75}
EFFECT = {"default": 0.4, "environment": 0.25, "file": 0.5, "command line": 0.75}


def load(folder, *, environment=None, toml=None, **given):
    file = None
    if toml is not None:
        file = folder / "options.toml"
        file.write_text(toml, encoding="utf-8")
    return load_settings(given=given, file=file, environment=environment or {})


# Precedence


@pytest.mark.parametrize(("section", "option", "values"), [("sweep", "reach", REACH), ("validity", "effect", EFFECT)])
@pytest.mark.parametrize("sources", list(itertools.combinations(REACH, 2)))
def test_stronger_source_wins(tmp_path, sources, section, option, values):
    variable = f"COUNTERSLOPE_{section}__{option}".upper()
    settings = load(
        tmp_path,
        environment={variable: str(values["environment"])} if "environment" in sources else {},
        toml=f"[{section}]\n{option} = {values['file']}" if "file" in sources else None,
        **{section: {option: values["command line"] if "command line" in sources else None}},
    )
    assert getattr(getattr(settings, section), option) == values[sources[1]]


def test_sources_are_merged_by_option(tmp_path):
    settings = load(
        tmp_path,
        environment={"COUNTERSLOPE_SWEEP__FEATHER": "0.05", "COUNTERSLOPE_STATISTICS__SEED": "7"},
        toml='[sweep]\nmode = "reconstruction"\neditor = "fader"\nreach = 1.5',
        sweep={"reach": 1.0, "mode": None},
    )
    assert (settings.sweep.feather, settings.sweep.mode, settings.sweep.reach) == (0.05, "reconstruction", 1.0)
    assert settings.statistics.seed == 7
    assert settings.photos == Settings().photos


def test_environment_of_the_process_is_the_default(monkeypatch):
    monkeypatch.setenv("COUNTERSLOPE_FACES__MIN_SCORE", "0.5")
    assert load_settings(given={}).faces.min_score == 0.5


def test_other_variables_are_ignored(tmp_path):
    settings = load(tmp_path, environment={"COUNTERSLOPE_DATA": "/photos", "HOME": "/", "SWEEP__REACH": "1"})
    assert settings == Settings()


# Lists and tables from the environment


@pytest.mark.parametrize("text", ["gender,race", " gender , race ", "gender,race,"])
def test_list_in_the_environment_is_separated_by_commas(tmp_path, text):
    settings = load(tmp_path, environment={"COUNTERSLOPE_SWEEP__ATTRIBUTES": text})
    assert settings.sweep.attributes == ("gender", "race")


def test_lists_tables_and_paths_come_from_the_environment(tmp_path):
    settings = load(
        tmp_path,
        environment={
            "COUNTERSLOPE_SWEEP__POLES": '{"race": ["Asian", "White"]}',
            "COUNTERSLOPE_QUERY__OPTIONS": '{"opencv": {"min_size": 30}}',
            "COUNTERSLOPE_QUERY__ADAPTERS": "python:my.module:ask",
            "COUNTERSLOPE_SWEEP__PLACEBOS": "random, colour",
            "COUNTERSLOPE_SWEEP__PARSER": "bisenet",
            "COUNTERSLOPE_SWEEP__PARSER_WEIGHTS": "weights/79999_iter.pth",
        },
    )
    assert settings.sweep.poles["race"] == ("Asian", "White")
    assert settings.query.options == {"opencv": {"min_size": 30}}
    assert settings.query.adapters == ("python:my.module:ask",)
    assert settings.sweep.placebos == ("random", "colour")
    assert settings.sweep.arms == ("edit", "random", "colour")
    assert (settings.sweep.parser, settings.sweep.parser_weights) == ("bisenet", Path("weights/79999_iter.pth"))


def test_table_comes_from_a_file(tmp_path):
    settings = load(tmp_path, toml='[query]\nadapters = ["opencv"]\n[query.options.opencv]\nmin_size = 30')
    assert settings.query.options == {"opencv": {"min_size": 30}}


def test_options_of_adapters_are_merged_by_option(tmp_path):
    toml = "[query.options.google]\nmax_results = 20\nfaces = true\n[query.rate]\nazure = 2"
    settings = load(tmp_path, toml=toml, query={"options": {"google": {"faces": False}}, "rate": {"google": 5}})
    assert settings.query.options == {"google": {"max_results": 20, "faces": False}}
    assert settings.query.rate == {"azure": 2, "google": 5}


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        ({"query": {"options": {"gogle": {"faces": True}}}}, "options.gogle.faces: the adapter gogle is not queried"),
        ({"toml": "[query.options.azure]\ncaptions = true"}, "query.options.azure.captions"),
        ({"environment": {"COUNTERSLOPE_QUERY__OPTIONS": '{"clip": {"labels": ["a"]}}'}}, "query.options.clip.labels"),
        ({"query": {"price": {"*": 1.0, "azure": 2.0}}}, "query.price.azure"),
        ({"query": {"rate": {"azure": 2.0}}}, "query.rate.azure"),
        ({"query": {"concurrency": {"azure": 2}}}, "query.concurrency.azure"),
        ({"query": {"adapters": ["opencv", "google", "opencv"]}}, "opencv is named twice"),
    ],
)
def test_options_of_an_adapter_that_is_not_queried_are_refused(tmp_path, sources, words):
    sources = {**sources, "query": {"adapters": ["opencv", "google"], **sources.get("query", {})}}
    with pytest.raises(ConfigError) as caught:
        make_adapters(load(tmp_path, **sources), tmp_path)
    assert words in str(caught.value)
    assert "twice" in words or "only opencv, google" in str(caught.value)


def test_other_adapters_drop_options_of_the_earlier_ones(tmp_path):
    run = Run(tmp_path / "run")
    query = {"adapters": ["google", "azure"], "options": {"google": {"faces": True}}, "rate": {"azure": 2.0, "*": 3.0}}
    run.note(settings=load(tmp_path, query=query))
    again = settings_of(run, {"query": {"adapters": None, "options": {"google": {"max_results": 5}}}}).query
    assert again.options == {"google": {"faces": True, "max_results": 5}}
    others = settings_of(run, {"query": {"adapters": ["clip"], "options": {"clip": {"top_k": 1}}}}).query
    assert (others.options, others.rate) == ({"clip": {"top_k": 1}}, {"*": 3.0})
    others.check_adapters()


# Errors


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        ({"engine": {"workers": 0}}, ["engine.workers", "must be in 1-1024, not 0"]),
        ({"dataset": {"split": {"learn": 1}}}, ["dataset.split.learn (", "must be train | validation | test, not"]),
        ({"photos": {"opt_out": 3}}, ["photos.opt_out (from the command line): must be text or path, not 3"]),
        ({"sweep": {"poles": {"race": ["Black"]}}}, ["sweep.poles.race.1", "is required"]),
        ({"sweep": {"reach": 9}}, ["sweep.reach", "the command line", "must be more than 0 and at most 4, not 9"]),
        ({"toml": "[sweep]\nreach = 9"}, ["sweep.reach", "options.toml"]),
        ({"environment": {"COUNTERSLOPE_SWEEP__REACH": "far"}}, ["sweep.reach", "the environment", "number"]),
        ({"toml": "[sweep]\nstep = 5"}, ["sweep.step", "options.toml", "there is no such"]),
        ({"environment": {"COUNTERSLOPE_SWEEP__STEP": "5"}}, ["sweep.step", "the environment"]),
        ({"toml": "[sweeps]\nreach = 1"}, ["sweeps", "options.toml", "there is no such"]),
        ({"toml": "[sweeps]"}, ["sweeps", "options.toml", "there is no such"]),
        ({"environment": {"COUNTERSLOPE_SWEEPS__REACH": "1"}}, ["sweeps", "the environment"]),
        ({"toml": "reach = 1"}, ["'reach'", "options.toml", "belongs to no section"]),
        ({"sweep": {"steps": {"gender": 6}}}, ["sweep.steps", "the command line", "odd"]),
        ({"sweep": {"attributes": ("gender", "gender")}}, ["sweep", "the command line", "only once"]),
        ({"sweep": {"attributes": ()}}, ["sweep", "the command line", "at least one"]),
        ({"sweep": {"attributes": ("hat",)}}, ["sweep.attributes", "the command line", "gender, race, skin-tone, age"]),
        ({"sweep": {"attributes": ("gender*gender",)}}, ["sweep.attributes", "the command line", "two different"]),
        ({"sweep": {"attributes": ("race*skin-tone",)}}, ["sweep.attributes", "both attributes change skin colour"]),
        ({"sweep": {"attributes": ("age",), "editor": "fader"}}, ["sweep", "cannot change age; editor 'residual' can"]),
        ({"sweep": {"attributes": ("gender*race",), "editor": "fader"}}, ["sweep", "only editor 'residual'"]),
        ({"sweep": {"placebos": ("colour", "colour")}}, ["sweep", "the command line", "each placebo", "only once"]),
        ({"sweep": {"placebos": ("shape",)}}, ["sweep.placebos.0", "the command line", "must be random | colour"]),
        ({"sweep": {"parser": "bisenet"}}, ["sweep", "the command line", "needs a file of weights"]),
        ({"sweep": {"parser_weights": "a.pth"}}, ["sweep", "the command line", "and no other"]),
        ({"toml": "[validity]\neffect = 1.5"}, ["validity.effect", "options.toml", "must be in 0-1"]),
        ({"toml": "[validity]\nseam = 0"}, ["validity.seam", "options.toml", "must be more than 0"]),
        ({"toml": "[validity]\nsmallest_group = 1"}, ["validity.smallest_group", "must be at least 2"]),
        ({"environment": {"COUNTERSLOPE_VALIDITY__IDENTITY": "-2"}}, ["validity.identity", "the environment"]),
        (
            {"sweep": {"poles": {"race": ("White", "White")}}},
            ["sweep.poles", "the command line, --race-pair", "must differ"],
        ),
        ({"environment": {"COUNTERSLOPE_QUERY__OPTIONS": "{"}}, ["COUNTERSLOPE_QUERY__OPTIONS", "Expecting"]),
        ({"toml": "[sweep\n"}, ["options.toml", "not TOML"]),
    ],
)
def test_error_names_option_and_source(tmp_path, sources, words):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, **sources)
    for word in words:
        assert word in str(caught.value)


def test_error_names_the_source_that_won(tmp_path):
    with pytest.raises(ConfigError, match=r"^sweep\.reach \(from the command line\)"):
        load(tmp_path, toml="[sweep]\nreach = 1", sweep={"reach": 9})
    with pytest.raises(ConfigError, match=r"options\.toml\)"):
        load(tmp_path, toml="[sweep]\nreach = 9", sweep={"reach": None}, photos={"long_side": None})


def test_all_wrong_options_are_reported(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, sweep={"reach": 9}, statistics={"max_p": 2})
    assert [line.split(" ")[0] for line in str(caught.value).splitlines()] == ["sweep.reach", "statistics.max_p"]


def test_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"gone\.toml cannot be read: No such file"):
        load_settings(given={}, file=tmp_path / "gone.toml", environment={})


def test_nan_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"statistics\.presence_threshold"):
        load(tmp_path, environment={"COUNTERSLOPE_STATISTICS__PRESENCE_THRESHOLD": "nan"})


# The values of a sweep


@given(half=st.integers(1, 60), reach=st.floats(0.01, 4))
def test_values_are_symmetric_around_exactly_0(half, reach):
    values = SweepOptions(steps={"gender": 2 * half + 1}, reach=reach).values("gender")
    assert len(values) == 2 * half + 1
    assert values[half] == 0
    assert [-value for value in reversed(values)] == list(values)
    assert values[-1] == pytest.approx(reach)
    assert list(values) == sorted(values)


def test_default_values_of_gender_and_race():
    assert SweepOptions().values("gender") == pytest.approx((-2, -4 / 3, -2 / 3, 0, 2 / 3, 4 / 3, 2))
    assert SweepOptions().values("race") == (-2, -1, 0, 1, 2)


def test_settings_are_frozen():
    settings = Settings()
    with pytest.raises(ValidationError, match="frozen"):
        settings.sweep.reach = 1.0
    with pytest.raises(ValidationError, match="frozen"):
        settings.sweep = SweepOptions()


def test_placebos_are_default_and_can_be_omitted():
    assert SweepOptions().arms == ("edit", "random", "colour")
    assert SweepOptions(placebos=()).arms == ("edit",)
    assert load_settings(given={}, environment={"COUNTERSLOPE_SWEEP__PLACEBOS": "none"}).sweep.placebos == ()
    assert SweepOptions(reach=1.5).values("gender", "random") == (-1.5, 0, 1.5)


def test_default_thresholds_of_the_card():
    goals = Settings().validity
    assert (goals.effect, goals.monotone, goals.off_target) == (0.40, 0.85, 0.05)
    assert (goals.null_psnr, goals.null_ssim, goals.seam) == (26.0, 0.85, 0.10)


def test_settings_round_trip_through_json():
    sweep = {"attributes": ("race",), "reach": 1.5, "placebos": ("random",)}
    sweep |= {"parser": "bisenet", "parser_weights": Path("weights.pth")}
    settings = load_settings(given={"sweep": sweep, "validity": {"effect": 0.3}}, environment={})
    assert json.loads(json.dumps(settings.model_dump(mode="json")))["sweep"]["parser_weights"] == "weights.pth"
    assert Settings.model_validate(settings.model_dump(mode="json")) == settings
