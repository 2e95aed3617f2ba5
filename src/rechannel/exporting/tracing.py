"""Passes spans to a tracer of OpenTelemetry."""

from __future__ import annotations

from collections import OrderedDict

from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    Status,
    StatusCode,
    Tracer,
    set_span_in_context,
)

from rechannel.exporting.span import Key, Span

MOST_KNOWN = 10_000
"""Spans whose ids are kept, for children and links that come later."""


class Tracing:
    """Makes spans of OpenTelemetry. One thread calls it."""

    def __init__(self, tracer: Tracer, most: int = MOST_KNOWN) -> None:
        """most: spans whose ids are kept."""
        self._tracer, self._most = tracer, most
        self._known: OrderedDict[Key, SpanContext] = OrderedDict()

    def make(self, span: Span) -> bool:
        """Begin and end a span, every parent before its children. Returns whether it is sampled, so that it counts."""
        made = self._tracer.start_span(
            span.name,
            context=self._under(span.parent),
            attributes=span.attributes,
            links=[
                Link(self._known[link.to], link.attributes)
                for link in span.links
                if link.to in self._known
            ],
            start_time=_ns(span.start_ms),
        )
        if span.error is not None:
            made.set_status(Status(StatusCode.ERROR, span.error))
        made.end(end_time=_ns(span.end_ms))
        self._known[span.key] = made.get_span_context()
        while len(self._known) > self._most:
            self._known.popitem(last=False)
        return made.get_span_context().trace_flags.sampled

    def _under(self, parent: Key | None) -> Context:
        """Return a context that has the parent alone, and nothing of this thread's."""
        known = None if parent is None else self._known.get(parent)
        return (
            Context() if known is None else set_span_in_context(NonRecordingSpan(known), Context())
        )


def _ns(ms: float) -> int:
    """Return nanoseconds; microseconds are exact in a float of milliseconds, and no more is measured."""
    return round(ms * 1e3) * 1_000
