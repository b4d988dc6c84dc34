"""People hidden in photos, under conditions that a classifier's predictions are then compared by."""

import json
import shutil

import cv2
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config.options import ConfigError
from pipeline.config.sources import load_settings
from pipeline.dataset.masked import mask_people
from pipeline.dataset.person import CONDITIONS, Annotations, boxes_of, hidden_pixels
from pipeline.photos import SAMPLE

SETTINGS = load_settings(given={}, environment={})
PERSON = np.zeros((40, 60), dtype=bool)
PERSON[10:30, 20:30] = True
PERSON[20:30, 20:40] = True
SHAPE = (40, 60)


def hidden(condition, people=(PERSON,)):
    return hidden_pixels(condition, people, shape=SHAPE, seed={"photo": "a"})


def test_pixels_hidden_by_each_condition():
    assert not hidden("full").any()
    assert (hidden("segment") == PERSON).all()
    assert (hidden("only-person") == ~PERSON).all()
    assert hidden("box").sum() == 20 * 20
    assert hidden("box")[10:30, 20:40].all()


def test_noise_hides_half_of_the_region():
    for condition, whole in (("noisy-segment", hidden("segment")), ("noisy-box", hidden("box"))):
        noisy = hidden(condition)
        assert not (noisy & ~whole).any()
        assert 0.35 < noisy.sum() / whole.sum() < 0.65
        assert (noisy == hidden(condition)).all()


@given(st.sampled_from(sorted(CONDITIONS)))
def test_conditions_without_people(condition):
    assert hidden(condition, people=()).all() == (condition == "only-person")


def test_each_person_has_a_box():
    other = np.zeros(SHAPE, dtype=bool)
    other[0, 0] = True
    boxes = boxes_of([PERSON, other, np.zeros(SHAPE, dtype=bool)])
    assert boxes == [(slice(10, 30), slice(20, 40)), (slice(0, 1), slice(0, 1))]


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for name, level in (("one.png", 90), ("two.png", 160), ("three.png", 30)):
        cv2.imwrite(str(folder / name), np.full((*SHAPE, 3), level, dtype=np.uint8))
    return folder


@pytest.fixture
def instances(tmp_path):
    """COCO annotations of two of the photos: a person as polygon, a person as run lengths, and a dog."""
    runs = [20 * 40 + 10, 5, 40 * 60 - 20 * 40 - 15]  # column by column
    content = {
        "categories": [{"id": 1, "name": "person"}, {"id": 2, "name": "dog"}],
        "images": [{"id": 7, "file_name": "one.png"}, {"id": 8, "file_name": "val/two.png"}],
        "annotations": [
            {"image_id": 7, "category_id": 1, "segmentation": [[20, 10, 30, 10, 30, 30, 20, 30]]},
            {"image_id": 7, "category_id": 2, "segmentation": [[0, 0, 60, 0, 60, 40, 0, 40]]},
            {"image_id": 8, "category_id": 1, "segmentation": {"counts": runs, "size": [40, 60]}},
        ],
    }
    path = tmp_path / "instances.json"
    path.write_text(json.dumps(content))
    return path


def test_annotated_people_are_hidden_and_other_photos_excluded(tmp_path, photos, instances):
    out = tmp_path / "run"
    run = mask_people([photos], out, settings=SETTINGS, conditions=["full", "segment"], annotations=instances)
    table = pd.read_parquet(out / "masked.parquet").set_index(["photo", "condition"])
    assert run.record.stages["masked"].counts == {"planned": 6, "ok": 4, "failed": 0, "excluded": 2}
    assert table.loc[("three.png", "segment"), "reason"] == "the annotations do not name this photo"
    assert table.loc[("one.png", "segment"), "hidden_share"] == pytest.approx(10 * 20 / 2400)
    assert table.loc[("two.png", "segment"), "hidden_share"] == pytest.approx(5 / 2400)
    masked = cv2.imread(str(out / table.loc[("one.png", "segment"), "file"]))
    assert (masked[10:30, 20:30] == 0).all()
    assert masked[0, 0].tolist() == [90] * 3
    assert (cv2.imread(str(out / table.loc[("one.png", "full"), "file"])) == 90).all()


def test_manifest_keeps_the_columns_of_the_photos(tmp_path, photos, instances):
    frame = pd.DataFrame({"photo": ["photos/one.png", "photos/two.png"], "gender": ["woman", "man"], "cooking": [1, 0]})
    frame.to_csv(tmp_path / "list.csv", index=False)
    mask_people([tmp_path / "list.csv"], tmp_path / "run", settings=SETTINGS, annotations=instances)
    made = pd.read_csv(tmp_path / "run" / "masked.csv")
    assert len(made) == 2 * len(CONDITIONS)
    assert set(made[made["condition"] == "box"]["gender"]) == {"woman", "man"}
    assert all((tmp_path / "run" / name).is_file() for name in made["photo"])


def test_same_call_again_writes_no_image(tmp_path, photos, instances):
    def made():
        mask_people([photos], tmp_path / "run", settings=SETTINGS, annotations=instances)
        return {path: path.stat().st_mtime_ns for path in (tmp_path / "run" / "masked").rglob("*.png")}

    assert made() == made()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"categories": [], "images": [], "annotations": []}', "\ud7ff"])
def test_invalid_annotations_are_refused(tmp_path, content):
    path = tmp_path / "instances.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match="not a COCO file"):
        Annotations(path)


def test_unknown_condition_is_refused(tmp_path, photos):
    with pytest.raises(ConfigError, match=r"no condition 'purple'; choose from full, box"):
        mask_people([photos], tmp_path / "run", settings=SETTINGS, conditions=["purple"])
    assert not (tmp_path / "run").exists()


def test_without_annotations_the_parser_finds_the_person(tmp_path):
    photo = sorted(SAMPLE.glob("*.jpg"))[0]
    shutil.copy(photo, tmp_path / "portrait.jpg")
    mask_people([tmp_path / "portrait.jpg"], tmp_path / "run", settings=SETTINGS, conditions=["segment", "box"])
    table = pd.read_parquet(tmp_path / "run" / "masked.parquet").set_index("condition")
    assert 0.2 < table.loc["segment", "hidden_share"] < table.loc["box", "hidden_share"] < 1
