"""What the user's own function did wrong, told with the user's own traceback."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from rechannel.errors import UserFunctionError

_PACKAGE = str(Path(__file__).parent.parent)


def user_error(what: str, error: BaseException) -> UserFunctionError:
    """Wrap an exception that a user's function raised.

    what: which function and on what, e.g. "update for key 'AA'".
    The engine adds operator and timestep.
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
    """Errors of a user's function with where they came from."""
    try:
        yield
    except UserFunctionError as error:
        msg = f"operator {operator!r}, timestep {timestep}: {error}"
        raise UserFunctionError(msg) from error.__cause__  # what is placed takes the error's place


def user_traceback(error: BaseException) -> str:
    """The traceback from the first frame that is not Rechannel's own."""
    frames = error.__traceback__
    while frames is not None and _is_ours(frames):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip()


def _is_ours(frame: TracebackType) -> bool:
    return frame.tb_frame.f_code.co_filename.startswith(_PACKAGE)


def function_name(function: object) -> str:
    """What a person would call a function: its qualified name, or its type's name."""
    return str(getattr(function, "__qualname__", None) or type(function).__name__)
