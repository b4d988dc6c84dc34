from hashlib import sha256

import pytest
from PIL import Image

from pipeline.config.options import ConfigError, PhotoOptions, Settings
from pipeline.dataset.files import opt_out_text
from pipeline.photos import listing
from pipeline.photos.listing import NOBODY, OptOut, check_photos, find_photos, opt_outs, read_opt_out
from pipeline.stages.audit import find_faces


def read_list(folder, text):
    (folder / "list.txt").write_text(text, encoding="utf-8")
    return read_opt_out(folder / "list.txt")


def test_list_has_names_hashes_and_comments(tmp_path):
    lines = ["# by mail", "", "  a/b.jpg ", "AB" * 32, f"sha256:{'0c' * 32}", "./ü x.png", "0d" * 31, ""]
    found = read_list(tmp_path, "\n".join(lines))
    assert found == OptOut(frozenset({"a/b.jpg", "ü x.png", "0d" * 31}), frozenset({"ab" * 32, "0c" * 32}))
    assert read_opt_out(None) == NOBODY
    assert not NOBODY


def test_published_list_round_trip(tmp_path):
    hashes = frozenset({"0a" * 32, "0b" * 32})
    assert read_list(tmp_path, opt_out_text(hashes)) == OptOut(hashes=hashes)


def test_missing_list_raises(tmp_path):
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


def test_named_photo_and_its_copies_are_excluded(photos):
    assert statuses(photos, OptOut(names=frozenset({"a.png"}))) == {
        "a.png": "opted out", "c.png": None, "more/b.png": None, "more/copy.png": "opted out",
    }  # fmt: skip


def test_file_name_without_folder_matches(photos):
    assert statuses(photos, OptOut(names=frozenset({"b.png"})))["more/b.png"] == "opted out"


def test_hash_matches(photos, tmp_path):
    digest = sha256((tmp_path / "in" / "c.png").read_bytes()).hexdigest()
    assert statuses(photos, OptOut(hashes=frozenset({digest})))["c.png"] == "opted out"


def test_opted_out_photos_are_never_decoded(photos, monkeypatch):
    decoded, decode = [], listing.decode
    monkeypatch.setattr(listing, "decode", lambda stream, **how: decoded.append(stream.name) or decode(stream, **how))
    statuses(photos, OptOut(names=frozenset({"a.png", "c.png"})))
    assert [name.rpartition("/")[2] for name in decoded] == ["b.png"]


def test_unmatched_entries_are_reported():
    opt_out = OptOut(frozenset({"a.png", "misspelt.png"}), frozenset({"0a" * 32, "0b" * 32}))
    assert opt_out.unmatched(["in/a.png"], ["0a" * 32, None]) == ["misspelt.png", "0b" * 32]


# Encodings and near misses


def options_with(folder, content, **more):
    (folder / "list.txt").write_bytes(content)
    return PhotoOptions(opt_out=folder / "list.txt", **more)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "utf-16-le"])
def test_list_may_have_a_byte_order_mark(photos, tmp_path, encoding):
    mark = "\ufeff" if encoding == "utf-16-le" else ""
    found = opt_outs(photos, options=options_with(tmp_path, f"{mark}a.png\r\nc.png\r\n".encode(encoding)))
    assert found == OptOut(names=frozenset({"a.png", "c.png"}))


def test_undecodable_list_raises(photos, tmp_path):
    with pytest.raises(ConfigError, match=r"list.txt cannot be read: line 2 is not UTF-8 text; save the file as UTF-8"):
        opt_outs(photos, options=options_with(tmp_path, b"a.png\nM\xfcller.png\n"))


@pytest.mark.parametrize(
    ("entry", "photo"), [("A.PNG", "a.png"), ("MORE/b.png", "more/b.png"), ("B.Png", "more/b.png")]
)
def test_entry_with_another_letter_case_raises(photos, tmp_path, entry, photo):
    with pytest.raises(ConfigError, match=rf"nearly match a photo: '{entry}' \(there is '{photo}'\)"):
        opt_outs(photos, options=options_with(tmp_path, entry.encode()))


def test_near_misses_by_unicode_form_and_extension():
    near_misses = OptOut(names=frozenset({"u\u0308.jpg", "b.JPEG", "c.jpg"})).near_misses(
        ["in/\u00fc.jpg", "b.jpg", "c.jpg"]
    )
    assert near_misses == {"u\u0308.jpg": "in/\u00fc.jpg", "b.JPEG": "b.jpg"}


def test_near_misses_may_be_allowed_and_unrelated_entries_do_not_raise(photos, tmp_path):
    options = options_with(tmp_path, b"A.PNG\n", opt_out_allow_unmatched=True)
    assert opt_outs(photos, options=options) == OptOut(names=frozenset({"A.PNG"}))
    assert opt_outs(photos, options=options_with(tmp_path, b"elsewhere.png\n"))


def test_audit_stops_at_a_near_miss_before_any_work(photos, tmp_path):
    settings = Settings(photos=options_with(tmp_path, b"A.png\n"))
    with pytest.raises(ConfigError, match="--opt-out-allow-unmatched"):
        find_faces([tmp_path / "in"], tmp_path / "run", settings=settings, given={})
    assert not (tmp_path / "run" / "photos.parquet").exists()
