"""Escaping of untrusted text (labels, file names, manifests) for the places in which it is printed.

HTML and XML are escaped by the templates and the XML writer, after ``visible``.
"""

import re
import unicodedata

# Spreadsheets treat cells that start so as formulas; some locales accept the wide forms.
FORMULA_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
# Invisible, but needed to spell words in several scripts and to join emoji.
JOINERS = "\u200c\u200d"
INVISIBLE = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}

_NOTHING = "\0"
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~$&!:])")
_LATEX = {
    _NOTHING: "{}",
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''",
    # Without braces, these would be arguments of a preceding line break.
    "[": "{[}", "]": "{]}", "*": "{*}",
    "−": "$-$", "–": "--", "—": "---", "…": r"\ldots{}", "“": "``", "”": "''", "‘": "`", "’": "'", "\u00a0": "~",
    "×": r"$\times$", "±": r"$\pm$", "≤": r"$\leq$", "≥": r"$\geq$", "∞": r"$\infty$", "°": r"$^\circ$",
    "Δ": r"$\Delta$",
    "ß": r"\ss{}", "æ": r"\ae{}", "Æ": r"\AE{}", "œ": r"\oe{}", "Œ": r"\OE{}", "ø": r"\o{}", "Ø": r"\O{}",
    "ł": r"\l{}", "Ł": r"\L{}", "§": r"\S{}",
}  # fmt: skip
_ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u", "\u0307": ".",
    "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0323": "d", "\u0327": "c",
}  # fmt: skip


def visible(text: object) -> str:
    """Return the text with control, bidirectional and other invisible characters escaped, e.g. ``[U+202E]``.

    The result has no line breaks, is not printed backwards, is valid in XML, and shows invisible differences.
    """
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(
        f"[U+{ord(sign):04X}]" if unicodedata.category(sign) in INVISIBLE and sign not in JOINERS else sign
        for sign in shown
    )


def csv_text(text: object) -> str:
    """Return text for a CSV cell, with an apostrophe before a formula's start (see ``from_csv_text``)."""
    shown = visible(text)
    return "'" + shown if shown.lstrip(" '").startswith(FORMULA_STARTS) else shown


def from_csv_text(cell: str) -> str:
    """Return the visible text of a cell that ``csv_text`` wrote."""
    return cell[1:] if cell.startswith("'") and cell.lstrip(" '").startswith(FORMULA_STARTS) else cell


def markdown_text(text: object) -> str:
    """Escape text for a Markdown table cell."""
    return _MARKDOWN.sub(r"\\\1", visible(text))


def latex_text(text: object) -> str:
    """Escape text for LaTeX in ASCII, for any engine without packages; other characters become e.g. ``[U+4E2D]``."""
    shown = unicodedata.normalize("NFC", visible(text))
    # LaTeX turns two hyphens into a dash.
    apart = re.sub(r"-(?=-)", f"-{_NOTHING}", shown)
    return "".join(_latex_sign(sign) for sign in apart)


def _latex_sign(sign: str) -> str:
    if sign in _LATEX:
        return _LATEX[sign]
    if sign.isascii():
        return sign
    parts = unicodedata.normalize("NFD", sign)
    if len(parts) == 2 and parts[1] in _ACCENTS and parts[0].isascii() and parts[0].isalpha():
        return f"\\{_ACCENTS[parts[1]]}{{{parts[0]}}}"
    return f"{{[}}U+{ord(sign):04X}{{]}}"
