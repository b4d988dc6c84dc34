"""Where the versions of photos and their masks lie: the contract, and the layout of a run's own folder."""

import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Protocol

from pipeline.config.attributes import EDIT_ARM


class Layout(Protocol):
    """Where files go below ``folder``, and what an image's file says of itself."""

    @property
    def folder(self) -> Path:
        """What the names below are relative to."""
        ...

    def image(self, photo: str, *, attribute: str, arm: str, step: int, suffix: str) -> PurePosixPath:
        """The file of one version."""
        ...

    def mask(self, photo: str) -> PurePosixPath:
        """The file of a photo's mask, a PNG."""
        ...

    def finished(self, content: bytes, photo: str, *, attribute: str, arm: str, value: float) -> bytes:
        """An encoded version as it is to be written; its pixels stay as they are."""
        ...


@dataclass(frozen=True)
class RunLayout:
    """A run's: ``images/<attribute>/<photo>/step<k>.png``, a placebo's ``images/<attribute>-<arm>/…``, and
    ``masks/<photo>.png``. The files say nothing of themselves, because a classifier is sent exactly these bytes."""

    folder: Path

    def image(self, photo: str, *, attribute: str, arm: str, step: int, suffix: str) -> PurePosixPath:
        """See ``Layout``."""
        return PurePosixPath("images", kind_of(attribute, arm)) / image_folder(photo) / f"step{step}{suffix}"

    def mask(self, photo: str) -> PurePosixPath:
        """See ``Layout``."""
        return PurePosixPath("masks") / f"{image_folder(photo)}.png"

    def finished(self, content: bytes, photo: str, *, attribute: str, arm: str, value: float) -> bytes:
        """The bytes unchanged."""
        return content


def kind_of(attribute: str, arm: str) -> str:
    """What the files of one sweep have in common in their names: the attribute, and the placebo if it is one."""
    return attribute if arm == EDIT_ARM else f"{attribute}-{arm}"


def image_folder(photo: str) -> PurePosixPath:
    """The folder of a photo's versions: its own path made safe for any file system, and unique.

    Eight hex digits of the name's hash keep apart what the cleaning would have made equal.
    """
    parts = [part for part in PurePosixPath(photo.replace("\\", "/")).parts if part not in ("/", "..", ".")]
    # 60 characters are at most 240 bytes of UTF-8: with the hash, below the 255 that a file system allows.
    clean = [re.sub(r"[^\w.\- ]", "_", part)[:60].strip(" .") or "_" for part in parts] or ["_"]
    clean[-1] = f"{clean[-1]}-{sha256(photo.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"
    return PurePosixPath(*clean)
