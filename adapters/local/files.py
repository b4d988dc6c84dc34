"""Files of networks: which lie on this machine, their digests, and fetching them where an option allows it."""

from collections.abc import Iterable, Sequence
from hashlib import file_digest, sha256
from pathlib import Path

from adapters.base import AdapterError
from adapters.packages import package


def digest_of(files: Sequence[Path]) -> str:
    """The sha256 of a file; of several, that of the lines that ``sha256sum`` would print for them by name."""
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
    """The error about weights that are unknown."""
    listed = ", ".join(published) or "none"
    return AdapterError(
        f"{adapter}: the weights {weights!r} are neither a file here nor published; published are {listed}"
    )


def not_here(adapter: str, what: str, *, command: str, instead: str) -> AdapterError:
    """The error about what would have to be downloaded, with the command that does it once."""
    return AdapterError(
        f"{adapter}: {what} not on this machine. Fetch once with `{command}`, or allow it with --adapter-option "
        f"'{adapter}.download=true'; or name {instead}"
    )


def fetch(url: str, path: Path, *, sha256_starts: str = "") -> None:
    """Download a file, whole and the expected one or not at all (AdapterError)."""
    from torch.hub import download_url_to_file

    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        download_url_to_file(url, str(path), hash_prefix=sha256_starts or None, progress=False)
    except (OSError, RuntimeError) as error:
        raise AdapterError(f"{url} cannot be downloaded: {error}") from error


def hub_snapshot(
    repository: str, *, revision: str | None, patterns: Sequence[str], download: bool, adapter: str
) -> Path:
    """The folder of a Hugging Face repository (``owner/name``) in the local cache.

    Args:
        repository: its name.
        revision: a commit, tag or branch; the branch ``main`` unless given.
        patterns: the files that are needed, as globs.
        download: fetch what is missing.
        adapter: the adapter's name, for messages.

    Raises:
        AdapterError: it is not there, or cannot be fetched; the message has the command that fetches it.
    """
    hub = package("huggingface_hub", adapter=adapter)
    command = " ".join(["hf download", repository, *(["--revision", revision] if revision else [])])
    try:
        folder: str = hub.snapshot_download(
            repository, revision=revision, allow_patterns=list(patterns), local_files_only=not download
        )
    except ValueError as error:
        raise AdapterError(
            f"{adapter}: {repository!r} is neither a folder here nor the name of a repository (owner/name): {error}"
        ) from error
    except OSError as error:
        if download:
            raise AdapterError(f"{adapter}: {repository} cannot be downloaded: {error}") from error
        which = f"{repository} at {revision}" if revision else repository
        raise not_here(adapter, f"{which} is", command=command, instead="a folder that holds it") from error
    return Path(folder)
