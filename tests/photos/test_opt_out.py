from hashlib import sha256

import pytest
from PIL import Image

from pipeline.config.options import ConfigError, PhotoOptions, Settings
from pipeline.dataset.files import opt_out_text
from pipeline.photos.listing import NOBODY, OptOut, check_photos, find_photos, opt_outs, read_opt_out


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


def test_entries_that_match_nothing_are_reported():
    opt_out = OptOut(frozenset({"a.png", "misspelt.png"}), frozenset({"0a" * 32, "0b" * 32}))
    assert opt_out.unmatched(["in/a.png"], ["0a" * 32, None]) == ["misspelt.png", "0b" * 32]


# What a list may nearly say


def options_with(folder, content, **more):
    (folder / "list.txt").write_bytes(content)
    return PhotoOptions(opt_out=folder / "list.txt", **more)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "utf-16-le"])
def test_a_list_may_begin_with_a_byte_order_mark(photos, tmp_path, encoding):
    mark = "\ufeff" if encoding == "utf-16-le" else ""
    found = opt_outs(photos, options=options_with(tmp_path, f"{mark}a.png\r\nc.png\r\n".encode(encoding)))
    assert found == OptOut(names=frozenset({"a.png", "c.png"}))


def test_a_list_in_no_known_encoding_is_an_error(photos, tmp_path):
    with pytest.raises(ConfigError, match=r"list.txt cannot be read: line 2 is not UTF-8 text; save the file as UTF-8"):
        opt_outs(photos, options=options_with(tmp_path, b"a.png\nM\xfcller.png\n"))


@pytest.mark.parametrize(
    ("entry", "photo"), [("A.PNG", "a.png"), ("MORE/b.png", "more/b.png"), ("B.Png", "more/b.png")]
)
def test_an_entry_in_other_letter_case_is_an_error_that_names_the_photo(photos, tmp_path, entry, photo):
    with pytest.raises(ConfigError, match=rf"nearly match a photo: '{entry}' \(there is '{photo}'\)"):
        opt_outs(photos, options=options_with(tmp_path, entry.encode()))


def test_an_entry_in_another_unicode_form_or_with_another_ending_is_one_too():
    near = OptOut(names=frozenset({"u\u0308.jpg", "b.JPEG", "c.jpg"})).near_misses(["in/\u00fc.jpg", "b.jpg", "c.jpg"])
    assert near == {"u\u0308.jpg": "in/\u00fc.jpg", "b.JPEG": "b.jpg"}


def test_near_misses_may_be_allowed_and_entries_of_other_folders_are_no_errors(photos, tmp_path):
    options = options_with(tmp_path, b"A.PNG\n", opt_out_allow_unmatched=True)
    assert opt_outs(photos, options=options) == OptOut(names=frozenset({"A.PNG"}))
    assert opt_outs(photos, options=options_with(tmp_path, b"elsewhere.png\n"))


def test_an_audit_stops_at_a_near_miss_before_any_work(photos, tmp_path):
    from pipeline.stages.audit import find_faces

    settings = Settings(photos=options_with(tmp_path, b"A.png\n"))
    with pytest.raises(ConfigError, match="--opt-out-allow-unmatched"):
        find_faces([tmp_path / "in"], tmp_path / "run", settings=settings, given={})
    assert not (tmp_path / "run" / "photos.parquet").exists()
