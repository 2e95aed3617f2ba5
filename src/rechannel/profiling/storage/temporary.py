"""Temporary files, and what to do if they cannot be written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import gettempdir

from rechannel.errors import SetUpError


@contextmanager
def writing() -> Iterator[None]:
    """Raise SetUpError if a temporary file cannot be written."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        msg = (
            f"a temporary file of a profile cannot be written to {gettempdir()}: {reason}. Make room there, or set"
            " TMPDIR to another directory"
        )
        raise SetUpError(msg) from error
