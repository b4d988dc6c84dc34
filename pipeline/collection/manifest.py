"""Files of a collection: the manifest for audits, the table of all results, and the credits."""

import json
import re
from collections.abc import Mapping, Sequence

from pipeline.collection.keywords import Query
from pipeline.collection.licences import licence_title
from pipeline.run.text import markdown_text

COLUMNS = (
    *("photo", "keyword", "modifier", "soc", "rank", "licence", "licence_name", "licence_url", "creator", "title"),
    *("source", "source_page", "image_url", "file_sha256", "also_found_by"),
)
RESULT_COLUMNS = ("keyword", "modifier", "rank", "image_url", "status", "reason")
NOT_STATED = "not stated"


def also_found_by(searches: Mapping[Query, int]) -> str:
    """Format all searches that found a photo except the first as JSON, with the manifest's columns."""
    _, *others = searches.items()
    rows = [
        {"keyword": query.keyword, "modifier": query.modifier or "none", "soc": query.soc, "rank": rank}
        for query, rank in others
    ]
    return json.dumps(rows, ensure_ascii=False)


def attribution(rows: Sequence[Mapping[str, object]]) -> str:
    """Format each photo's creator, licence and source as Markdown."""
    lines = [
        "# Attribution", "",
        "Each photo with its creator, licence and source page as the search named them: check before sharing.", "",
    ]  # fmt: skip
    for row in rows:
        cells = {name: markdown_text(value) for name, value in row.items()}
        licence = markdown_text(licence_title(str(row["licence_name"] or row["licence"]), str(row["licence_url"])))
        parts = [
            f"{cells['photo']}: “{cells['title'] or 'untitled'}” by {cells['creator'] or 'an unnamed creator'}",
            f"{licence} {_link(row['licence_url'])}".strip(),
            f"from {_link(row['source_page'] or row['image_url'])}",
        ]
        lines.append(f"- {', '.join(parts)}.")
    return "\n".join(lines) + "\n"


def _link(address: object) -> str:
    """Format a URL as a Markdown link; anything else becomes plain text."""
    return f"<{address}>" if re.fullmatch(r"https?://[!-;=?-~]+", str(address)) else markdown_text(address)
