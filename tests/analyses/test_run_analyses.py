"""power, compare, represent and slopes as people and programs meet them, on runs made without photos."""

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


def table(result) -> pd.DataFrame:
    assert result.exit_code == 0, result.output
    return pd.read_csv(io.StringIO(result.stdout))


def test_power_tells_how_many_photos_are_needed(invoke, run):
    frame = table(invoke("power", run, "--width", 0.05, "--format", "csv"))
    assert len(frame) == 6
    assert (frame["arm"] == "edit").all()
    assert (frame["photos_for_width"] > PHOTO_COUNT).all()
    narrower = table(invoke("power", run, "--width", 0.02, "--format", "csv"))
    assert (narrower["photos_for_width"] > frame["photos_for_width"]).all()
    clustered = table(invoke("power", run, "--cluster", "person", "--format", "csv"))
    assert not clustered["width"].equals(frame["width"])
    assert "interval 0.05 wide" in invoke("power", run).output


def test_amplification_of_a_run_resamples_the_clusters_that_are_given(run):
    base = {"base": {"l0": 0.7, "l1": 0.2, "l2": 0.4}, "base_group": "masculine", "resamples": 50}
    alone, people = (
        compute("amplification", run, base | more).tables["amplification"] for more in ({}, {"cluster": "person"})
    )
    assert alone["amplification"].equals(people["amplification"])
    assert not alone["low"].equals(people["low"])


def test_two_adapters_of_a_run_are_compared(invoke, run):
    frame = table(invoke("compare", run, "--adapters", "opencv,mine", "--format", "csv"))
    assert frame[["first", "second"]].drop_duplicates().values.tolist() == [["opencv", "mine"]]
    assert (frame["difference"] > 0).all()
    assert (frame["tested"] == 3).all()


def test_what_people_see_of_a_comparison_has_no_row_that_they_cannot_tell_from_another(invoke, tmp_path):
    same = responses(effect=0.3, seed=1)
    parts = [(name, "gender", arm, same) for name in ("opencv", "mine") for arm in ("edit", "random")]
    run = write_run(tmp_path / "may", parts)
    printed = invoke("compare", run, "--adapters", "opencv,mine").output
    assert [printed.count(f" {label} ") for label in ("l0", "l1", "l2")] == [1, 1, 1]
    assert "3 more rows of placebos" in printed
    assert len(table(invoke("compare", run, "--adapters", "opencv,mine", "--format", "csv"))) == 6


def test_two_runs_are_compared_on_the_photos_they_share(invoke, run, tmp_path):
    other = write_run(tmp_path / "june", [("opencv", "gender", "edit", responses(effect=0.3, seed=1))])
    photos = read_frame(other / "photos.parquet")
    photos.loc[0, "sha256"] = "another photo of the same name"
    write_parquet(photos, other / "photos.parquet")
    result = invoke("compare", run, other, "--format", "json")
    assert result.exit_code == 0
    rows = json.loads(result.stdout)
    assert [row["difference"] for row in rows] == [0, 0, 0]
    assert {row["photos"] for row in rows} == {PHOTO_COUNT - 1}
    assert "1 photo only in the first: p0000" in result.stderr
    assert rows[0]["first"] == "may: opencv"


def test_runs_without_a_common_photo_are_not_compared(invoke, run, tmp_path):
    other = write_run(tmp_path / "june", [("opencv", "gender", "edit", responses(effect=0.3, seed=1))])
    photos = read_frame(other / "photos.parquet")
    write_parquet(photos.assign(sha256="another"), other / "photos.parquet")
    result = invoke("compare", run, other)
    assert result.exit_code == 2
    assert "have no photo in common" in " ".join(result.output.split())


def test_power_without_a_slope_says_what_to_do(invoke, run):
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
        (
            ["--adapters", "opencv,mine", "--family", "keyword"],
            "must be adapter | attribute",
        ),
    ],
)
def test_what_cannot_be_compared_is_explained(invoke, run, words, message):
    result = invoke("compare", run, *words)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


OTHER = ("--by", "keyword", "--cluster", "person", "--family", "adapter")
BY_ADAPTER = ["adapter mine, arm edit", "adapter opencv, arm edit", "adapter opencv, arm random"]


