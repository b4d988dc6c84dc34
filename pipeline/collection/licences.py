"""Licences of photos: short codes from services' names and URLs, and groups of licences to collect."""

import re
from collections.abc import Sequence

from pipeline.config.options import ConfigError

CODES = ("cc0", "pdm", "by", "by-sa", "by-nc", "by-nd", "by-nc-sa", "by-nc-nd")
ANY = "any"
GROUPS: dict[str, tuple[str, ...]] = {
    "open": ("cc0", "pdm", "by", "by-sa"),
    "commercial": tuple(code for code in CODES if "nc" not in code.split("-")),
    # Counterfactual versions are adaptations, which ND licences do not allow to be shared.
    "modification": tuple(code for code in CODES if "nd" not in code.split("-")),
}
_IN_URL = re.compile(r"creativecommons\.org/(?:licenses/(by(?:-(?:nc|nd|sa))*)|publicdomain/(zero|mark))/")
_IN_NAME = re.compile(r"(?:cc-)?(by(?:-(?:nc|nd|sa))*)(?:-\d.*)?")
_WORDS = {"attribution": "by", "sharealike": "sa", "noncommercial": "nc", "noderivatives": "nd", "noderivs": "nd"}
_PUBLIC = re.compile(r"public-domain|no-restrictions|pdm?(-.*)?")


def licence_code(name: str, url: str = "") -> str:
    """Return the code of a licence, one of ``CODES``; empty if the licence is none of them.

    Args:
        name: such as "CC BY-SA 4.0", "by-nc" or "Public domain".
        url: of its text, such as https://creativecommons.org/licenses/by/4.0/; it takes precedence over the name.
    """
    found = _IN_URL.search(url.lower() + "/")
    if found:
        return found[1] or {"zero": "cc0", "mark": "pdm"}[found[2]]
    words = re.sub(r"[\s_]+", "-", name.strip().lower())
    for word, short in _WORDS.items():
        words = words.replace(word, short)
    if words.startswith("cc0"):
        return "cc0"
    known = _IN_NAME.fullmatch(words)
    code = known[1] if known else "pdm" if _PUBLIC.fullmatch(words) else ""
    return code if code in CODES else ""


def licence_title(name: str, url: str = "") -> str:
    """Return a licence's usual name, such as "CC BY 4.0" for the code "by"; any other name is returned unchanged."""
    if name not in CODES:
        return name
    version = re.search(r"/(\d\.\d)(?:/|$)", url)
    title = {"cc0": "CC0", "pdm": "Public Domain Mark"}.get(name, f"CC {name.upper()}")
    return f"{title} {version[1]}" if version else title


def wanted_licences(texts: Sequence[str]) -> tuple[str, ...]:
    """Expand groups and codes to codes; ``any`` gives an empty tuple, which also admits licences that are not stated.

    Raises:
        ConfigError: a text is neither a group nor a code.
    """
    unknown = [text for text in texts if text not in (*GROUPS, *CODES, ANY)]
    if unknown:
        raise ConfigError(
            f"--licence {unknown[0]!r} is unknown: give {', '.join((*GROUPS, ANY))}, or codes ({', '.join(CODES)})"
        )
    chosen = {code for text in texts for code in GROUPS.get(text, (text,))}
    return () if ANY in chosen else tuple(code for code in CODES if code in chosen)
