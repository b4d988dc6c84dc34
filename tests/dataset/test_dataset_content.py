"""The files of a dataset: splits, images, metadata, card, checksums, and no private information."""

import shutil

import numpy as np
import pytest
from small_dataset import (
    DATASET,
    PORTRAITS,
    STEPS,
    SWEEP,
    content_of,
    copy_dataset,
    info_of,
    make,
    pixels_of,
    rows_of,
    verify_checksums,
)

from pipeline.config.options import ConfigError
from pipeline.config.sources import load_settings
from pipeline.dataset.make import make_dataset
from pipeline.run.tables import read_frame


def test_progress_bars_reach_their_totals(dataset, bars):
    assert {"faces", "counterfactuals", "dataset"} <= set(bars)
    assert all(total == progress for total, progress in bars.values()), bars


def test_images_of_a_person_are_in_one_split(dataset, portraits):
    rows = rows_of(dataset.folder)
    assert len(rows) == PORTRAITS * STEPS == dataset.facts.images
    splits = {}
    for row in rows:
        splits.setdefault(row["photo_sha256"], set()).add(row["split"])
    assert {len(found) for found in splits.values()} == {1}
    for first, second in zip(portraits.names[::2], portraits.names[1::2], strict=True):
        assert splits[portraits.sha256(first)] == splits[portraits.sha256(second)]


def test_pixels_are_those_of_an_audit(dataset, audit_run, portraits):
    files = read_frame(audit_run.path("counterfactuals.parquet")).set_index(["photo", "step"])
    names = {portraits.sha256(name): name for name in portraits.names}
    for row in rows_of(dataset.folder):
        audited = files.loc[(names[row["photo_sha256"]], int(row["step"]))]
        np.testing.assert_array_equal(pixels_of(row["path"]), pixels_of(audit_run.path(audited["file"])))
        assert (dataset.folder / row["mask"]).read_bytes() == audit_run.path(audited["mask"]).read_bytes()


def test_images_have_provenance_and_those_of_an_audit_have_none(dataset, audit_run):
    for row in rows_of(dataset.folder):
        packet = info_of(row["path"])["xmp"]
        text = packet.decode() if isinstance(packet, bytes) else packet
        assert row["photo_sha256"] in text
        assert dataset.run.record.weights["residual"] in text
        assert "compositeWithTrainedAlgorithmicMedia" in text
    for path in audit_run.path("images").rglob("*.png"):
        assert not info_of(path)


def test_no_private_file_or_folder_name_is_published(dataset, portraits):
    private = [str(portraits.manifest.parent), "jane-doe", "private-folder", str(dataset.folder.parent)]
    for name, content in content_of(dataset.folder).items():
        for text in private:
            assert text.encode() not in content, name
            assert text not in name


def test_photo_names_are_published_on_request(portraits, dataset, tmp_path):
    named = make(portraits.manifest, copy_dataset(dataset, tmp_path), photo_names=True)
    assert {row["photo"] for row in rows_of(named.folder)} == set(portraits.names)
    assert named.run.record.stages["counterfactuals"] == dataset.run.record.stages["counterfactuals"]


def test_checksums_are_correct_and_complete(dataset):
    verify_checksums(dataset.folder)
    listed = {line.split("  ", 1)[1] for line in (dataset.folder / "SHA256SUMS").read_text().splitlines()}
    assert listed == set(content_of(dataset.folder)) - {"SHA256SUMS"}


def test_checksums_include_masks_of_every_attribute(portraits, tmp_path):
    shutil.copy(portraits.manifest.parent / portraits.names[0], tmp_path / "a.jpg")
    sweep = {"attributes": ["gender", "race"], "steps": {"gender": STEPS, "race": STEPS}}
    settings = load_settings(given={"sweep": sweep}, environment={})
    folder = make_dataset([tmp_path / "a.jpg"], tmp_path / "faces", settings=settings, given={}).folder
    listed = (folder / "SHA256SUMS").read_text().split()[1::2]
    assert len(list(folder.glob("masks/*"))) > 1
    assert sorted(listed) == sorted(name for name in content_of(folder) if name != "SHA256SUMS")


def test_card_states_validity_licence_and_weights(dataset):
    card = (dataset.folder / "README.md").read_text(encoding="utf-8")
    assert dataset.facts.validity_counts in card
    assert all(text in dataset.facts.validity_counts for text in ("checks: ", " hold, ", " fail, ", " not measured"))
    assert card.startswith("---\n")
    assert "not stated: state it before you publish" in card
    for text in ("license: other", "non-commercial", "Opting out", "off-target: young"):
        assert text in card
    assert all(sha256 in card for sha256 in dataset.run.record.weights.values())


def test_images_have_the_estimated_value_of_their_photo(dataset, portraits):
    faces = read_frame(dataset.run.path("faces.parquet")).set_index("photo")["gender"]
    own = {portraits.sha256(name): faces[name] for name in portraits.names}
    for row in rows_of(dataset.folder):
        assert float(row["estimated_gender"]) == pytest.approx(own[row["photo_sha256"]], abs=1e-4)


def test_originals_and_manifest_columns_are_published_on_request(portraits, dataset, tmp_path):
    more = make(portraits.manifest, copy_dataset(dataset, tmp_path), originals=True, columns=["person"])
    rows = rows_of(more.folder)
    assert {row["person"] for row in rows} == {f"person {number}" for number in range(PORTRAITS // 2)}
    originals = {row["photo_sha256"]: row for row in rows if row["attribute"] == "original"}
    assert set(originals) == {portraits.sha256(name) for name in portraits.names}
    assert len(rows) == PORTRAITS * (STEPS + 1)
    assert more.facts.images == PORTRAITS * STEPS
    for row in rows:
        if row["attribute"] == "gender":
            outside = pixels_of(more.folder / row["mask"]) == 0
            original = originals[row["photo_sha256"]]
            np.testing.assert_array_equal(pixels_of(row["path"])[outside], pixels_of(original["path"])[outside])
            assert original["split"] == row["split"]
            assert not info_of(original["path"])
    verify_checksums(more.folder)
    without = make(portraits.manifest, more.folder)
    assert content_of(without.folder) == content_of(dataset.folder)


def test_missing_manifest_column_is_refused(portraits, tmp_path):
    with pytest.raises(ConfigError, match="no column 'name' to publish; it has person"):
        make(portraits.manifest, tmp_path / "faces", columns=["name"])


def test_jpeg_quality_is_stated_and_images_have_provenance(portraits, tmp_path):
    given = {"sweep": SWEEP | {"image_format": "jpeg", "jpeg_quality": 60}}
    photo = portraits.manifest.parent / portraits.names[0]
    settings = load_settings(given=given | {"dataset": DATASET}, environment={})
    with pytest.raises(ConfigError, match="no column 'person'"):
        make_dataset([photo], tmp_path / "set", settings=settings, given={})
    settings = load_settings(given=given, environment={})
    jpeg = make_dataset([photo], tmp_path / "set", settings=settings, given={})
    assert "JPEG of quality 60" in (jpeg.folder / "README.md").read_text(encoding="utf-8")
    images = list(jpeg.folder.rglob("*.jpg"))
    assert len(images) == STEPS
    assert all(portraits.sha256(portraits.names[0]) in str(info_of(path)["xmp"]) for path in images)
