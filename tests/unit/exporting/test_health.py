"""When exporting is a trouble, and when no longer."""

from __future__ import annotations

import logging

import pytest

from rechannel.exporting.health import QUIET_SECONDS, TOPIC, Health

SDK = logging.getLogger("opentelemetry.sdk.trace.export")


@pytest.fixture
def heard():
    """What is told, the time that it is, and the health."""
    told, now = [], [0.0]
    health = Health(lambda topic, error: told.append((topic, error and str(error))), lambda: now[0])
    health.begin()
    yield told, now, health
    health.end()


def test_what_the_sdk_warns_of_is_a_trouble(heard):
    told, _, _ = heard
    SDK.info("all is well")
    assert told == []
    SDK.warning("Queue full, dropping %s.", "Span")
    assert told == [(TOPIC, "Queue full, dropping Span.")]
    try:
        raise ConnectionError("nobody answers")
    except ConnectionError:
        SDK.exception("Exception while exporting Span.")
    assert told[1:] == [
        (TOPIC, "Exception while exporting Span. (ConnectionError: nobody answers)")
    ]


def test_it_is_over_when_nothing_has_failed_for_long(heard):
    told, now, health = heard
    health.failed(OSError("gone"))
    now[0] = QUIET_SECONDS - 1
    health.well()
    assert told == [(TOPIC, "gone")]
    now[0] = QUIET_SECONDS
    health.well()
    assert told[1:] == [(TOPIC, None)]


def test_what_others_log_is_none_of_it(heard):
    told, _, health = heard
    logging.getLogger("opentelemetry.instrumentation.thing").warning("no")
    assert told == []
    health.end()
    SDK.warning("after the end")
    assert told == []
