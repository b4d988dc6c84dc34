"""Text from outside (labels, file names, manifests) made harmless for each place it is printed in.

HTML is not here: the page's templates and the XML writer escape by themselves, after ``visible``.
"""

import re
import unicodedata

# A spreadsheet takes a cell that starts so for a formula; the wide forms are read alike in some locales.
FORMULA_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
# Invisible, but part of how words are written in several scripts and of how emoji are joined.
JOINERS = "\u200c\u200d"
INVISIBLE = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}

_NOTHING = "\0"
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~$&!:])")
_LATEX = {
    _NOTHING: "{}",
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''",
    # Bare, these would be options of the line break before them.
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
    """The text with every control, bidirectional and other invisible character written out, e.g. ``[U+202E]``.

    So no line ends early, nothing is printed backwards, no two different names look the same for an invisible reason,
    and the result is allowed in XML.
    """
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(
        f"[U+{ord(sign):04X}]" if unicodedata.category(sign) in INVISIBLE and sign not in JOINERS else sign
        for sign in shown
    )


def csv_text(text: object) -> str:
    """Text for a CSV cell: a formula's start is neutralised by an apostrophe (``from_csv_text`` takes it off)."""
    shown = visible(text)
    return "'" + shown if shown.lstrip(" '").startswith(FORMULA_STARTS) else shown


def from_csv_text(cell: str) -> str:
    """The visible text that ``csv_text`` put into a cell."""
    return cell[1:] if cell.startswith("'") and cell.lstrip(" '").startswith(FORMULA_STARTS) else cell


def markdown_text(text: object) -> str:
    """Text for a Markdown table cell, printed as it is."""
    return _MARKDOWN.sub(r"\\\1", visible(text))


def latex_text(text: object) -> str:
    """Text for LaTeX in plain ASCII, needing no package and any engine; what TeX's own fonts lack is ``[U+4E2D]``."""
    shown = unicodedata.normalize("NFC", visible(text))
    # Two hyphens in a row would become a dash.
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
