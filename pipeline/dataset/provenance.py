"""Provenance of an image as an XMP packet, in a PNG's iTXt chunk or a JPEG's APP1 segment.

Sources: ISO 16684-1 and Adobe's XMP specification, part 3 (storage in files); IPTC Photo Metadata Standard and the
IPTC's newscodes of digital source types.
"""

import struct
import zlib
from dataclasses import dataclass
from xml.sax.saxutils import escape

DIGITAL_SOURCE_TYPE = "http://cv.iptc.org/newscodes/digitalsourcetype/compositeWithTrainedAlgorithmicMedia"
# How an editor changes a face.
OWN_WORDS = {"residual": "with prototypes of faces and of skin tones", "fader": "by a neural network"}
EXTERNAL_WORDS = "by an external editor"
NAMESPACE = "urn:counterslope:provenance:1#"

_PACKET = """<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xmp="http://ns.adobe.com/xap/1.0/"
 xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/" xmlns:counterslope="{namespace}">
<Iptc4xmpExt:DigitalSourceType>{source_type}</Iptc4xmpExt:DigitalSourceType>
<xmp:CreatorTool>Counterslope</xmp:CreatorTool>
<dc:source>sha256:{photo}</dc:source>
<dc:description><rdf:Alt><rdf:li xml:lang="x-default">{words}</rdf:li></rdf:Alt></dc:description>
{facts}
</rdf:Description></rdf:RDF></x:xmpmeta>
<?xpacket end="r"?>"""

_PNG, _IHDR_END = b"\x89PNG\r\n\x1a\n", 33
_JPEG, _APP0, _APP1 = b"\xff\xd8", 0xE0, b"\xff\xe1"


@dataclass(frozen=True)
class Provenance:
    """The provenance of a version: sha256 of its photo, the editor, attribute, arm and value."""

    photo: str
    editor: str  # as in the option of that name
    weights: str | None  # sha256 of the editor's weights; None for external editors
    attribute: str
    arm: str
    value: float

    def packet(self) -> bytes:
        """Return the XMP packet in UTF-8."""
        facts = {
            "photoSha256": self.photo,
            **({"weightsSha256": self.weights} if self.weights else {}),
            "attribute": self.attribute,
            "arm": self.arm,
            "value": f"{self.value:.6g}",
        }
        how = OWN_WORDS.get(self.editor, EXTERNAL_WORDS)
        elements = (f"<counterslope:{name}>{escape(fact)}</counterslope:{name}>" for name, fact in facts.items())
        text = _PACKET.format(
            namespace=NAMESPACE,
            source_type=DIGITAL_SOURCE_TYPE,
            photo=self.photo,
            words=escape(f"Synthetic: a photo with its perceived {self.attribute} changed {how}"),
            facts="\n".join(elements),
        )
        return text.encode()


def stamped(content: bytes, packet: bytes) -> bytes:
    """Insert an XMP packet into a PNG or JPEG file without changing its other bytes.

    Raises:
        ValueError: the file has another format.
    """
    if content.startswith(_PNG):
        text = (
            b"XML:com.adobe.xmp\0" + b"\0\0" + b"\0" + b"\0" + packet
        )  # uncompressed, without language and translation
        chunk = struct.pack(">I", len(text)) + b"iTXt" + text + struct.pack(">I", zlib.crc32(b"iTXt" + text))
        return content[:_IHDR_END] + chunk + content[_IHDR_END:]
    if content.startswith(_JPEG):
        # The JFIF segment must come first.
        after = 4 + int.from_bytes(content[4:6]) if content[3] == _APP0 else 2
        body = b"http://ns.adobe.com/xap/1.0/\0" + packet
        return content[:after] + _APP1 + (len(body) + 2).to_bytes(2) + body + content[after:]
    raise ValueError("only PNG and JPEG files can contain their provenance")
