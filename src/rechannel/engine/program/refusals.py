"""All that is refused of a program, in one error, so that one start tells everything that is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rechannel.errors import OtherDataflowError


class Refusals:
    """What was refused."""

    def __init__(self) -> None:
        self._found: list[OtherDataflowError] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note what is refused within, and go on after it."""
        try:
            yield
        except OtherDataflowError as error:
            self._found.append(error)

    def check(self) -> None:
        """Raise OtherDataflowError if anything was refused: with its own sentence, or with a list of them."""
        if len(self._found) == 1:
            raise self._found[0]
        if self._found:
            each = "".join(f"\n- {one}" for one in self._found)
            msg = f"the program cannot take over, for {len(self._found)} reasons:{each}"
            raise OtherDataflowError(msg)
