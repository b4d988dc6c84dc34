"""The commands ``power``, ``compare``, ``slopes``, ``subgroups``, ``represent`` and ``edit-size`` on runs."""

import io
import json
from pathlib import Path

import pandas as pd
import pytest
from finished_run import PHOTO_COUNT, responses, write_parquet, write_run

from pipeline.analyses.edit_size import one_sided
from pipeline.analyses.registry import compute
from pipeline.config.attributes import ATTRIBUTES
from pipeline.run.folder import Run
from pipeline.run.record import Account
from pipeline.run.tables import read_frame

MANIFEST = {
    "person": [index // 3 for index in range(PHOTO_COUNT)],
    "keyword": ["ceo" if index % 2 else "nurse" for index in range(PHOTO_COUNT)],
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    parts = [
        ("opencv", "gender", "edit", responses(effect=0.3, seed=1)),
        ("opencv", "gender", "random", responses(effect=0.0, seed=2)),
        ("mine", "gender", "edit", responses(effect=0.1, seed=3)),
    ]
    return write_run(tmp_path / "may", parts, manifest=MANIFEST)


def test_power_prints_the_number_of_photos(frame_of, invoke, run):
    frame = frame_of("power", run, "--width", 0.05)
    assert len(frame) == 6
    assert (frame["arm"] == "edit").all()
    assert (frame["photos_for_width"] > PHOTO_COUNT).all()
    narrower = frame_of("power", run, "--width", 0.02)
    assert (narrower["photos_for_width"] > frame["photos_for_width"]).all()
    clustered = frame_of("power", run, "--cluster", "person")
    assert not clustered["width"].equals(frame["width"])
    assert "interval 0.05 wide" in invoke("power", run).output


def test_power_depends_on_the_options_of_the_run_that_are_not_given(run):
    own = {"presence_threshold", "response", "cluster", "min_count", "max_p"}
    assert set(compute("power", run, {}).inputs.options) == own
    given = {"min_count": 5, "response": "confidence"}
    assert set(compute("power", run, given).inputs.options) == own - set(given)


def test_amplification_of_a_run_resamples_clusters(run):
    base = {"base": {"l0": 0.7, "l1": 0.2, "l2": 0.4}, "base_group": "masculine", "resamples": 50}
    by_photo, by_person = (
        compute("amplification", run, base | cluster).tables["amplification"] for cluster in ({}, {"cluster": "person"})
    )
    assert by_photo["amplification"].equals(by_person["amplification"])
    assert not by_photo["low"].equals(by_person["low"])


def test_adapters_of_a_run_are_compared(frame_of, run):
    frame = frame_of("compare", run, "--adapters", "opencv,mine")
    assert frame[["first", "second"]].drop_duplicates().values.tolist() == [["opencv", "mine"]]
    assert (frame["difference"] > 0).all()
    assert (frame["tested"] == 3).all()


def test_comparison_in_a_terminal_omits_placebos(frame_of, invoke, tmp_path):
    same = responses(effect=0.3, seed=1)
    parts = [(name, "gender", arm, same) for name in ("opencv", "mine") for arm in ("edit", "random")]
    run = write_run(tmp_path / "may", parts)
    printed = invoke("compare", run, "--adapters", "opencv,mine").output
    assert [printed.count(f" {label} ") for label in ("l0", "l1", "l2")] == [1, 1, 1]
    assert "3 more rows of placebos" in printed
    assert len(frame_of("compare", run, "--adapters", "opencv,mine")) == 6


def test_runs_are_compared_on_common_photos(run_command, run, tmp_path):
    other = write_run(tmp_path / "june", [("opencv", "gender", "edit", responses(effect=0.3, seed=1))])
    photos = read_frame(other / "photos.parquet")
    photos.loc[0, "sha256"] = "another photo of the same name"
    write_parquet(photos, other / "photos.parquet")
    result = run_command("compare", run, other, "--format", "json")
    rows = json.loads(result.stdout)
    assert [row["difference"] for row in rows] == [0, 0, 0]
    assert {row["photos"] for row in rows} == {PHOTO_COUNT - 1}
    assert "1 photo only in the first: p0000" in result.stderr
    assert rows[0]["first"] == "may: opencv"


def test_runs_without_common_photos_exit_with_2(error_of, run, tmp_path):
    other = write_run(tmp_path / "june", [("opencv", "gender", "edit", responses(effect=0.3, seed=1))])
    photos = read_frame(other / "photos.parquet")
    write_parquet(photos.assign(sha256="another"), other / "photos.parquet")
    assert "have no photo in common" in error_of("compare", run, other)


def test_power_without_estimable_labels_gives_advice(invoke, run):
    result = invoke("power", run, "--min-count", 1000)
    assert "no label can be estimated from these photos: a lower --min-count" in " ".join(result.stderr.split())
    assert "no label can be" not in invoke("power", run).stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "compared with itself"),
        (["--adapters", "opencv"], "name two adapters"),
        (["--adapters", "opencv,yours"], "no adapter 'yours'; it has mine, opencv"),
        (["--adapters", "opencv,mine", "--cluster", "people"], "no column 'people' to cluster by"),
        (["--adapters", "opencv,mine", "--format", "xml"], "no format 'xml'"),
        (["--adapters", "opencv,mine", "--family", "keyword"], "must be adapter | attribute"),
    ],
)
def test_invalid_comparisons_exit_with_2(error_of, run, words, message):
    assert message in error_of("compare", run, *words)


