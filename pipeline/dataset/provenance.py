"""What an image says of itself: an XMP packet, in a PNG's iTXt chunk or a JPEG's APP1 segment; the pixels stay.

Sources: ISO 16684-1 and Adobe's XMP specification, part 3 (storage in files); IPTC Photo Metadata Standard and the
IPTC's newscodes of digital source types.
"""

import struct
import zlib
from dataclasses import dataclass
from xml.sax.saxutils import escape

DIGITAL_SOURCE_TYPE = "http://cv.iptc.org/newscodes/digitalsourcetype/compositeWithTrainedAlgorithmicMedia"
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
    """Of one version: the sha256 of the ``photo`` it was made from and of the ``weights`` that made it; what was
    changed (``attribute``, or the placebo ``arm`` of it) and to which ``value``."""

    photo: str
    weights: str
    attribute: str
    arm: str
    value: float

    def packet(self) -> bytes:
        """The XMP packet, in UTF-8."""
        facts = {
            "photoSha256": self.photo,
            "weightsSha256": self.weights,
            "attribute": self.attribute,
            "arm": self.arm,
            "value": f"{self.value:.6g}",
        }
        elements = (f"<counterslope:{name}>{escape(fact)}</counterslope:{name}>" for name, fact in facts.items())
        text = _PACKET.format(
            namespace=NAMESPACE,
            source_type=DIGITAL_SOURCE_TYPE,
            photo=self.photo,
            words=escape(f"Synthetic: a photo with its perceived {self.attribute} changed by a neural network"),
            facts="\n".join(elements),
        )
        return text.encode()


def stamped(content: bytes, packet: bytes) -> bytes:
    """A PNG or JPEG file with an XMP packet in it; everything else stays byte for byte.

    Raises:
        ValueError: the bytes are neither.
    """
    if content.startswith(_PNG):
        text = b"XML:com.adobe.xmp\0" + b"\0\0" + b"\0" + b"\0" + packet  # not compressed; no language, no translation
        chunk = struct.pack(">I", len(text)) + b"iTXt" + text + struct.pack(">I", zlib.crc32(b"iTXt" + text))
        return content[:_IHDR_END] + chunk + content[_IHDR_END:]
    if content.startswith(_JPEG):
        # JFIF wants its own segment first.
        after = 4 + int.from_bytes(content[4:6]) if content[3] == _APP0 else 2
        body = b"http://ns.adobe.com/xap/1.0/\0" + packet
        return content[:after] + _APP1 + (len(body) + 2).to_bytes(2) + body + content[after:]
    raise ValueError("only PNG and JPEG files can carry their provenance")
