"""A running job on the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rechannel.cli.screen import count, err, show_json, size, table
from rechannel.telemetry.facts import TimestepProgress

_LINE_SECONDS = 10.0


class Watched(Protocol):
    """What `Watcher` reads of a job (job.RunningJob)."""

    @property
    def name(self) -> str:
        """Name of the job."""

    @property
    def recent_progress(self) -> list[TimestepProgress]:
        """Facts of the last timesteps, oldest first."""


class Watcher:
    """Shows the progress of a job; call `look` repeatedly.

    json: one JSON object per timestep on standard output. Otherwise a live table on standard error,
    or a line every ten seconds if standard error is not a terminal.
    """

    def __init__(
        self,
        *,
        json: bool,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._json = json
        self._console = console or err()
        self._clock = clock
        self._began = self._said = clock()
        self._seen = -1
        self.timesteps = 0
        self.missed = 0
        """Timesteps that were committed and not seen: a job keeps the facts of the latest ones only."""
        self.rows = 0
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal and not self._json:
            self._live = Live(console=self._console, refresh_per_second=8, transient=True)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return self._clock() - self._began

    def look(self, job: Watched) -> None:
        """Show what was committed since the last look."""
        new = [each.to_dict() for each in job.recent_progress if each.timestep > self._seen]
        missed = new[0]["timestep"] - self._seen - 1 if new and self._seen >= 0 else 0
        if missed:
            self.missed += missed
            self.say(f"{job.name}: {count(missed)} timesteps were too fast to be shown")
        for facts in new:
            self._seen = facts["timestep"]
            self.timesteps += 1
            self.rows += facts["rows_in"]
            if self._json:
                show_json(facts, indent=None)
        if new and self._live is not None:
            self._live.update(self._picture(job.name, new[-1]))
        elif not self._json and self._live is None:
            self._now_and_then(job.name)

    def say(self, text: str) -> None:
        """Show a line above the live table."""
        self._console.print(text, soft_wrap=True)

    def _now_and_then(self, name: str) -> None:
        if self._clock() - self._said >= _LINE_SECONDS:
            self._said = self._clock()
            self.say(
                f"{self.seconds:6.0f} s  {name}: {count(self.timesteps)} timesteps,"
                f" {count(self.rows)} rows"
            )

    def _picture(self, name: str, facts: dict[str, Any]) -> Group:
        head = Text.assemble(
            (name, "bold"),
            f"  timestep {count(facts['timestep'])}  {facts['duration_ms']:,.0f} ms"
            f"  {count(facts['processed_rows_per_second'])} rows/s"
            f"  in all {count(self.rows)} rows in {self.seconds:,.0f} s"
            "  (Ctrl-C stops)",
        )
        return Group(head, operators(facts))


def operators(facts: dict[str, Any]) -> Table:
    """A row for every operator of a timestep. facts: as `last_progress.to_dict()`."""
    numbers = ("tasks", "rows in", "rows out", "keys", "busy", "state rows", "state")
    rows = table("operator", *numbers, right=numbers)
    for name, operator in facts["operators"].items():
        busy = sum(ms for activity, ms in operator["ms"].items() if activity != "wait")
        rows.add_row(
            name,
            count(operator["tasks"]),
            count(operator["rows_in"]),
            count(operator["rows_out"]),
            count(operator["keys"]),
            f"{busy:,.0f} ms",
            count(operator["state_rows"]),
            size(operator["state_bytes"]),
        )
    return rows
