"""Errors of HDFS, in words: the exception that the name node named, and what it said in one line."""

from __future__ import annotations

import re
from dataclasses import dataclass

_REMOTE = re.compile(r'RPCError\("(?:[\w$]+\.)*([\w$]+)", "((?:[^"\\]|\\.)*)')
"""As the client writes what has no exception of Python: the class, and its message with a stack trace."""
_DENIED = ("AccessControlException", "AuthorizationException")
_NOT_A_DIRECTORY = "(is not a directory)"


@dataclass(frozen=True, slots=True)
class Refusal:
    """What HDFS says of a request."""

    said: str
    """One line."""
    missing: bool
    """Whether there is no such file."""
    denied: bool
    """Whether waiting does not help: this user may not."""


def refusal_of(error: Exception) -> Refusal:
    """Return what an error of the client means."""
    whole = str(error)
    found = _REMOTE.search(whole)
    if found is None:
        said = whole.partition("\n")[0]
        return Refusal(said, missing=isinstance(error, FileNotFoundError), denied=False)
    kind, message = found[1], found[2].partition(r"\n")[0]
    # The name node says this of a path below a file, also to a user who may do everything.
    below_a_file = message.endswith(_NOT_A_DIRECTORY)
    return Refusal(
        f"{kind}: {message}",
        missing=below_a_file or kind == "FileNotFoundException",
        denied=kind in _DENIED and not below_a_file,
    )
