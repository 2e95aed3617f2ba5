"""Wrap exceptions of user functions, with the part of the traceback that is the user's."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from rechannel.errors import UserFunctionError

_PACKAGE = str(Path(__file__).parents[2])
"""Folder of the whole package: frames below it are Rechannel's own."""


def user_error(what: str, error: BaseException) -> UserFunctionError:
    """Wrap an exception that a user's function raised.

    what: which function and its argument, for example "update for key 'AA'". The engine adds operator and timestep.
    """
    if isinstance(error, UserFunctionError):
        return error
    made = UserFunctionError(
        f"{what} raised {type(error).__name__}: {error}\n\n{user_traceback(error)}"
    )
    made.raised = True
    return made


@contextmanager
def placed(operator: str, timestep: int) -> Iterator[None]:
    """Add operator and timestep to the errors of a user's function."""
    try:
        yield
    except UserFunctionError as error:
        msg = f"operator {operator!r}, timestep {timestep}: {error}"
        raise UserFunctionError(msg) from error.__cause__  # the new error replaces the old one


def user_traceback(error: BaseException) -> str:
    """Return the traceback from the first frame that is not Rechannel's own."""
    frames = error.__traceback__
    while frames is not None and _is_ours(frames):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip()


def _is_ours(frame: TracebackType) -> bool:
    return frame.tb_frame.f_code.co_filename.startswith(_PACKAGE)


def function_name(function: object) -> str:
    """Return the qualified name of a function, or the name of its type."""
    return str(getattr(function, "__qualname__", None) or type(function).__name__)
