"""The command ``local`` on a file and on a run, with given features or those of the judge."""

import json

import numpy as np
import pandas as pd
import pytest
from run_tables import write_tables

from pipeline.analyses.features import embed, judged_features, read_features
from pipeline.analyses.inputs import InputError
from pipeline.analyses.local_rows import LocalOptions, rows_of_file, rows_of_run
from pipeline.config.options import ConfigError, Settings
from pipeline.run.folder import Run
from pipeline.run.record import RunError, RunRecord, write_record

PHOTO_COUNT = 40
QUICK = ("--clusters", "2", "--min-rows", "5", "--permutations", "9")


@pytest.fixture
def file(tmp_path):
    """Two topics; the classifier is wrong for group b in the topic rain."""
    random = np.random.default_rng(0)
    topic, group = np.repeat([0, 1], 100), np.tile(["a", "b"], 100)
    truth = random.integers(2, size=200)
    guess = np.where((topic == 1) & (group == "b") & (random.random(200) < 0.8), 1 - truth, truth)
    texts = np.where(topic == 1, "rain and wind again", "sun all day long")
    frame = pd.DataFrame({"group": group, "truth": truth, "guess": guess, "text": texts})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    np.save(tmp_path / "features.npy", random.normal(size=(200, 4)) + 8 * topic[:, None])
    return tmp_path


def test_local_bias_of_a_file(run_command, invoke, file):
    columns = ("--attribute", "group", "--prediction", "guess", "--task", "truth", "--text", "text")
    words = ("local", file / "rows.csv", *columns, "--features", file / "features.npy", *QUICK)
    result = run_command(*words, "--format", "json")
    found = json.loads(result.stdout)
    assert set(found) == {"statistics", "clusters", "exemplars", "words"}
    worst = min(found["clusters"], key=lambda row: row["gap"])
    assert worst["gap"] < -0.6
    assert worst["p"] == 0.1  # the minimum with 9 permutations
    assert [row["word"] for row in found["words"] if row["cluster"] == worst["cluster"]][:2] == ["rain", "wind"]
    assert {"metric", "null"} <= set(found["statistics"][0])
    text = invoke(*words).output
    assert "Local bias of accuracy, b less a: clusters" in text
    assert invoke(*words, "--table", "words", "--format", "csv").stdout.startswith("cluster,rank,word")


@pytest.fixture
def run(tmp_path):
    """A run whose classifier returns "smile" correctly, judged by the version nearest to each photo."""
    random = np.random.default_rng(1)
    folder, names = tmp_path / "run", [f"p{number:02d}.png" for number in range(PHOTO_COUNT)]
    masculine, smiles = np.arange(PHOTO_COUNT) % 2, random.integers(2, size=PHOTO_COUNT)
    values = (-2.0, 0.0, 2.0)
    own_values = np.where(masculine, 0.8, -1.2)  # nearest 0 and -2
    keys = [
        {"adapter": "mine", "attribute": "gender", "arm": "edit", "photo": name, "step": step, "value": value}
        for name in names
        for step, value in enumerate(values, start=1)
    ]
    answers = [key | {"sha256": "0", "status": "failed" if key["photo"] == names[0] else "ok"} for key in keys]
    near = {name: 2 if male else 1 for name, male in zip(names, masculine, strict=True)}
    smiling = dict(zip(names, smiles, strict=True))
    labels = [
        key | {"label": "smile", "score": 0.9 if smiling[key["photo"]] == (near[key["photo"]] == key["step"]) else 0.1,
               "returned": True}
        for key in keys
    ]  # fmt: skip
    landmarks = [20.0, 25.0, 45.0, 25.0, 32.0, 38.0, 23.0, 50.0, 42.0, 50.0]
    faces = [
        {"photo": name, "status": "ok", "gender": float(value), "landmarks": landmarks}
        | {f"race_{race}": float(race == "White") for race in ("White", "Black", "Asian", "Indian", "Others")}
        for name, value in zip(names, own_values, strict=True)
    ]
    faces.append({"photo": "none.png", "status": "excluded", "reason": "no face found"})
    photos = [{"photo": name, "path": str(tmp_path / name), "status": "ok"} for name in names]
    write_tables(folder, answers=answers, labels=labels, faces=faces, photos=photos)
    stages = {"faces": {"state": "done", "fingerprint": "f", "seconds": 0, "counts": {}, "peak_mib": 0}}
    record = RunRecord(settings=Settings(), presence_thresholds={"mine": 0.5}, stages=stages)
    write_record(record, folder / "run.json")
    table = pd.DataFrame({"photo": names[::-1], "x": np.arange(PHOTO_COUNT)[::-1] % 7, "y": 1.5})
    table.to_csv(tmp_path / "features.csv", index=False)
    return folder, names, masculine, smiles


