import io
import zlib
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from pipeline.counterfactuals.files import ImageFile
from pipeline.dataset.provenance import DIGITAL_SOURCE_TYPE, NAMESPACE, Provenance, stamped

PACKET = Provenance("0a" * 32, "residual", "0b" * 32, attribute="gender", arm="edit", value=-4 / 3).packet()
PIXELS = np.random.default_rng(0).integers(0, 256, (40, 30, 3), dtype=np.uint8)


@pytest.mark.parametrize("file", [ImageFile(), ImageFile("jpeg", 90)], ids=["png", "jpeg"])
def test_stamped_image_has_the_packet_and_its_pixels(file):
    original = file.encode(PIXELS)
    stated = stamped(original, PACKET)
    with Image.open(io.BytesIO(original)) as before, Image.open(io.BytesIO(stated)) as after:
        np.testing.assert_array_equal(np.array(after), np.array(before))
        packet = after.info["xmp"]
    packet = packet if isinstance(packet, bytes) else packet.encode()
    assert packet == PACKET
    # The packet is inserted in one piece, and nothing else changes.
    start = next(offset for offset, (a, b) in enumerate(zip(original, stated, strict=False)) if a != b)
    assert any(stated[:cut] + stated[cut + len(stated) - len(original) :] == original for cut in range(start + 1))


def test_packet_names_source_type_and_origin():
    root = ElementTree.fromstring(PACKET.decode().replace("\ufeff", ""))
    texts = {element.tag: element.text for element in root.iter()}
    assert texts["{http://iptc.org/std/Iptc4xmpExt/2008-02-29/}DigitalSourceType"] == DIGITAL_SOURCE_TYPE
    assert DIGITAL_SOURCE_TYPE.endswith("/compositeWithTrainedAlgorithmicMedia")
    assert texts["{http://purl.org/dc/elements/1.1/}source"] == "sha256:" + "0a" * 32
    stated = {tag.removeprefix(f"{{{NAMESPACE}}}"): text for tag, text in texts.items() if NAMESPACE in tag}
    assert stated == {
        "photoSha256": "0a" * 32, "weightsSha256": "0b" * 32, "attribute": "gender", "arm": "edit", "value": "-1.33333",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("editor", "weights", "words"),
    [
        ("residual", "0b" * 32, "with prototypes of faces"),
        ("fader", "0b" * 32, "by a neural network"),
        ("python:mine:edit", None, "by an external editor"),
    ],
)
def test_packet_names_the_kind_of_edit(editor, weights, words):
    packet = Provenance("0a" * 32, editor, weights, attribute="gender", arm="edit", value=1.0).packet().decode()
    assert f"changed {words}" in packet
    assert ("weightsSha256" in packet) == (weights is not None)


def test_stamped_png_has_valid_chunks():
    content, offset, kinds = stamped(ImageFile().encode(PIXELS), PACKET), 8, []
    while offset < len(content):
        length = int.from_bytes(content[offset : offset + 4])
        body = content[offset + 4 : offset + 8 + length]
        assert zlib.crc32(body) == int.from_bytes(content[offset + 8 + length : offset + 12 + length])
        kinds.append(body[:4])
        offset += 12 + length
    assert kinds[:2] == [b"IHDR", b"iTXt"]
    assert kinds[-1] == b"IEND"


def test_other_formats_are_refused():
    with pytest.raises(ValueError, match="only PNG and JPEG"):
        stamped(b"GIF89a", PACKET)
