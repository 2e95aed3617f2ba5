"""Windows of so many rows of a key: `rc.windows.counting(100)`, `rc.windows.counting(100, every=10)`."""

from __future__ import annotations

from rechannel.dataflow.former import emission_hint
from rechannel.dataflow.naming import caller
from rechannel.errors import DataflowError


def rows_of(number: int, what: str) -> int:
    """A number of rows. Raises DataflowError unless it is a positive whole number."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        msg = f"{what} is a whole number of rows of at least 1, not {number!r}"
        raise DataflowError(msg)
    return number


def check_counting(keys: tuple[str, ...], lateness: object, emit: str, time: str) -> None:
    """Raise DataflowError for what windows of rows have not."""
    what = f"window ({caller()}): windows of rows"
    if not keys:
        msg = f"{what} need a key; use key_by"
        raise DataflowError(msg)
    if time != "event":
        msg = f"{what} go by the order of the stream, or of the event times in time_column=; leave time= away"
        raise DataflowError(msg)
    if lateness:
        msg = f"{what} have no end that rows could miss; leave lateness= away"
        raise DataflowError(msg)
    if emit != "on_close":
        msg = f"{what} are shown when they are complete; leave emit={emit!r} away{emission_hint(emit)}"
        raise DataflowError(msg)