def test_a_report_written_with_other_options_keeps_them(invoke, run):
    result = invoke("report", run, *OTHER, "--quiet")
    assert result.exit_code == 0, result.output
    slopes = pd.read_csv(run / "tables/slopes.csv")
    assert slopes["family"].unique().tolist() == BY_ADAPTER
    assert (slopes["tested"] == 3).all()
    assert slopes.loc[slopes["arm"] == "edit", "random_difference"].notna().sum() == 3
    groups = pd.read_csv(run / "tables/subgroups.csv")
    assert set(groups["group"]) == {"ceo", "nurse"}
    differences = pd.read_csv(run / "tables/subgroup_differences.csv")
    assert len(differences) == 9
    assert "the 3 tested labels of adapter opencv" in (run / "tables/findings.md").read_text()

    assert invoke("report", run, "--by", "", "--cluster", "", "--family", "all", "--quiet").exit_code == 0
    assert not (run / "tables/subgroups.csv").exists()
    photos = pd.read_csv(run / "tables/slopes.csv")
    assert not photos["p"].equals(slopes["p"])
    assert photos["family"].unique().tolist() == ["arm edit", "arm random"]


def test_slopes_with_other_options_are_printed_and_leave_the_run_as_it_is(invoke, run):
    assert invoke("report", run, "--quiet").exit_code == 0
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    printed = json.loads(invoke("slopes", run, *OTHER, "--format", "json").stdout)
    assert set(printed) == {"findings", "subgroups", "subgroup_differences"}
    assert {row["family"] for row in printed["subgroups"]} == set(BY_ADAPTER)
    people = {row["label"]: row["p"] for row in printed["findings"][0]["findings"]}
    photos = {
        row["label"]: row["p"] for row in json.loads(invoke("slopes", run, "--format", "json").stdout)[0]["findings"]
    }
    assert people.keys() == photos.keys()
    assert people != photos
    assert {file: file.read_bytes() for file in run.rglob("*") if file.is_file()} == before


def test_slopes_that_an_adapter_s_limit_could_bend_say_how_far(invoke, run):
    words = ("slopes", run, "--max-p", 1, "--min-slope", 0, "--format", "csv")
    Run(run).note(query={"opencv": Account(images=1, known_before=0, calls_planned=1, cut_off=0.2)})
    assert "truncation" not in table(invoke(*words)), "what is not returned would not be present"
    frame = table(invoke(*words, "--response", "confidence"))
    assert (frame.loc[frame["adapter"] == "opencv", "truncation"] > 0).all()
    assert (frame.loc[frame["adapter"] == "mine", "truncation"] == 0).all()


def test_the_slope_table_is_what_the_command_prints(invoke, run):
    first = invoke("slopes", run, "--quiet")
    assert first.stdout.startswith("Labels of mine that change with perceived gender")
    assert "stage" not in first.stdout
    report = (run / "report.html").stat().st_mtime_ns
    assert invoke("slopes", run).stdout == first.stdout
    assert (run / "report.html").stat().st_mtime_ns == report, "nothing is estimated or written again"


def test_groups_of_photos_are_compared_and_kept(invoke, run):
    frame = table(invoke("subgroups", run, "--by", "keyword", "--format", "csv"))
    assert set(frame["group"]) == {"ceo", "nurse"}
    assert pd.read_csv(run / "tables/subgroups.csv").equals(frame)
    assert invoke("report", run, "--quiet").exit_code == 0
    assert "Groups of photos" in (run / "report.html").read_text(), (
        "the command's tables stay when the run is estimated"
    )
    assert invoke("report", run, "--by", "perceived", "--quiet").exit_code == 0
    assert set(pd.read_csv(run / "tables/subgroups.csv")["group"]) != {"ceo", "nurse"}
    assert "subgroups" not in Run(run).record.artifacts


def test_a_column_that_is_not_there_leaves_the_run_as_it_is(invoke, run):
    before = (run / "run.json").read_text()
    result = invoke("slopes", run, "--cluster", "people")
    assert result.exit_code == 2
    assert "no column 'people' to cluster by: the manifest has 'person', 'keyword'" in " ".join(result.output.split())
    assert json.loads((run / "run.json").read_text()) == json.loads(before)


