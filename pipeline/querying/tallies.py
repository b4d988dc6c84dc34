"""What a store holds so far, read beside the process that may be writing it, or after it died. Nothing is written."""

import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

LATELY = timedelta(seconds=60)


@dataclass(frozen=True)
class Tally:
    """One classifier's part of a store.

    Attributes:
        adapter: its name.
        model: its version.
        answered: images that have an answer.
        failed: images that failed, and have none.
        unresolved: intents without outcome: on their way, or lost with a process that ended.
        lately: answers of the last minute.
    """

    adapter: str
    model: str
    answered: int
    failed: int
    unresolved: int
    lately: int


def tallies(path: Path) -> list[Tally]:
    """All classifiers of the file at ``path``; none where there is no such file, or another one."""
    if not path.exists():
        return []
    query = """
        SELECT adapter, model,
            (SELECT count(*) FROM answers WHERE classifier = classifiers.id),
            count(DISTINCT CASE WHEN state = 'failed' AND key NOT IN (SELECT key FROM answers) THEN key END),
            count(CASE WHEN state = 'open' THEN 1 END),
            count(CASE WHEN state = 'answered' AND time > ? THEN 1 END)
        FROM classifiers LEFT JOIN intents ON intents.classifier = classifiers.id
        GROUP BY classifiers.id ORDER BY classifiers.id
    """
    since = (datetime.now(UTC) - LATELY).isoformat(timespec="milliseconds")
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)
        try:
            return [Tally(*row) for row in connection.execute(query, (since,)).fetchall()]
        finally:
            connection.close()
    except sqlite3.DatabaseError:
        return []
