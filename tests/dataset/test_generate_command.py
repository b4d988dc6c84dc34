import json

import pytest


@pytest.fixture(scope="module")
def portrait(sample_folder):
    return sample_folder(1)


def test_generate_reports_the_dataset_and_unstated_facts(portrait, tmp_path, invoke):
    opt_out = tmp_path / "opt_out.txt"
    opt_out.write_text("misspelt.jpg\n")
    words = [portrait, "--steps", "gender=3", "--out", tmp_path / "set", "--opt-out", opt_out, "--quiet"]
    first = invoke("generate", *words)
    assert first.exit_code == 0, first.output
    output = " ".join(first.output.split())
    assert "3 images of 1 photo (" in output
    assert "with --licence, --source-licence, --source, --creator, --contact" in output
    assert "No photo matches these entries of the opt-out list: misspelt.jpg" in output

    stated = ["--licence", "CC-BY-NC-4.0", "--source-licence", "CC-BY-4.0", "--source", "drawn\x1b[31m"]
    stated += ["--creator", "us", "--contact", "a@b.example"]
    second = invoke("generate", *words, *stated, "--split", "train=0,test=1", "--json")
    printed = json.loads(second.stdout)
    assert printed["not_stated"] == []
    assert printed["opt_out_unmatched"] == ["misspelt.jpg"]
    assert printed["splits"] == {"test": {"photos": 1, "images": 3}}
    card = (tmp_path / "set" / "README.md").read_text(encoding="utf-8")
    assert 'license: "cc-by-nc-4.0"' in card
    assert "\x1b" not in card


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--split", "train:0.5"], "is not of the form"),
        (["--split", "train=0.5,test=0.6"], "must sum to 1, not 1.1"),
        (["--split", "learn=1"], "dataset.split"),
        (["--published", "tomorrow"], "dataset.published"),
        (["--quality", "20", "--image-format", "jpeg"], "sweep.jpeg_quality"),
        (["--opt-out", "gone.txt"], "opt-out list gone.txt cannot be read"),
        (["--cluster", "person"], "no column 'person' to split by"),
    ],
)
def test_invalid_options_are_explained(portrait, tmp_path, words, message, error_of):
    assert message in error_of("generate", portrait, "--out", tmp_path / "set", "--quiet", *words)
