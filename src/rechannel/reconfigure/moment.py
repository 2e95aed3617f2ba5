"""An event time from which a change shall hold. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rechannel.errors import RefusedError
from rechannel.model.eventtime import ENDED, NEVER
from rechannel.model.text import iso, iso_utc_us

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventMoment:
    """A change holds from the first timestep before which the watermarks of all these operators had reached a time.

    Rows up to that time are processed before the change, unless they are late. Of later rows, those that arrived within
    the allowed delay are processed before it, too.
    """

    us: int
    """Microseconds since 1970."""

    operators: tuple[str, ...] = ()
    """Whose watermarks; none = those of the operators that the change is about, or of all if they have none."""

    def __str__(self) -> str:
        """Return the moment as messages show it."""
        of = f" in {', '.join(map(repr, self.operators))}" if self.operators else ""
        return f"event time {_text(self.us)}{of}"

    def come(self, event_times: Mapping[str, int]) -> bool:
        """Whether all its operators that still have event time have reached it."""
        return (
            min((event_times.get(name, ENDED) for name in self.operators), default=NEVER) >= self.us
        )

    def lost(self, event_times: Mapping[str, int]) -> bool:
        """Whether none of its operators has event time any more."""
        return not any(name in event_times for name in self.operators)


def watermark(moment: datetime, operator: str | None = None) -> EventMoment:
    """Say when a change holds: `job.reconfigure(change, at=rc.changes.watermark(moment))`.

    The change holds from the first timestep in which the watermark has reached `moment`.

    Args:
        moment: a time of the data, with a time zone.
        operator: whose watermark; None = those of all operators that the change touches.

    Raises:
        RefusedError: `moment` is not a datetime with a time zone.
    """
    if not isinstance(moment, datetime):
        msg = f"event time must be a datetime with a time zone, not {moment!r}"
        raise RefusedError(msg)
    if operator is not None and not isinstance(operator, str):
        msg = f"watermark(operator=...) takes the name of one operator, not {operator!r}"
        raise RefusedError(msg)
    if moment.tzinfo is None:
        msg = f"event time {iso(moment)} needs a time zone: give it `tzinfo=datetime.UTC`, for example"
        raise RefusedError(msg)
    us = (moment - _EPOCH) // timedelta(microseconds=1)
    return EventMoment(us=us, operators=() if operator is None else (operator,))


def bound(
    asked: EventMoment, touched: frozenset[str], event_times: Mapping[str, int]
) -> EventMoment:
    """The moment with its operators. Raises RefusedError if there are none, or if it has passed.

    touched: operators that the change is about. event_times: how far event time has come, by operator.
    """
    if not event_times:
        msg = "no operator of this job has event time; give a timestep, or a time of the stream"
        raise RefusedError(msg)
    missing = [name for name in asked.operators if name not in event_times]
    if missing:
        msg = f"operator {missing[0]!r} has no event time; these operators have: {sorted(event_times)}"
        raise RefusedError(msg)
    names = (
        asked.operators or tuple(sorted(touched & event_times.keys())) or tuple(sorted(event_times))
    )
    made = EventMoment(us=asked.us, operators=names)
    if made.come(event_times):
        now = min(event_times[name] for name in names)
        msg = f"{made} has passed: it has come to {_text(now)}; omit `at`"
        raise RefusedError(msg)
    return made


def _text(us: int) -> str:
    return "the end" if us == ENDED else iso_utc_us(us)
