"""An audit of a few portraits of the embedded sample, from photos to the report."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pytest
from finished_run import tables_of

from pipeline.config.sources import load_settings
from pipeline.photos.listing import NoUsablePhotos
from pipeline.run.folder import Run
from pipeline.run.record import RunError
from pipeline.run.tables import CHECKS, read_frame
from pipeline.stages.audit import audit, estimate_run, make_counterfactuals, query_run, start_run

PORTRAITS = 5
STAGES_BY_PHOTO = {"photos", "faces", "counterfactuals", "checks", "tables", "report"}


@pytest.fixture(scope="module")
def portraits(sample_folder) -> Path:
    folder = sample_folder(PORTRAITS)
    (folder / "notes.txt").write_text("not a photo")
    return folder


@pytest.fixture(scope="module")
def settings():
    return load_settings(
        given={
            "sweep": {"attributes": ["gender", "race"], "steps": {"gender": 3, "race": 3}, "placebos": []},
            "query": {"adapters": ["opencv", "face-attributes"]},
            "statistics": {"min_count": 1, "resamples": 100},
        },
        environment={},
    )


@pytest.fixture(scope="module")
def bar_updates() -> dict[str, list[float]]:
    """Stage -> the advances of its progress bar and, last, its total, for the audit ``run``."""
    return {}


@pytest.fixture(scope="module")
def run(portraits: Path, settings, bar_updates, tmp_path_factory: pytest.TempPathFactory) -> Run:
    @contextmanager
    def watch(stage: str, *, total: int) -> Iterator[Callable[..., None]]:
        bar_updates[stage] = []
        yield lambda count, note="": bar_updates[stage].append(count)
        bar_updates[stage].append(total)

    return audit([portraits], tmp_path_factory.mktemp("runs") / "audit", settings=settings, given={}, watch=watch)


def test_progress_bars_advance_by_photo_to_their_total(run: Run, bar_updates: dict[str, list[float]]) -> None:
    for stage, (*moves, total) in bar_updates.items():
        assert sum(moves) == pytest.approx(total), stage
        assert max(moves) <= 1 or stage not in STAGES_BY_PHOTO, stage  # other stages advance by batches
    assert set(bar_updates) >= STAGES_BY_PHOTO
    assert len(bar_updates["counterfactuals"]) > 2 * PORTRAITS  # by sweep


def test_every_file_is_counted_in_every_stage(run: Run) -> None:
    photos = read_frame(run.path("photos.parquet"))
    assert len(photos) == PORTRAITS + 1
    assert photos.set_index("photo").at["notes.txt", "status"] != "ok"
    for stage in ("photos", "faces", "counterfactuals", "query"):
        counts = run.record.stages[stage].counts
        assert counts["planned"] == counts["ok"] + counts["failed"] + counts["excluded"], stage
    assert read_frame(run.path("faces.parquet"))["status"].eq("ok").all()


def test_versions_differ_from_the_photo_inside_the_mask_only(run: Run) -> None:
    versions = read_frame(run.path("counterfactuals.parquet"))
    paths = read_frame(run.path("photos.parquet")).set_index("photo")["path"]
    for (photo, _), sweep in versions.groupby(["photo", "attribute"]):
        original = cv2.imread(str(paths[photo]))
        images = [cv2.imread(str(run.path(file))) for file in sweep["file"]]
        changed = np.any([(image != original).any(axis=2) for image in images], axis=0)
        mask = cv2.imread(str(run.path(sweep["mask"].iloc[0])), cv2.IMREAD_UNCHANGED)
        assert not changed[mask == 0].any()
        assert (mask > 0).mean() == pytest.approx(sweep["mask_share"].iloc[0])
        assert 0 < changed.mean() < 0.5
    assert versions["background_kept"].eq(1.0).all()


def test_image_files_agree_with_the_table(run: Run) -> None:
    versions = read_frame(run.path("counterfactuals.parquet"))
    assert len(versions) == PORTRAITS * 6
    for row in versions.itertuples():
        assert sha256(run.path(row.file).read_bytes()).hexdigest() == row.sha256
    metadata = pd.read_csv(run.path("images/metadata.csv"))
    assert all(run.path("images").joinpath(name).is_file() for name in metadata["file_name"])


def test_report_and_record_are_complete(run: Run) -> None:
    page = run.path("report.html").read_text(encoding="utf-8")
    assert "opencv" in page
    assert "perceived gender" in page
    record = json.loads(run.path("run.json").read_text())
    assert {"residual", "tone"} <= set(record["weights"])
    assert "fader" not in record["weights"]
    assert record["settings"]["sweep"]["steps"]["race"] == 3
    assert all(stage["state"] == "done" for stage in record["stages"].values())
    assert all(stage["seconds"] >= 0 and stage["peak_mib"] > 0 for stage in record["stages"].values())
    assert not run.path("parts").exists()


def test_validity_card_in_the_record_equals_its_table(run: Run) -> None:
    card = run.read_csv("validity")
    recorded = json.loads(run.path("run.json").read_text())["validity"]
    keys = [(check["attribute"], check["name"]) for check in recorded]
    assert keys == list(zip(card["attribute"], card["name"], strict=True))
    for check, row in zip(recorded, card.to_dict("records"), strict=True):
        assert check["passed"] in (True, False, None)
        assert check["passed"] == (None if pd.isna(row["passed"]) else row["passed"])
        assert check["figure"] == (row["figure"] if np.isfinite(row["figure"]) else None)
    by_name = {(check["attribute"], check["name"]): check["passed"] for check in recorded}
    assert by_name["gender", "background"] is by_name["race", "background"] is True
    assert by_name["gender", "null edit"] is True
    assert {"effect", "crossing", "seam", "identity", "off-target: young"} <= {name for _, name in by_name}


def test_tables_of_lightness_and_failing_photos(run: Run) -> None:
    lightness = run.read_csv("lightness")
    assert set(lightness["attribute"]) == {"gender", "race"}
    assert set(lightness.loc[lightness["value"] == 0, "change"]) == {0}
    groups = lightness.drop_duplicates(["attribute", "group"])
    assert groups.groupby("attribute")["photos"].sum().to_dict() == {"gender": PORTRAITS, "race": PORTRAITS}
    failures = run.read_csv("photo_failures")
    assert list(failures.columns) == ["photo", "attribute", "arm", "check", "figure", "threshold"]
    versions = read_frame(run.path("counterfactuals.parquet"))
    assert set(failures["photo"]) <= set(versions["photo"])
    clipped = versions[versions["clipped_share"] > run.record.settings.validity.clipped]
    assert set(failures.loc[failures["check"] == "clipping", "photo"]) == set(clipped["photo"])


def test_checks_of_the_image_sample_are_kept(run: Run) -> None:
    assert read_frame(run.path("checks.parquet")).columns.tolist() == list(CHECKS)
    assert run.record.stages["checks"].state == "done"
    card = {(check.attribute, check.name): check for check in run.record.validity}
    assert card["gender", "detection"].passed is None, "five faces are too few"
    assert card["gender", "stencil"].passed is None


def test_placebos_are_made_queried_and_estimated(portraits: Path, settings, tmp_path: Path) -> None:
    sweep = settings.sweep.model_copy(update={"attributes": ("gender",), "placebos": ("random", "colour")})
    query = settings.query.model_copy(update={"adapters": ("opencv",)})
    options = settings.model_copy(update={"sweep": sweep, "query": query})
    two = sorted(portraits.glob("*.jpg"))[:2]
    audited = audit(two, tmp_path / "run", settings=options, given={})
    arms = {"edit", "random", "colour"}
    assert audited.record.stages["counterfactuals"].counts["ok"] == 2 * 3 * len(arms)
    for table in ("counterfactuals", "answers"):
        rows = read_frame(audited.path(f"{table}.parquet"))
        assert rows["arm"].value_counts().to_dict() == dict.fromkeys(arms, 2 * 3)
    for table in ("effectiveness", "lightness", "slopes", "curves"):
        frame = audited.read_csv(table)
        assert set(frame["arm"]) == arms, table
    card = {check.name: check for check in audited.record.validity}
    assert {"placebo: random", "placebo: colour"} <= set(card)
    metadata = pd.read_csv(audited.path("images/metadata.csv"))
    assert set(metadata["arm"]) == arms
    assert all(audited.path("images").joinpath(name).is_file() for name in metadata["file_name"])


def test_other_validity_thresholds_repeat_no_earlier_stage(run: Run, tmp_path: Path) -> None:
    before = json.loads(run.path("run.json").read_text())["stages"]
    shutil.copytree(run.folder, tmp_path / "copy")
    changed = estimate_run(tmp_path / "copy", changes={"validity": {"off_target": 1.0, "clipped": 1.0}})
    stages = changed.record.plain()["stages"]
    assert all(stages[name] == before[name] for name in ("photos", "faces", "counterfactuals", "query"))
    assert stages["tables"]["fingerprint"] != before["tables"]["fingerprint"]
    card = {(check.attribute, check.name): check for check in changed.record.validity}
    assert card["gender", "clipping"].threshold == 1.0
    assert card["gender", "off-target: young"].passed is True


def test_repeated_audit_does_nothing(run: Run, portraits: Path, settings) -> None:
    before = tables_of(run.folder)
    stages = json.loads(run.path("run.json").read_text())["stages"]
    continued = audit([portraits], run.folder, settings=settings, given={})
    assert tables_of(run.folder) == before
    assert continued.record.plain()["stages"] == stages


def test_other_finding_thresholds_load_no_classifier(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a classifier was made")

    monkeypatch.setattr("adapters.registry.create", fail)
    changed = estimate_run(run.folder, changes={"statistics": {"max_p": 0.5, "min_slope": 0.0}})
    assert changed.record.settings.statistics.max_p == 0.5
    assert changed.record.stages["query"] == run.record.stages["query"]
    assert run.path("report.html").exists()


def test_versions_of_packages_are_recorded(run: Run) -> None:
    record = json.loads(run.path("run.json").read_text())
    assert record["packages"]["torch"]
    assert record["packages"]["counterslope"] in run.path("report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("perform", [query_run, estimate_run])
def test_folder_that_is_not_a_run_keeps_its_files(perform, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(RunError):
        perform(tmp_path, changes={})
    assert (tmp_path / "report.html").read_text() == "mine"


def test_versions_are_independent_of_the_output_folder(run: Run, portraits: Path, settings, tmp_path: Path) -> None:
    other = Run(tmp_path / "other")
    make_counterfactuals(start_run(other, [portraits], settings=settings, given={}))
    versions = read_frame(run.path("counterfactuals.parquet"))
    assert read_frame(tmp_path / "other" / "counterfactuals.parquet").equals(versions)


def test_folder_without_photos_raises(tmp_path: Path, settings) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "notes.txt").write_text("no photo")
    with pytest.raises(NoUsablePhotos, match="none of the 1 files"):
        audit([tmp_path / "in"], tmp_path / "out", settings=settings, given={})


def test_output_folder_that_is_not_a_run_raises(portraits: Path, settings) -> None:
    with pytest.raises(RunError, match="not a run"):
        audit([portraits], portraits, settings=settings, given={})
