from hashlib import sha256

import pytest
from PIL import Image

from pipeline.config.options import ConfigError, PhotoOptions
from pipeline.dataset.files import opt_out_text
from pipeline.photos.listing import NOBODY, OptOut, check_photos, find_photos, read_opt_out


def listed(folder, text):
    (folder / "list.txt").write_text(text, encoding="utf-8")
    return read_opt_out(folder / "list.txt")


def test_a_list_holds_names_and_hashes_and_comments(tmp_path):
    found = listed(
        tmp_path, f"# asked by mail\n\n  a/b.jpg \n{'AB' * 32}\nsha256:{'0c' * 32}\n./ü x.png\n{'0d' * 31}\n"
    )
    assert found == OptOut(frozenset({"a/b.jpg", "ü x.png", "0d" * 31}), frozenset({"ab" * 32, "0c" * 32}))
    assert read_opt_out(None) == NOBODY
    assert not NOBODY


def test_a_published_list_can_be_read_again(tmp_path):
    hashes = frozenset({"0a" * 32, "0b" * 32})
    assert listed(tmp_path, opt_out_text(hashes)) == OptOut(hashes=hashes)


def test_a_list_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_opt_out(tmp_path / "gone.txt")


@pytest.fixture
def photos(tmp_path):
    for place, colour in {"a.png": "red", "more/b.png": "blue", "more/copy.png": "red", "c.png": "green"}.items():
        (tmp_path / "in" / place).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (64, 64), colour).save(tmp_path / "in" / place)
    return find_photos([tmp_path / "in"])


def statuses(photos, opt_out):
    table = check_photos(photos, options=PhotoOptions(), opt_out=opt_out).to_pylist()
    return {row["photo"]: row["reason"] and row["reason"].partition(":")[0] for row in table}


def test_a_named_photo_and_its_copies_are_left_out(photos):
    assert statuses(photos, OptOut(names=frozenset({"a.png"}))) == {
        "a.png": "opted out", "c.png": None, "more/b.png": None, "more/copy.png": "opted out",
    }  # fmt: skip


def test_the_last_part_of_a_name_is_enough(photos):
    assert statuses(photos, OptOut(names=frozenset({"b.png"})))["more/b.png"] == "opted out"


def test_a_hash_is_enough(photos, tmp_path):
    digest = sha256((tmp_path / "in" / "c.png").read_bytes()).hexdigest()
    assert statuses(photos, OptOut(hashes=frozenset({digest})))["c.png"] == "opted out"


def test_a_photo_that_opted_out_is_never_decoded(photos, monkeypatch):
    decoded = []
    from pipeline.photos import listing as module

    decode = module.decode
    monkeypatch.setattr(module, "decode", lambda stream, **how: decoded.append(stream.name) or decode(stream, **how))
    statuses(photos, OptOut(names=frozenset({"a.png", "c.png"})))
    assert [name.rpartition("/")[2] for name in decoded] == ["b.png"]


def test_entries_that_match_nothing_are_told():
    opt_out = OptOut(frozenset({"a.png", "misspelt.png"}), frozenset({"0a" * 32, "0b" * 32}))
    assert opt_out.unmatched(["in/a.png"], ["0a" * 32, None]) == ["misspelt.png", "0b" * 32]