def test_rows_of_a_run_are_the_versions_nearest_to_the_photos(run, tmp_path):
    folder, names, masculine, smiles = run
    rows = rows_of_run(folder, LocalOptions(features=tmp_path / "features.csv"))
    assert rows.names == tuple(names[1:])  # the query of the first photo failed
    assert rows.groups == tuple(np.where(masculine, "masculine", "feminine")[1:])
    assert rows.prediction.tolist() == smiles[1:].tolist()
    assert rows.features[:, 0].tolist() == [number % 7 for number in range(1, PHOTO_COUNT)]
    assert "1 of 40 faces are left out" in rows.notes[0]


def test_local_bias_of_a_run(run_command, run, tmp_path):
    folder, names, *_ = run
    result = run_command(
        "local", folder, "--features", tmp_path / "features.csv", *QUICK, "--table", "exemplars", "--quiet"
    )
    assert "Local bias of presence, masculine less feminine: exemplars" in result.output
    assert names[1] in result.output


def test_default_features_are_the_judges_and_are_kept(run, tmp_path):
    import cv2

    from models.weights import load_judge

    folder, names, *_ = run
    random = np.random.default_rng(0)
    for name in names[:-1]:
        cv2.imwrite(str(tmp_path / name), random.integers(255, size=(64, 64, 3), dtype=np.uint8))
    frame = judged_features(Run(folder), settings=Settings())
    assert frame["photo"].tolist() == names[:-1]  # the file of the last photo is missing
    judge = load_judge("judge")
    assert len(frame["features"][0]) == judge.heads.in_features
    stages = Run(folder).record.stages
    assert stages["features"].counts == {"planned": 40, "ok": 39, "failed": 1, "excluded": 0}
    for name in names:
        (tmp_path / name).unlink(missing_ok=True)
    again = judged_features(Run(folder), settings=Settings())  # read from the file, without photos
    assert all((row == other).all() for row, other in zip(frame["features"], again["features"], strict=True))
    crops = [random.integers(255, size=(128, 128, 3), dtype=np.uint8) for _ in range(3)]
    assert embed(crops, judge=judge)[1] == embed(crops[1:2], judge=judge)[0]


def test_invalid_runs_raise(run, tmp_path):
    folder, *_ = run
    features = tmp_path / "features.csv"
    with pytest.raises(InputError, match=r"no label 'hat' in .*; there are 'smile'"):
        rows_of_run(folder, LocalOptions(adapter="mine", label="hat", features=features))
    with pytest.raises(InputError, match="no adapter 'yours'"):
        rows_of_run(folder, LocalOptions(adapter="yours", label="smile", features=features))
    with pytest.raises(RunError, match="no run"):
        rows_of_run(tmp_path / "nothing", LocalOptions())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("photo,x\np01.png,1\n", "lack 38 photos, the first is 'p02.png'"),
        ("photo,x\np01.png,1\np01.png,2\n", "have 'p01.png' twice"),
        ("x\n1\n2\n", "have 2 rows, but 39 are needed"),
        ("name\na\n", "must be rows of numbers"),
    ],
)
def test_mismatched_features_raise(tmp_path, content, message):
    (tmp_path / "few.csv").write_text(content)
    with pytest.raises(ConfigError, match=message):
        read_features(tmp_path / "few.csv", photos=[f"p{number:02d}.png" for number in range(1, 40)])


def test_file_formats_of_features(tmp_path):
    with pytest.raises(ConfigError, match=r"must be a \.npy, \.csv, \.parquet file"):
        read_features(tmp_path / "features.txt")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_features(tmp_path / "missing.npy")
    pd.DataFrame({"x": [1.0, 2.0]}).to_parquet(tmp_path / "f.parquet")
    assert read_features(tmp_path / "f.parquet").tolist() == [[1.0], [2.0]]


def test_invalid_files_raise(file):
    with pytest.raises(InputError, match="name the columns of"):
        rows_of_file(file / "rows.csv", LocalOptions(prediction="guess"))
    with pytest.raises(InputError, match="with --features"):
        rows_of_file(file / "rows.csv", LocalOptions(attribute="group", prediction="guess"))
    options = LocalOptions(attribute="race", prediction="guess", features=file / "features.npy")
    with pytest.raises(InputError, match="no column 'race'"):
        rows_of_file(file / "rows.csv", options)


def test_invalid_options_exit_with_2(error_of, file):
    words = ("local", file / "rows.csv", "--attribute", "group", "--prediction", "guess", *QUICK)
    features = ("--features", file / "features.npy")
    for more, message in (
        ((*features, "--table", "photos"), "no table 'photos'"),
        ((*features, "--centre", "mean"), "centre: must be group | none"),
        ((*features, "--table", "words"), "no table 'words'; choose from statistics, clusters, exemplars"),
        ((*features, "--metric", "accuracy"), "needs truth"),
        ((), "with --features"),
    ):
        assert message in error_of(*words, *more)
