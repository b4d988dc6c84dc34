"""Multipart forms as bytes. What is in them is each service's file."""

from collections.abc import Mapping


def form(texts: Mapping[str, str], files: Mapping[str, tuple[str, bytes, str]]) -> tuple[bytes, str]:
    """A form's body and its content type.

    Args:
        texts: its text parts, by name.
        files: its files, by name: file name, content, content type.
    """
    from urllib3 import encode_multipart_formdata

    return encode_multipart_formdata([*texts.items(), *files.items()])
