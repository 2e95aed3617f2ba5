"""Progress on the terminal: on the error stream, so that tables can be redirected alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape

DETAIL_SECONDS = 10.0


class ConsoleProgress:
    """Steps as lines; details beside a spinner, or now and then as a line without a terminal."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._began = clock()
        self._said = self._began
        self._step = ""
        self._status = console.status("") if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def step(self, text: str) -> None:
        """Show a new step, with the seconds since the beginning."""
        self._step = text
        self._say(text)
        if self._status is not None:
            self._status.update(escape(text))

    def detail(self, text: str) -> None:
        """Show where the step stands."""
        whole = f"{self._step}: {text}"
        if self._status is not None:
            self._status.update(escape(whole))
        elif self._clock() - self._said >= DETAIL_SECONDS:
            self._say(whole)

    def _say(self, text: str) -> None:
        self._said = self._clock()
        self._console.print(f"[dim]{self._said - self._began:6.0f} s[/]  {escape(text)}")
