"""A time of the data at which a change shall hold: when event time has come so far. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rechannel.errors import RefusedError
from rechannel.model.eventtime import ENDED, NEVER

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventMoment:
    """A change holds from the first timestep before which event time had come so far in all of these operators.

    Rows up to that time are then treated as before the change, but for late ones; of those after it, the ones that came
    within the delay that rows may have. us: microseconds since 1970. operators: none = those that the change is
    about, of them that go by event time; or all, if it is about none of those.
    """

    us: int
    operators: tuple[str, ...] = ()

    def __str__(self) -> str:
        """For messages."""
        of = f" in {', '.join(map(repr, self.operators))}" if self.operators else ""
        return f"event time {_text(self.us)}{of}"

    def come(self, event_times: Mapping[str, int]) -> bool:
        """Whether it has come, as far as its operators still go by event time."""
        return (
            min((event_times.get(name, ENDED) for name in self.operators), default=NEVER) >= self.us
        )

    def lost(self, event_times: Mapping[str, int]) -> bool:
        """Whether no operator is left whose event time could tell."""
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
        msg = f"event time is a datetime with a time zone, not {moment!r}"
        raise RefusedError(msg)
    if operator is not None and not isinstance(operator, str):
        msg = f"event time is that of one operator, by its name, not of {operator!r}"
        raise RefusedError(msg)
    if moment.tzinfo is None:
        msg = f"event time {moment.isoformat()} needs a time zone: give it `tzinfo=datetime.UTC`, for example"
        raise RefusedError(msg)
    us = (moment - _EPOCH) // timedelta(microseconds=1)
    return EventMoment(us=us, operators=() if operator is None else (operator,))


def bound(
    asked: EventMoment, touched: frozenset[str], event_times: Mapping[str, int]
) -> EventMoment:
    """With the operators that it goes by. Raises RefusedError where there are none, or it is over.

    touched: operators that the change is about. event_times: of all operators that go by event time.
    """
    if not event_times:
        msg = "no operator of this job goes by event time; give a timestep, or a time of the stream"
        raise RefusedError(msg)
    missing = [name for name in asked.operators if name not in event_times]
    if missing:
        msg = f"operator {missing[0]!r} does not go by event time; these do: {sorted(event_times)}"
        raise RefusedError(msg)
    names = (
        asked.operators or tuple(sorted(touched & event_times.keys())) or tuple(sorted(event_times))
    )
    made = EventMoment(us=asked.us, operators=names)
    if made.come(event_times):
        now = min(event_times[name] for name in names)
        msg = f"{made} is over: it has come to {_text(now)}; leave `at` away"
        raise RefusedError(msg)
    return made


def _text(us: int) -> str:
    if us == ENDED:
        return "the end"
    try:
        return (_EPOCH + timedelta(microseconds=us)).isoformat()
    except OverflowError:  # rows may say anything
        return f"{us} µs"
