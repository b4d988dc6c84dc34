import pandas as pd
import pytest

from pipeline.analyses.inputs import InputError, indicators, read_predictions, share_table

FRAME = pd.DataFrame(
    {"gender": ["man", None, "woman"], "cook": [0, 1, 1], "score": [0.5, None, 1], "person": list("aab")}
)


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_files_are_read_with_missing_values(tmp_path, ending):
    path = tmp_path / f"predictions.{ending}"
    if ending == "parquet":
        FRAME.to_parquet(path)
    else:
        FRAME.to_csv(path, sep="\t" if ending == "tsv" else ",", index=False)
    frame = read_predictions(path)
    assert frame["gender"].isna().tolist() == [False, True, False]
    assert frame["cook"].tolist() == [0, 1, 1]


def test_na_and_none_are_text(tmp_path):
    (tmp_path / "names.csv").write_text("person,cook\nNA,1\nNone,0\n")
    assert read_predictions(tmp_path / "names.csv")["person"].tolist() == ["NA", "None"]


@pytest.mark.parametrize("text", ["cook,drive,cook\n1,0,0\n", 'cook,"drive ""a""",cook\n1,0,0\n'])
def test_duplicate_column_names_raise(tmp_path, text):
    (tmp_path / "twice.csv").write_text(text)
    with pytest.raises(InputError, match=r"twice\.csv has two columns called 'cook': rename one"):
        read_predictions(tmp_path / "twice.csv")


def test_indicators_have_a_column_per_category():
    found = indicators(FRAME, ["gender"], table="f")
    assert found.to_dict("list") == {"man": [1, 0, 0], "woman": [0, 0, 1]}
    wider = indicators(FRAME, ["gender"], table="f", names=["woman", "man", "other"])
    assert list(wider.columns) == ["woman", "man", "other"]


@pytest.mark.parametrize(
    ("columns", "names", "message"),
    [
        (["age"], None, "f has no column 'age'; its columns are 'gender', 'cook', 'score', 'person'"),
        (["score"], None, "column 'score' of f has no value in row 2"),
        (["cook", "gender"], None, "column 'gender' of f must hold numbers where several columns are named"),
        (["gender"], ["man"], "column 'gender' of f has 'woman', which is not one of man"),
    ],
)
def test_invalid_columns_raise(columns, names, message):
    with pytest.raises(InputError, match=message):
        indicators(FRAME, columns, table="f", names=names)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "x", "its name must end in .csv, .tsv, .parquet"),
        ("a.csv", "", "cannot be read"),
        ("a.csv", "x,y\n", "has no rows"),
        ("a.parquet", "x", "cannot be read"),
        ("missing.csv", None, "cannot be read"),
    ],
)
def test_invalid_files_raise(tmp_path, name, text, message):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        read_predictions(tmp_path / name)


def test_share_table_reads_per_cent(tmp_path):
    path = tmp_path / "occupations.tsv"
    path.write_text("occupation\twomen\nnurse\t90\ncook\t41.5\n")
    assert share_table(path, task="occupation", share="women") == {"nurse": 0.9, "cook": 0.415}
    path.write_text("occupation\twomen\nnurse\t190\n")
    with pytest.raises(InputError, match=r"column 'women' of .* must hold shares"):
        share_table(path, task="occupation", share="women")
    path.write_text("occupation\twomen\nnurse\t90\nnurse\t80\n")
    with pytest.raises(InputError, match=r"column 'occupation' of .* has 'nurse' twice"):
        share_table(path, task="occupation", share="women")
