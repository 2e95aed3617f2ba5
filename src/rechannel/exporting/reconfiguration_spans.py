"""The spans of a reconfiguration that is over, from its summary. Pure.

It is a trace of its own: its phases are its children, and it is linked to the timesteps from that of its first step to
that of its last one.
"""

from __future__ import annotations

from collections.abc import Iterator

from rechannel.exporting.error_texts import ErrorText
from rechannel.exporting.span import Key, Link, Span, Value
from rechannel.exporting.timestep_spans import JOB, key_of
from rechannel.monitoring import ReconfigurationSummary

MOST_LINKS = 100
"""Timesteps that a reconfiguration is linked to: the first ones."""

FAILED = "failed"
"""The phase in which a reconfiguration has ended with an error."""


def reconfiguration_spans(
    job: str, summary: ReconfigurationSummary, errors: ErrorText
) -> Iterator[Span]:
    """Yield its root and its phases, as far as it came to them. errors: how much of its reason they have."""
    reason = errors.of(summary.reason)
    root: Key = ("reconfiguration", summary.id)
    start = float(min(summary.times.values()))
    yield Span(
        key=root,
        name="reconfiguration",
        start_ms=start,
        end_ms=float(max(summary.times.values())),
        attributes={JOB: job, **_figures(summary, reason)},
        links=tuple(Link(to=key_of(number)) for number in _timesteps(summary)),
        error=reason or summary.phase if summary.phase == FAILED else None,
    )
    at = start
    for name, ms in summary.phases_ms.to_dict().items():
        if ms is not None:
            yield Span(key=(*root, name), parent=root, name=name, start_ms=at, end_ms=at + ms)
            at += ms


def _timesteps(summary: ReconfigurationSummary) -> range:
    if summary.first_timestep is None or summary.last_timestep is None:
        return range(0)
    return range(summary.first_timestep, summary.last_timestep + 1)[:MOST_LINKS]


def _figures(summary: ReconfigurationSummary, reason: str) -> dict[str, Value]:
    return {
        "rechannel.reconfiguration.id": summary.id,
        "rechannel.reconfiguration.change": summary.change,
        "rechannel.reconfiguration.strategy": summary.strategy,
        "rechannel.reconfiguration.cause": summary.cause,
        "rechannel.reconfiguration.phase": summary.phase,
        "rechannel.reconfiguration.reason": reason,
        "rechannel.reconfiguration.steps": summary.steps.made,
        "rechannel.reconfiguration.bins.moved": summary.bins,
        "rechannel.reconfiguration.moved": summary.bytes,
    }
