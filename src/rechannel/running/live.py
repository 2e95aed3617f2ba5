"""A running job in a notebook: its status in one place on the page, renewed while it runs.

`page` is pure. `Screen` is the seam to the notebook: IPython's display, or a list in a test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from rechannel.errors import RefusedError
from rechannel.model.html import bars
from rechannel.monitoring import JobStatus
from rechannel.telemetry.facts import TimestepProgress

MOST_TIMESTEPS = 100
"""Timesteps in the picture of durations."""


class Screen(Protocol):
    """Where a job shows itself."""

    def show(self, html: str) -> None:
        """Put this in the place of what was shown before."""


class NotebookScreen:
    """The output of a notebook's cell. Raises RefusedError without IPython."""

    def __init__(self) -> None:
        try:
            from IPython.display import HTML, display
        except ImportError as error:
            msg = (
                "job.live() shows a job in a notebook, and IPython is not installed. In a terminal:"
                " rechannel watch STATE_DIR"
            )
            raise RefusedError(msg) from error
        self._html = HTML
        self._handle = display(HTML(""), display_id=True)

    def show(self, html: str) -> None:
        """Renew the output. Outside of a notebook there is none."""
        if self._handle is not None:
            self._handle.update(self._html(html))


def page(status: JobStatus, recent: Sequence[TimestepProgress]) -> str:
    """Return a status as HTML, with the durations of the latest timesteps."""
    shown = recent[-MOST_TIMESTEPS:]
    picture = ""
    if shown:
        durations = [each.duration_ms for each in shown]
        first, last = shown[0].timestep, shown[-1].timestep
        title = (
            f"duration of timesteps {first} to {last}; the longest took {max(durations):,.0f} ms"
        )
        picture = bars(title, durations)
    return f"{status._repr_html_()}{picture}"


def watch(
    look: Callable[[], str],
    over: Callable[[float], bool],
    seconds: float | None,
    every: float,
    screen: Screen | None = None,
) -> None:
    """Show what `look` returns until the job is over, the time has passed, or the user interrupts.

    over: waits for the end of the job, for at most the seconds it is given, and returns whether it has ended.
    """
    if every <= 0:
        msg = f"every={every}: the seconds between two looks must be positive"
        raise RefusedError(msg)
    shown = NotebookScreen() if screen is None else screen
    left = float("inf") if seconds is None else seconds
    ended = False
    with suppress(KeyboardInterrupt):
        while True:
            shown.show(look())
            if ended or left <= 0:
                return
            pause = min(every, left)
            ended = over(pause)
            left -= pause
