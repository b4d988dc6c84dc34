"""Files of networks: digests, local caches, and downloads if an option allows them."""

from collections.abc import Iterable, Sequence
from hashlib import file_digest, sha256
from pathlib import Path

from adapters.base import AdapterError
from adapters.packages import package


def digest_of(files: Sequence[Path]) -> str:
    """Return the sha256 of a file; for several files, of the lines that ``sha256sum`` prints, sorted by name."""
    digests = []
    for file in sorted(files, key=lambda file: file.name):
        try:
            with file.open("rb") as content:
                digests.append((file_digest(content, "sha256").hexdigest(), file.name))
        except OSError as error:
            raise AdapterError(f"{file} cannot be read: {error.strerror}") from error
    if len(digests) == 1:
        return digests[0][0]
    return sha256("".join(f"{digest}  {name}\n" for digest, name in digests).encode()).hexdigest()


def neither_here_nor_published(adapter: str, weights: str, published: Iterable[str]) -> AdapterError:
    """Return the error about unknown weights."""
    return AdapterError(
        f"{adapter}: the weights {weights!r} are neither a file nor published weights: choose from "
        f"{', '.join(published) or 'none'}"
    )


def not_here(adapter: str, what: str, *, command: str, instead: str) -> AdapterError:
    """Return the error about a missing file, with the command that downloads it."""
    return AdapterError(
        f"{adapter}: {what} not on this machine. Download once with `{command}`, or allow downloads with "
        f"--adapter-option '{adapter}.download=true'; or give {instead}"
    )


def fetch(url: str, path: Path, *, sha256_starts: str = "") -> None:
    """Download a file atomically and check the beginning of its sha256; AdapterError if that fails."""
    from torch.hub import download_url_to_file

    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        download_url_to_file(url, str(path), hash_prefix=sha256_starts or None, progress=False)
    except (OSError, RuntimeError) as error:
        raise AdapterError(f"{url} cannot be downloaded: {error}") from error


def hub_snapshot(
    repository: str, *, revision: str | None, patterns: Sequence[str], download: bool, adapter: str
) -> Path:
    """Return the folder of a Hugging Face repository in the local cache.

    Args:
        repository: its name, ``owner/name``.
        revision: a commit, tag or branch; default: the branch ``main``.
        patterns: globs of the required files.
        download: whether to download missing files.
        adapter: the adapter's name, for messages.

    Raises:
        AdapterError: files are missing or cannot be downloaded; the message has the command that downloads them.
    """
    hub = package("huggingface_hub", adapter=adapter)
    command = " ".join(["hf download", repository, *(["--revision", revision] if revision else [])])
    try:
        folder: str = hub.snapshot_download(
            repository, revision=revision, allow_patterns=list(patterns), local_files_only=not download
        )
    except ValueError as error:
        raise AdapterError(
            f"{adapter}: {repository!r} is neither a folder nor the name of a repository (owner/name): {error}"
        ) from error
    except OSError as error:
        if download:
            raise AdapterError(f"{adapter}: {repository} cannot be downloaded: {error}") from error
        which = f"{repository} at {revision}" if revision else repository
        raise not_here(adapter, f"{which} is", command=command, instead="a folder that holds it") from error
    return Path(folder)
