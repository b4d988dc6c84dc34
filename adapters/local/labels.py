"""Lists of distinct labels, from a file, an included list, or the user."""

import json
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from adapters.base import AdapterError

FOLDER = Path(__file__).parent / "lists"


def ready_made() -> tuple[str, ...]:
    """Return the names of the included lists."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.txt")))


def read_labels(source: str | Path | Sequence[str]) -> tuple[str, ...]:
    """Read labels in the order of their classes.

    Args:
        source: the labels, the name of an included list, or a file: one label per line (lines that start with # are
            ignored), or JSON: ``["tench", ...]``, ``{"0": "tench", ...}`` or ``{"0": ["n01440764", "tench"], ...}``.

    Raises:
        AdapterError: there is no such file, or it does not hold labels.
    """
    if not isinstance(source, str | Path):
        return _checked([str(name) for name in source], "the list of labels")
    path = FOLDER / f"{source}.txt" if str(source) in ready_made() else Path(source)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise AdapterError(
            f"the labels {str(source)!r} cannot be read ({error.strerror}): give a file with one label per line, "
            f'an included list ({", ".join(ready_made())}), or the labels as a list, \'["one", "two"]\''
        ) from error
    except UnicodeDecodeError as error:
        raise AdapterError(f"the file of labels {path} is not UTF-8 text: {error}") from error
    lines = (line for line in text.rstrip().splitlines() if not line.startswith("#"))
    return _checked(_from_json(text, path) if path.suffix == ".json" else list(lines), str(path))


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Add the class number to names that several classes share: ``crane [134]``."""
    counts = Counter(names)
    return tuple(name if counts[name] == 1 else f"{name} [{number}]" for number, name in enumerate(names))


def digest(names: Sequence[str]) -> str:
    """Return the sha256 of a list of labels."""
    return sha256(json.dumps(list(names)).encode()).hexdigest()


def _from_json(text: str, path: Path) -> list[str]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AdapterError(f"the file of labels {path} is not JSON: {error}") from error
    if isinstance(content, dict):
        wanted = [str(number) for number in range(len(content))]
        if set(content) != set(wanted):
            raise AdapterError(f"the file of labels {path}: its keys must be the class numbers 0 to {len(content) - 1}")
        content = [content[number] for number in wanted]
    if not isinstance(content, list):
        raise AdapterError(f"the file of labels {path} must hold a list, or an object of class number -> label")
    names = [entry[-1] if isinstance(entry, list) and entry else entry for entry in content]
    for number, name in enumerate(names):
        if not isinstance(name, str):
            raise AdapterError(f"the file of labels {path}: the label of class {number} is not text")
    return names


def _checked(names: Sequence[str], where: str) -> tuple[str, ...]:
    stripped = [name.strip() for name in names]
    if not stripped:
        raise AdapterError(f"{where} has no labels")
    if "" in stripped:
        raise AdapterError(f"{where}: label {stripped.index('') + 1} is empty, so the classes after it would shift")
    return distinct(stripped)
