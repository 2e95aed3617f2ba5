"""What time it is in a stream, by a clock that may be wrong. Pure.

The time of a timestep is journalled, and never goes back. So one wrong reading of the wall clock (a bad time server, a
machine that wakes up) would let every timer fire at once, and stay the stream's time for as long as it is ahead.
A second clock tells what a wall clock cannot: how much time has passed. The rules:

- Within a driver's life the wall clock may be ahead of the time that has passed by `jump_ms`: then it was set right,
  and is believed. What is further ahead is not believed: the stream goes on by the time that passes.
- Between two drivers it is not known how much has passed: up to `downtime_ms` are believed, from the last timestep on.
  So is the first reading of a stream that has no time yet.
- A later reading that is within these bounds again is believed again.
- A wall clock that goes back is believed, but the stream's time waits for it. What was refused is measured from the
  furthest that was ever believed, so that a clock that went back by mistake can come back.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from rechannel.errors import SetUpError
from rechannel.model.text import iso_utc


class StreamTime(Struct, frozen=True, kw_only=True):
    """The time of a stream, and what is known of the clocks. All in milliseconds.

    stream_ms: Unix time of the stream; 0 = it has none yet. jump_ms, downtime_ms: see the rules. line_ms: the furthest
    reading that was believed, and what has passed since. steady_ms: of the clock that only tells what passes; None =
    not looked at yet. settled: whether any reading of this driver was believed. ahead_ms: how far the latest reading
    was ahead of what could be believed; 0 = it was believed.
    """

    stream_ms: int
    jump_ms: int
    downtime_ms: int
    line_ms: int = 0
    steady_ms: float | None = None
    settled: bool = False
    ahead_ms: int = 0

    def read(self, wall_ms: int, steady_ms: float) -> StreamTime:
        """The time after a look at both clocks."""
        passed, steady = self._passed(steady_ms)
        line = max(self.line_ms, self.stream_ms) + passed
        bound = line + (self.jump_ms if self.settled else self.downtime_ms)
        if self.stream_ms and wall_ms > bound:
            return replace(
                self, stream_ms=line, line_ms=line, steady_ms=steady, ahead_ms=wall_ms - line
            )
        return replace(
            self,
            stream_ms=max(self.stream_ms, wall_ms),
            line_ms=max(line, wall_ms),
            steady_ms=steady,
            settled=True,
            ahead_ms=0,
        )

    def _passed(self, steady_ms: float) -> tuple[int, float]:
        """Whole milliseconds since the last look, and up to when they are; what is less counts the next time."""
        before = steady_ms if self.steady_ms is None else self.steady_ms
        passed = int(steady_ms - before)
        if not 0 <= passed <= self.downtime_ms:
            return 0, steady_ms  # nor can this clock be believed
        return passed, before + passed

    def taken(self, stream_ms: int) -> StreamTime:
        """The time after a timestep of a time was decided."""
        return replace(self, stream_ms=max(self.stream_ms, stream_ms))

    @property
    def problem(self) -> SetUpError | None:
        """Why the wall clock is not believed, and what to do; None where it is."""
        if not self.ahead_ms:
            return None
        bound, setting = (
            (self.jump_ms, "clock_jump_ms") if self.settled else (self.downtime_ms, "downtime_ms")
        )
        advice = "start the job again" if self.settled else f"allow for it with Settings({setting})"
        msg = (
            f"the clock is {_span(self.ahead_ms)} ahead of the time of the stream, {iso_utc(self.stream_ms)}; more than"
            f" {_span(bound)} ({setting}) are not believed, and the stream goes on by the time that passes. Set the"
            f" clock right; if it is right, {advice}"
        )
        return SetUpError(msg)


def _span(ms: int) -> str:
    for unit, size in (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000)):
        if ms >= 2 * size:
            return f"{ms // size} {unit}"
    return f"{ms / 1000:g} s"