OPTIONS = ("--by", "keyword", "--cluster", "person", "--family", "adapter")
BY_ADAPTER = ["adapter mine, arm edit", "adapter opencv, arm edit", "adapter opencv, arm random"]


def test_report_keeps_statistics_options(run_command, run):
    run_command("report", run, *OPTIONS, "--quiet")
    slopes = pd.read_csv(run / "tables/slopes.csv")
    assert slopes["family"].unique().tolist() == BY_ADAPTER
    assert (slopes["tested"] == 3).all()
    assert slopes.loc[slopes["arm"] == "edit", "random_difference"].notna().sum() == 3
    groups = pd.read_csv(run / "tables/subgroups.csv")
    assert set(groups["group"]) == {"ceo", "nurse"}
    differences = pd.read_csv(run / "tables/subgroup_differences.csv")
    assert len(differences) == 9
    assert "the 3 tested labels of adapter opencv" in (run / "tables/findings.md").read_text()

    run_command("report", run, "--by", "", "--cluster", "", "--family", "all", "--quiet")
    assert not (run / "tables/subgroups.csv").exists()
    photos = pd.read_csv(run / "tables/slopes.csv")
    assert not photos["p"].equals(slopes["p"])
    assert photos["family"].unique().tolist() == ["arm edit", "arm random"]


def test_slopes_with_options_does_not_change_the_run(run_command, invoke, run):
    run_command("report", run, "--quiet")
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    printed = json.loads(invoke("slopes", run, *OPTIONS, "--format", "json").stdout)
    assert set(printed) == {"findings", "subgroups", "subgroup_differences"}
    assert {row["family"] for row in printed["subgroups"]} == set(BY_ADAPTER)
    clustered_p = {row["label"]: row["p"] for row in printed["findings"][0]["findings"]}
    (by_photo, *_) = json.loads(invoke("slopes", run, "--format", "json").stdout)
    photo_p = {row["label"]: row["p"] for row in by_photo["findings"]}
    assert clustered_p.keys() == photo_p.keys()
    assert clustered_p != photo_p
    assert {file: file.read_bytes() for file in run.rglob("*") if file.is_file()} == before


def test_slopes_have_the_truncation_of_limited_adapters(frame_of, run):
    words = ("slopes", run, "--max-p", 1, "--min-slope", 0)
    Run(run).note(query={"opencv": Account(images=1, known_before=0, calls_planned=1, cut_off=0.2)})
    assert "truncation" not in frame_of(*words), "hidden labels would not be present"
    frame = frame_of(*words, "--response", "confidence")
    assert (frame.loc[frame["adapter"] == "opencv", "truncation"] > 0).all()
    assert (frame.loc[frame["adapter"] == "mine", "truncation"] == 0).all()


def test_slopes_prints_the_same_table_without_estimating_again(invoke, run):
    first = invoke("slopes", run, "--quiet")
    assert first.stdout.startswith("Labels of mine that change with perceived gender")
    assert "stage" not in first.stdout
    report = (run / "report.html").stat().st_mtime_ns
    assert invoke("slopes", run).stdout == first.stdout
    assert (run / "report.html").stat().st_mtime_ns == report, "the report is not written again"


