"""The fields of what Rechannel logs, beside the message: what a formatter that writes JSON shows. Pure.

Each record of the logger `rechannel` has `event`, which says what happened in one word that stays, and `job`. The job
is that of the context: threads that a job begins have a copy of it (`threads.py`). The other fields are there where
the event is about one; `FIELDS` has all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from rechannel.errors import one_sentence, within

FIELDS: Mapping[str, str] = {
    "event": "what happened",
    "job": "name of the job; `None` if there is none, and in worker processes",
    "controller": "name of the controller",
    "dataset": "place of the dataset",
    "failures": "how often it has failed in a row",
    "function": "import path of a function",
    "listener": "class of the listener",
    "operator": "name of the operator, or of another node of the dataflow",
    "reason": "why, in a sentence",
    "reconfiguration": "id of the reconfiguration",
    "retry_seconds": "seconds until it is tried again",
    "sink": "name of the sink",
    "source": "name of the source",
    "timestep": "number of the timestep",
    "topic": "what is in trouble, as in `job.status.troubles`",
}
"""By name: what a field holds."""

MOST_BYTES = 2_048
"""Of a field that is text, in UTF-8."""

_JOB: ContextVar[str | None] = ContextVar("rechannel_job", default=None)


@contextmanager
def logging_for(job: str) -> Iterator[None]:
    """What is logged meanwhile, also in threads that begin, is about a job."""
    token = _JOB.set(job)
    try:
        yield
    finally:
        _JOB.reset(token)


def fields(event: str, **of: object) -> dict[str, object]:
    """Return the fields of a record, for `extra=`. An error becomes its first line, and no text is long."""
    return {
        "event": event,
        "job": _JOB.get(),
        **{name: _bounded(value) for name, value in of.items()},
    }


def _bounded(value: object) -> object:
    if isinstance(value, BaseException):
        value = one_sentence(value)
    return within(value, MOST_BYTES) if isinstance(value, str) else value
