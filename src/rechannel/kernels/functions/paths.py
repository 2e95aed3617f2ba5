"""Names of files: what a directory listing calls a file that Spark gives a URI of."""

from __future__ import annotations

from urllib.parse import unquote


def plain_path(path: str) -> str:
    """Return a path without the scheme of local files."""
    if path.startswith("file:"):
        return "/" + path.removeprefix("file:").lstrip("/")
    return path


def path_of_uri(uri: str) -> str:
    """Return the path of a file by its URI, as `_metadata.file_path` and errors of Spark have it."""
    return plain_path(unquote(uri))