def test_subgroups_are_compared_and_kept(run_command, frame_of, run):
    frame = frame_of("subgroups", run, "--by", "keyword")
    assert set(frame["group"]) == {"ceo", "nurse"}
    assert pd.read_csv(run / "tables/subgroups.csv").equals(frame)
    run_command("report", run, "--quiet")
    assert "Groups of photos" in (run / "report.html").read_text(), "the tables are kept"
    run_command("report", run, "--by", "perceived", "--quiet")
    assert set(pd.read_csv(run / "tables/subgroups.csv")["group"]) != {"ceo", "nurse"}
    assert "subgroups" not in Run(run).record.artifacts


def test_unknown_cluster_column_does_not_change_the_run(error_of, run):
    before = (run / "run.json").read_text()
    message = "no column 'people' to cluster by: the manifest has 'person', 'keyword'"
    assert message in error_of("slopes", run, "--cluster", "people")
    assert json.loads((run / "run.json").read_text()) == json.loads(before)


@pytest.fixture
def list_of_run(run, monkeypatch) -> Path:
    """A folder with list.csv, whose faces are those of the run."""
    (run / "list.csv").write_text("photo\n")
    monkeypatch.chdir(run)
    monkeypatch.setattr("pipeline.stages.audit.find_faces", lambda *_, **__: Run(run))
    return run


