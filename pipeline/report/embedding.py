"""Content embedded in the page: charts as SVG, images as addresses, data for the scripts, and hashes for the policy."""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any
from xml.etree import ElementTree as Xml

import pandas as pd
from markupsafe import Markup

from pipeline.report.charts import FONT, PALETTE, curve_chart
from pipeline.report.words import Poles
from pipeline.run.formats import decimal
from pipeline.run.text import visible

SHOWN = len(PALETTE)  # curves of a chart that are visible at first
MOST = 24  # largest number of curves in a chart, to bound the file
SVG_NAMESPACE = "http://www.w3.org/2000/svg"
# Inside a script element these could end it, open a comment, or end a line.
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
_ID = re.compile(r"[a-z][a-z0-9-]*")
# Attributes that a static image does not need. The font is set once, at the root.
_LEFT_OUT = {"role", "class", "pointer-events", "font-family"}
_LONG_NUMBER = re.compile(r"-?\d+\.\d{2,}")


def as_data_block(value: Any, *, id: str) -> Markup:
    """Return a value as a JSON script element, which is not executed.

    Args:
        value: mappings, sequences, text, finite numbers, booleans and None. Invisible characters in text are escaped.
        id: unique on the page; letters, digits and hyphens.

    Raises:
        ValueError: a number is NaN or infinite, or ``id`` is invalid.
    """
    content = json.dumps(_shown(value), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    block = f'<script type="application/json" id="{_checked_id(id)}">{content.translate(_ESCAPES)}</script>'
    return Markup(block)  # noqa: S704 - escaped in the line above


def source_hash(source: str) -> str:
    """Return the hash of a style sheet or script in a Content-Security-Policy: ``'sha256-…'``."""
    return f"'sha256-{base64.b64encode(sha256(source.encode()).digest()).decode()}'"


def webp_address(image: bytes) -> str:
    """Return a WebP image as a data URL."""
    return f"data:image/webp;base64,{base64.b64encode(image).decode('ascii')}"


def to_svg(chart: Any, *, key: str, title: str, description: str) -> str:
    """Render a chart as inline SVG with a title and description for screen readers; its ids begin with ``key``.

    Raises:
        ValueError: ``key`` is invalid.
    """
    return Xml.tostring(_element(chart, key=key, title=title, description=description), encoding="unicode")


def curve_figure(curves: pd.DataFrame, labels: Sequence[str], poles: Poles, *, shown: int, key: str, title: str) -> str:
    """Render curves as SVG with one group per label, ``<g data-series="0">`` and so on; only the first ``shown`` show.

    ``curves`` are of one adapter, attribute and arm. ``labels`` are 1 to ``MOST`` labels with a curve.
    """
    spoken = [curve_words(label, curves[curves["label"] == label]) for label in labels]
    chart = curve_chart(curves, poles, labels=labels)
    root = _element(chart, key=key, title=title, description="; ".join(spoken[:shown]))
    for number, (group, words) in enumerate(zip(_grouped(root, series=len(labels)), spoken, strict=True)):
        group.insert(0, _worded("title", words))
        group.set("class", f"slot-{number % SHOWN + 1}")
        if number >= shown:
            group.set("display", "none")
    return Xml.tostring(root, encoding="unicode")


def curve_words(label: str, curve: pd.DataFrame) -> str:
    """Describe a curve for screen readers, such as ``smile: z from 1.24 to 0.76``."""
    first, *_, last = curve.sort_values("value")["z"].to_list()
    return f"{label}: z from {decimal(first, places=2)} to {decimal(last, places=2)}"


def _element(chart: Any, *, key: str, title: str, description: str) -> Xml.Element:
    """Return the SVG as an element tree. Marks of line charts have the index of their series as ``data-series``."""
    import vl_convert

    _checked_id(key)
    root = Xml.fromstring(vl_convert.vegalite_to_svg(chart.to_dict(validate=False)))  # noqa: S314 - made here, from our own specification
    _simplify(root)
    size = {side: f"{1.3 * float(root.attrib[side]):.0f}" for side in ("width", "height")}
    named = f"{key}-title {key}-text"
    root.attrib |= {
        **size, "xmlns": SVG_NAMESPACE, "class": "chart", "role": "img", "aria-labelledby": named, "font-family": FONT,
    }  # fmt: skip
    root.insert(0, _worded("title", title, id=f"{key}-title"))
    root.insert(1, _worded("desc", description, id=f"{key}-text"))
    return root


def _simplify(root: Xml.Element) -> None:
    """Drop namespaces, invisible elements, and roles that make screen readers announce every mark."""
    for parent in root.iter():
        parent.tag = parent.tag.rpartition("}")[2]
        for child in list(parent):
            if child.get("class") in {"background", "foreground"} or child.get("fill") == "transparent":
                parent.remove(child)
    for element in root.iter():
        if re.fullmatch(r"s\d+", series := element.get("aria-label", "")):
            element.set("data-series", series[1:])
        for name in ("d", "transform"):
            if name in element.attrib:
                element.set(name, _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.1f}", element.attrib[name]))
        for name in [n for n in element.attrib if n.startswith("aria-") or n in _LEFT_OUT]:
            del element.attrib[name]
        if element.get("opacity") == "1":
            del element.attrib["opacity"]


def _grouped(root: Xml.Element, *, series: int) -> list[Xml.Element]:
    """Move the marks of each series into one group, in the current colour. This needs layers without offsets."""
    plot = next(child for child in root if child.tag == "g")
    groups = [Xml.Element("g", {"data-series": str(number)}) for number in range(series)]
    for parent in list(plot.iter()):
        for mark in [child for child in parent if "data-series" in child.attrib]:
            parent.remove(mark)
            groups[int(mark.attrib.pop("data-series"))].append(mark)
            mark.attrib |= {paint: "currentColor" for paint in ("fill", "stroke") if mark.get(paint) in PALETTE}
    plot.extend(groups)
    return groups


def _worded(tag: str, words: str, **attributes: str) -> Xml.Element:
    element = Xml.Element(tag, attributes)
    element.text = visible(words)
    return element


def _checked_id(text: str) -> str:
    if not _ID.fullmatch(text):
        raise ValueError(f"{text!r} is not an id of lower-case letters, digits and hyphens that begins with a letter")
    return text


def _shown(value: Any) -> Any:
    """Return the value with invisible characters escaped in all its text."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {visible(name): _shown(item) for name, item in value.items()}
    return [_shown(item) for item in value] if isinstance(value, Sequence) else value
