import csv

from pipeline.counterfactuals.dataset import COLUMNS, write_metadata
from pipeline.records import COUNTERFACTUALS, EDIT_ARM, to_table


def version(photo, step, *, status="ok"):
    row = {"attribute": "gender", "arm": EDIT_ARM, "photo": photo, "step": step, "value": step - 2.0, "status": status}
    if status == "ok":
        row |= {"file": f"images/gender/{photo}-0a1b2c3d/step{step}.png", "sha256": f"{step:064x}"}
    return row


def written(rows, folder):
    write_metadata(to_table(rows, COUNTERFACTUALS), folder)
    with (folder / "metadata.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_version_that_was_made_has_a_row_that_finds_its_file(tmp_path):
    images = tmp_path / "images"
    rows = [version("a.jpg", step) for step in (1, 2, 3)] + [version('odd, "name" ü.jpg', 1)]
    for row in rows:
        (tmp_path / row["file"]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / row["file"]).write_bytes(b"pixels")
    found = written([*rows, version("gone.jpg", 1, status="excluded")], images)
    assert [row["photo"] for row in found] == ["a.jpg"] * 3 + ['odd, "name" ü.jpg']
    assert all((images / row["file_name"]).is_file() for row in found)
    assert found[1] == {
        "file_name": "gender/a.jpg-0a1b2c3d/step2.png", "photo": "a.jpg", "attribute": "gender", "arm": EDIT_ARM,
        "step": "2", "value": "0.0", "sha256": f"{2:064x}",
    }  # fmt: skip


def test_a_run_without_versions_has_the_header_alone(tmp_path):
    assert written([version("gone.jpg", 1, status="excluded")], tmp_path / "images") == []
    assert (tmp_path / "images" / "metadata.csv").read_text() == ",".join(COLUMNS) + "\n"


def test_writing_again_replaces_the_file_and_leaves_nothing_else(tmp_path):
    images = tmp_path / "images"
    written([version("old.jpg", 1)], images)
    first = written([version("a.jpg", step) for step in (1, 2, 3)], images)
    again = written([version("a.jpg", step) for step in (1, 2, 3)], images)
    assert first == again
    assert [path.name for path in images.iterdir()] == ["metadata.csv"]
