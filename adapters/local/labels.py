"""Lists of labels: from a file, from a ready-made list, or as given; each name once."""

import json
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from adapters.base import AdapterError

FOLDER = Path(__file__).parent / "lists"


def ready_made() -> tuple[str, ...]:
    """The names of the lists that come along."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.txt")))


def read_labels(source: str | Path | Sequence[str]) -> tuple[str, ...]:
    """Labels in the order of their classes.

    Args:
        source: the labels themselves, the name of a ready-made list, or a file: one label a line (lines that start
            with # are skipped), or JSON: ``["tench", ...]``, ``{"0": "tench", ...}`` or ``{"0": ["n01440764",
            "tench"], ...}``.

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
            f"the labels {str(source)!r} cannot be read ({error.strerror}): name a file with one label a line, "
            f'a ready-made list ({", ".join(ready_made())}), or the labels as a list, \'["one", "two"]\''
        ) from error
    except UnicodeDecodeError as error:
        raise AdapterError(f"the file of labels {path} is not UTF-8 text: {error}") from error
    lines = text.rstrip().splitlines()
    named = _from_json(text, path) if path.suffix == ".json" else [ln for ln in lines if not ln.startswith("#")]
    return _checked(named, str(path))


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Names of classes, those that several classes share with their class numbers: ``crane [134]``."""
    often = Counter(names)
    return tuple(name if often[name] == 1 else f"{name} [{number}]" for number, name in enumerate(names))


def digest(names: Sequence[str]) -> str:
    """The sha256 of a list of labels."""
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
        raise AdapterError(f"{where} holds no labels")
    if "" in stripped:
        raise AdapterError(f"{where}: label {stripped.index('') + 1} is empty, so the classes after it would shift")
    return distinct(stripped)