def test_represent_by_keyword(frame_of, list_of_run):
    frame = frame_of("represent", "list.csv", "--by", "keyword")
    shares = frame.set_index(["group", "attribute", "category"])
    assert shares["photos"].unique().tolist() == [PHOTO_COUNT // 2]
    assert shares.loc[("ceo", "gender", "masculine"), "share"] == pytest.approx(1 / 3)
    assert shares.loc[("nurse", "race", "White"), "share"] == 1
    assert frame["corrected"].between(0, 1).all()
    assert (frame["corrected_low"] <= frame["corrected_high"]).all()
    assert pd.read_csv(list_of_run / "tables/representation.csv").equals(frame)
    exact = frame_of("represent", "list.csv", "--by", "keyword", "--interval", "exact")
    assert not exact["share_low"].equals(frame["share_low"])
    clustered_p = frame_of("represent", "list.csv", "--by", "keyword", "--cluster", "person")
    assert not clustered_p["share_low"].equals(frame["share_low"])


def test_represent_compares_with_external_shares(run_command, frame_of, invoke, list_of_run, tmp_path):
    statistics = tmp_path / "jobs.tsv"
    statistics.write_text("job\tbls_pct_female\tyear\nCEO\t29.3\t2019\nnurse\t88.9\t2019\nbaker\t60.0\t2019\n")
    words = ("represent", "list.csv", "--by", "keyword", "--compare", statistics)
    frame = frame_of(*words, "--table", "representation_compared")
    assert frame["keyword"].tolist() == ["ceo", "nurse"]
    assert set(frame["category"]) == {"feminine"}
    row = frame.set_index("keyword").loc["ceo"]
    assert row["difference"] == pytest.approx(2 / 3 - 0.293)
    assert row["difference_low"] < row["difference"] < row["difference_high"]
    summary = frame_of(*words, "--table", "representation_correlations")
    assert summary["keywords"].tolist() == [2, 2]
    assert summary["spearman"].isna().all(), "two keywords have no rank correlation"
    assert set(summary["shares"]) == {"raw", "corrected"}
    run_command("report", list_of_run, "--quiet")
    assert "feminine against bls_pct_female" in (list_of_run / "report.html").read_text()
    drawn = invoke("figures", list_of_run, "--format", "svg", "--out", tmp_path / "figures").output
    assert "feminine-against-bls-pct-female-1.svg" in drawn


def test_unusable_external_shares_are_explained(invoke, list_of_run, tmp_path):
    statistics = tmp_path / "jobs.csv"
    statistics.write_text("job,share\nceo,29.3\n")
    output = invoke("represent", "list.csv", "--by", "keyword", "--compare", statistics).output
    assert "pct_female" in " ".join(output.split())
    statistics.write_text("job,women\npilot,9.3\n")
    output = invoke("represent", "list.csv", "--by", "keyword", "--compare", statistics).output
    assert "none of the photos' keywords (ceo and nurse)" in " ".join(output.split())


def test_represent_by_two_columns(frame_of, list_of_run):
    frame = frame_of("represent", "list.csv", "--by", "keyword,person")
    assert "ceo, 0" in set(frame["group"])


def test_photo_of_several_searches_counts_once_per_keyword(run_command, frame_of, list_of_run):
    photos = read_frame(list_of_run / "photos.parquet")
    also = [None] * len(photos)
    also[0] = json.dumps([{"keyword": "ceo", "modifier": "none"}])  # photo of a nurse
    also[1] = json.dumps([{"keyword": "ceo", "modifier": "male"}])  # photo of a ceo
    also[2] = "not JSON"
    write_parquet(photos.assign(modifier="none", also_found_by=also), list_of_run / "photos.parquet")
    counts = PHOTO_COUNT // 2
    result = run_command("represent", "list.csv", "--by", "keyword", "--format", "csv")
    frame = pd.read_csv(io.StringIO(result.stdout)).drop_duplicates("group").set_index("group")
    assert frame["photos"].to_dict() == {"ceo": counts + 1, "nurse": counts}
    assert "1 of 90 photos count in more than one group" in result.stderr
    frame = frame_of("represent", "list.csv", "--by", "keyword,modifier")
    assert frame.drop_duplicates("group").set_index("group")["photos"].to_dict() == {
        "ceo, male": 1, "ceo, none": counts + 1, "nurse, none": counts,
    }  # fmt: skip
    ungrouped = frame_of("represent", "list.csv")
    assert set(ungrouped["photos"]) == {PHOTO_COUNT}


def test_shares_without_a_confusion_matrix_are_uncorrected_with_a_note(invoke, list_of_run, monkeypatch):
    monkeypatch.setattr("models.confusion.FILE", list_of_run / "nothing.json")
    result = invoke("represent", "list.csv", "--by", "keyword", "--format", "csv")
    assert pd.read_csv(io.StringIO(result.stdout))["corrected"].isna().all()
    assert "not corrected" in result.stderr


def test_doubtful_correction_is_reported_before_the_shares(run_command, invoke, run):
    assert "contradict" not in invoke("represent", run).stderr, "its confidence fits its errors"
    faces = read_frame(run / "faces.parquet")
    others = {f"race_{race}": 0.2 for race in ("White", "Asian", "Indian", "Others")}
    write_parquet(faces.assign(**others, race_Black=0.21), run / "faces.parquet")
    result = run_command("represent", run, "--format", "csv")
    frame = pd.read_csv(io.StringIO(result.stdout))
    assert frame.set_index(["attribute", "category"])["share"]["race", "Black"] == 1
    assert list(frame.columns).index("share") < list(frame.columns).index("corrected"), "uncorrected first"
    assert "contradict the corrected shares of" in result.stderr
    assert "read the uncorrected shares" in result.stderr
    run_command("report", run, "--quiet")
    page = (run / "report.html").read_text()
    part = page[page.index("Perceived race", page.index("Who is shown")) :]
    assert part.index("contradict the corrected shares") < part.index("of 90 faces perceived as")


def test_invalid_column_or_interval_is_explained(invoke, list_of_run):
    assert "no column 'job' to group by" in " ".join(invoke("represent", "list.csv", "--by", "job").output.split())
    wrong = invoke("represent", "list.csv", "--interval", "wald").output
    assert "interval: must be wilson | exact" in wrong


def test_edit_size_separates_direction_and_size_and_warns_of_one_sided_photos(frame_of, run):
    frame = frame_of("edit-size", run, "--table", "edit_size")
    assert set(frame["adapter"]) == {"opencv", "mine"}
    assert (frame["arm"] == "edit").all()
    assert frame["direction"].notna().all()
    sides = frame_of("edit-size", run, "--table", "edit_balance")
    assert sides[["low", "high"]].iloc[0].tolist() == pytest.approx([2 / 3, 1 / 3], abs=0.01)
    row = {"photos": 90, "low": 0.1, "high": 0.9}
    assert "90.0 % of 90 photos are on the masculine side of gender" in one_sided(row, ATTRIBUTES["gender"])
    assert one_sided(row | {"high": 0.7}, ATTRIBUTES["gender"]) is None


@pytest.mark.parametrize("command", ["subgroups", "edit-size"])
def test_terminal_shows_selected_columns_of_estimable_labels(frame_of, invoke, run, command):
    whole = frame_of(command, run)
    printed = invoke(command, run, "--table", command.replace("-", "_"))
    assert max(map(len, printed.stdout.splitlines())) <= 140
    rows = whole[(whole["arm"] == "edit") & whole["estimable"]]
    assert len(rows) < len(whole) or command == "edit-size"
    first = printed.stdout.split("\n\n")[1].splitlines()
    assert len(first) == 1 + len(rows)
    if len(rows) < len(whole):
        assert f"{len(whole) - len(rows)} more rows of placebos and of labels" in " ".join(printed.stderr.split())
