"""How the parts of a plan stand, in words: the lag of sources, the state of operators, what sinks owe. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rechannel.model.text import in_bytes
from rechannel.monitoring import JobStatus, SinkStatus
from rechannel.telemetry.words import lag_of_time, lag_words

Line = tuple[str, str]
"""A word, and what it is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a running job stands."""

    status: JobStatus
    sinks: Mapping[str, SinkStatus]

    def source(self, name: str) -> Iterator[Line]:
        """Yield what a source has left unread."""
        lag = self.status.lag.get(name)
        if lag is None or (lag.rows, lag.bytes, lag.seconds) == (None, None, None):
            yield "lag", "not known"
        else:
            rows, size, seconds = lag_words(lag.to_dict())
            yield "lag", f"{rows} rows, {size} unread; waited {seconds} s"

    def operator(self, name: str) -> Iterator[Line]:
        """Yield what an operator keeps, and what it has lost."""
        now = self.status.operators.get(name)
        if now is None or now.state_rows is None or now.state_bytes is None:
            return
        yield "now", f"{now.state_rows:,} rows of state, {in_bytes(now.state_bytes)}"
        if now.rows_late or now.rows_dead:
            yield "now", f"{now.rows_late:,} rows came late, {now.rows_dead:,} are dead letters"
        if now.event_time_lag_s is not None:
            yield "now", f"watermark {lag_of_time(now.event_time_lag_s)} before the present"

    def sink(self, name: str) -> Iterator[Line]:
        """Yield what a sink has not published, and why."""
        now = self.sinks.get(name)
        if now is None:
            return
        owed = f"{now.owed:,} timesteps from {now.oldest} on not published" if now.owed else ""
        why = now.quarantine or now.error
        yield "now", f"{owed or 'every committed timestep is published'}{f': {why}' if why else ''}"