@pytest.fixture
def faces_found(run, monkeypatch) -> Path:
    """The photos are those of a run, so that no face need be found."""
    (run / "list.csv").write_text("photo\n")
    monkeypatch.chdir(run)
    monkeypatch.setattr("pipeline.stages.audit.find_faces", lambda *_, **__: Run(run))
    return run


def test_shares_by_keyword(invoke, faces_found):
    frame = table(invoke("represent", "list.csv", "--by", "keyword", "--format", "csv"))
    shares = frame.set_index(["group", "attribute", "category"])
    assert shares["photos"].unique().tolist() == [PHOTO_COUNT // 2]
    assert shares.loc[("ceo", "gender", "masculine"), "share"] == pytest.approx(1 / 3)
    assert shares.loc[("nurse", "race", "White"), "share"] == 1
    assert frame["corrected"].between(0, 1).all()
    assert (frame["corrected_low"] <= frame["corrected_high"]).all()
    assert pd.read_csv(faces_found / "tables/representation.csv").equals(frame)
    exact = table(invoke("represent", "list.csv", "--by", "keyword", "--interval", "exact", "--format", "csv"))
    assert not exact["share_low"].equals(frame["share_low"])
    people = table(invoke("represent", "list.csv", "--by", "keyword", "--cluster", "person", "--format", "csv"))
    assert not people["share_low"].equals(frame["share_low"])


def test_shares_by_keyword_against_labour_statistics(invoke, faces_found, tmp_path):
    statistics = tmp_path / "jobs.tsv"
    statistics.write_text("job\tbls_pct_female\tyear\nCEO\t29.3\t2019\nnurse\t88.9\t2019\nbaker\t60.0\t2019\n")
    words = ("represent", "list.csv", "--by", "keyword", "--compare", statistics, "--format", "csv")
    frame = table(invoke(*words, "--table", "representation_compared"))
    assert frame["keyword"].tolist() == ["ceo", "nurse"]
    assert set(frame["category"]) == {"feminine"}
    row = frame.set_index("keyword").loc["ceo"]
    assert row["difference"] == pytest.approx(2 / 3 - 0.293)
    assert row["difference_low"] < row["difference"] < row["difference_high"]
    summary = table(invoke(*words, "--table", "representation_correlations"))
    assert summary["keywords"].tolist() == [2, 2]
    assert summary["spearman"].isna().all(), "two keywords have no rank correlation"
    assert set(summary["shares"]) == {"raw", "corrected"}
    assert invoke("report", faces_found, "--quiet").exit_code == 0
    assert "feminine against bls_pct_female" in (faces_found / "report.html").read_text()
    drawn = invoke("figures", faces_found, "--format", "svg", "--out", tmp_path / "figures").output
    assert "feminine-against-bls-pct-female-1.svg" in drawn


def test_a_table_that_does_not_say_what_it_counts_is_explained(invoke, faces_found, tmp_path):
    statistics = tmp_path / "jobs.csv"
    statistics.write_text("job,share\nceo,29.3\n")
    output = invoke("represent", "list.csv", "--by", "keyword", "--compare", statistics).output
    assert "pct_female" in " ".join(output.split())
    statistics.write_text("job,women\npilot,9.3\n")
    output = invoke("represent", "list.csv", "--by", "keyword", "--compare", statistics).output
    assert "none of the photos' keywords (ceo and nurse)" in " ".join(output.split())


def test_groups_of_two_columns(invoke, faces_found):
    frame = table(invoke("represent", "list.csv", "--by", "keyword,person", "--format", "csv"))
    assert "ceo, 0" in set(frame["group"])


def test_a_photo_that_several_searches_found_counts_once_for_each_keyword(invoke, faces_found):
    photos = read_frame(faces_found / "photos.parquet")
    also = [None] * len(photos)
    also[0] = json.dumps([{"keyword": "ceo", "modifier": "none"}])  # a photo of a nurse
    also[1] = json.dumps([{"keyword": "ceo", "modifier": "male"}])  # one of a ceo, found for ceo again
    also[2] = "nothing of a collection"
    write_parquet(photos.assign(modifier="none", also_found_by=also), faces_found / "photos.parquet")
    counts = PHOTO_COUNT // 2
    result = invoke("represent", "list.csv", "--by", "keyword", "--format", "csv")
    frame = table(result).drop_duplicates("group").set_index("group")
    assert frame["photos"].to_dict() == {"ceo": counts + 1, "nurse": counts}
    assert "1 of 90 photos count in more than one group" in result.stderr
    frame = table(invoke("represent", "list.csv", "--by", "keyword,modifier", "--format", "csv"))
    assert frame.drop_duplicates("group").set_index("group")["photos"].to_dict() == {
        "ceo, male": 1, "ceo, none": counts + 1, "nurse, none": counts,
    }  # fmt: skip
    everybody = table(invoke("represent", "list.csv", "--format", "csv"))
    assert set(everybody["photos"]) == {PHOTO_COUNT}


def test_without_a_confusion_matrix_shares_are_not_corrected_and_that_is_stated(invoke, faces_found, monkeypatch):
    monkeypatch.setattr("models.confusion.FILE", faces_found / "nothing.json")
    result = invoke("represent", "list.csv", "--by", "keyword", "--format", "csv")
    assert pd.read_csv(io.StringIO(result.stdout))["corrected"].isna().all()
    assert "not corrected" in result.stderr


def test_a_correction_that_the_estimator_contradicts_is_named_before_the_shares(invoke, run):
    assert "contradict" not in invoke("represent", run).stderr, "the estimator is as sure as it is right"
    faces = read_frame(run / "faces.parquet")
    others = {f"race_{race}": 0.2 for race in ("White", "Asian", "Indian", "Others")}
    write_parquet(faces.assign(**others, race_Black=0.21), run / "faces.parquet")
    result = invoke("represent", run, "--format", "csv")
    frame = table(result)
    assert frame.set_index(["attribute", "category"])["share"]["race", "Black"] == 1
    assert list(frame.columns).index("share") < list(frame.columns).index("corrected"), "raw comes first"
    assert "contradict the corrected shares of" in result.stderr
    assert "read the uncorrected shares" in result.stderr
    assert invoke("report", run, "--quiet").exit_code == 0
    page = (run / "report.html").read_text()
    part = page[page.index("Perceived race", page.index("Who is shown")) :]
    assert part.index("contradict the corrected shares") < part.index("of 90 faces perceived as")


def test_an_unknown_column_or_interval_is_explained(invoke, faces_found):
    assert "no column 'job' to group by" in " ".join(invoke("represent", "list.csv", "--by", "job").output.split())
    wrong = invoke("represent", "list.csv", "--interval", "wald").output
    assert "interval: must be wilson | exact" in wrong


def test_direction_and_size_are_distinguished_and_one_sided_photos_are_warned_of(invoke, run):
    frame = table(invoke("edit-size", run, "--table", "edit_size", "--format", "csv"))
    assert set(frame["adapter"]) == {"opencv", "mine"}
    assert (frame["arm"] == "edit").all()
    assert frame["direction"].notna().all()
    sides = table(invoke("edit-size", run, "--table", "edit_balance", "--format", "csv"))
    assert sides[["low", "high"]].iloc[0].tolist() == pytest.approx([2 / 3, 1 / 3], abs=0.01)
    row = {"photos": 90, "low": 0.1, "high": 0.9}
    assert "90.0 % of 90 photos are on the masculine side of gender" in one_sided(row, ATTRIBUTES["gender"])
    assert one_sided(row | {"high": 0.7}, ATTRIBUTES["gender"]) is None


@pytest.mark.parametrize("command", ["subgroups", "edit-size"])
def test_a_terminal_shows_a_few_columns_of_what_can_be_estimated(invoke, run, command):
    whole = table(invoke(command, run, "--format", "csv"))
    shown = invoke(command, run, "--table", command.replace("-", "_"))
    assert max(map(len, shown.stdout.splitlines())) <= 140
    rows = whole[(whole["arm"] == "edit") & whole["estimable"]]
    assert len(rows) < len(whole) or command == "edit-size"
    first = shown.stdout.split("\n\n")[1].splitlines()
    assert len(first) == 1 + len(rows)
    if len(rows) < len(whole):
        assert f"{len(whole) - len(rows)} more rows of placebos and of labels" in " ".join(shown.stderr.split())
