import csv

import pandas as pd

from pipeline.config.attributes import ATTRIBUTES, EDIT_ARM
from pipeline.config.sources import load_settings
from pipeline.counterfactuals.files import METADATA_COLUMNS, write_metadata
from pipeline.dataset.content import DatasetContent
from pipeline.dataset.metadata import write_dataset_metadata
from pipeline.run.folder import Run
from pipeline.run.image_store import ImageStore
from pipeline.run.tables import COUNTERFACTUALS, to_table, write_table


def version(photo, step, *, status="ok", file=None, attribute="gender", **facts):
    row = {"attribute": attribute, "arm": EDIT_ARM, "photo": photo, "step": step, "value": step - 2.0, "status": status}
    if status == "ok":
        row |= {"file": file or f"images/gender/{photo}-0a1b2c3d/step{step}.png", "sha256": f"{step:064x}"}
    return row | facts


def table(rows, folder):
    write_table(to_table(rows, COUNTERFACTUALS), folder / "counterfactuals.parquet")
    return folder / "counterfactuals.parquet"


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(rows, folder):
    write_metadata(table(rows, folder), ImageStore(folder))
    return rows_of(folder / "images" / "metadata.csv")


def test_every_version_has_a_row_with_its_file(tmp_path):
    rows = [version("a.jpg", step) for step in (1, 2, 3)] + [version('odd, "name" ü.jpg', 1)]
    for row in rows:
        (tmp_path / row["file"]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / row["file"]).write_bytes(b"pixels")
    found = write([*rows, version("gone.jpg", 1, status="excluded")], tmp_path)
    assert [row["photo"] for row in found] == ["a.jpg"] * 3 + ['odd, "name" ü.jpg']
    assert all((tmp_path / "images" / row["file_name"]).is_file() for row in found)
    assert found[1] == {
        "file_name": "gender/a.jpg-0a1b2c3d/step2.png", "photo": "a.jpg", "attribute": "gender", "arm": EDIT_ARM,
        "step": "2", "value": "0.0", "sha256": f"{2:064x}",
    }  # fmt: skip


def test_run_without_versions_has_only_the_header(tmp_path):
    assert write([version("gone.jpg", 1, status="excluded")], tmp_path) == []
    assert (tmp_path / "images" / "metadata.csv").read_text() == ",".join(METADATA_COLUMNS) + "\n"


def test_metadata_file_is_replaced(tmp_path):
    write([version("old.jpg", 1)], tmp_path)
    first = write([version("a.jpg", step) for step in (1, 2, 3)], tmp_path)
    again = write([version("a.jpg", step) for step in (1, 2, 3)], tmp_path)
    assert first == again
    assert [path.name for path in (tmp_path / "images").iterdir()] == ["metadata.csv"]


def test_dataset_metadata_has_one_file_per_split(tmp_path):
    judged = {"judge_masculine": 0.25, "judge_race_White": 0.3, "judge_race_Black": 0.1, "mask": "masks/0a.png"}
    checked = {"mask_share": 0.125, "mask_line": 0.0}
    rows = [
        version("a.jpg", 1, file="train/gender-step1/0a-gender-step1.png", **judged, **checked),
        version("a.jpg", 1, file="train/race-step1/0a-race-step1.png", attribute="race", **judged, **checked),
        version("b.jpg", 1, file="test/gender-step1/0b-gender-step1.png", **judged, **checked),
        version("c.jpg", 1, status="excluded"),
    ]
    photos = pd.DataFrame({"photo": ["a.jpg", "b.jpg", "c.jpg"], "sha256": ["0a" * 32, "0b" * 32, "0c" * 32]})
    photos["person"] = ["007", "8", None]
    faces = pd.DataFrame({"photo": ["a.jpg", "b.jpg"], "gender": [0.25, -1.0]})
    faces = faces.assign(**dict.fromkeys(ATTRIBUTES["race"].inputs, 0.1))
    table(rows, tmp_path / "run")
    (tmp_path / "run" / "run.json").write_text('{"schema": 2}')
    given = {"sweep": {"attributes": ["gender", "race"]}, "dataset": {"columns": ["person"]}}
    settings = load_settings(given=given, environment={})
    content = DatasetContent(Run(tmp_path / "run"), settings, ImageStore(tmp_path / "set"), photos, faces)
    counts = write_dataset_metadata(content.frames(), tmp_path / "set", list(content.columns))
    assert counts == {"train": 2, "test": 1}
    train, test = (rows_of(tmp_path / "set" / split / "metadata.csv") for split in ("train", "test"))
    names = [row["file_name"] for row in train]
    assert names == ["gender-step1/0a-gender-step1.png", "race-step1/0a-race-step1.png"]
    assert [row["perceived"] for row in train] == ["0.25", "0.75"]
    assert [row["photo_sha256"] for row in test] == ["0b" * 32]
    assert {row["split"] for row in train} == {"train"}
    assert {row["person"] for row in train} == {"007"}
    estimates = [(row["estimated_gender"], row["estimated_race"]) for row in (*train, *test)]
    assert estimates == [("0.25", "0.0"), ("0.25", "0.0"), ("-1.0", "0.0")]
    assert "photo" not in train[0]
