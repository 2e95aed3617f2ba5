"""When exporting is a trouble, and when no longer."""

from __future__ import annotations

import logging
import threading

import pytest

from rechannel.exporting.health import METRICS, QUIET_SECONDS, TOPIC, TRACES, Health

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


def test_what_fails_elsewhere_is_over_when_nothing_has_failed_for_long(heard):
    told, now, health = heard
    health.failed(OSError("gone"))
    now[0] = QUIET_SECONDS - 1
    health.look()
    assert told == [(TOPIC, "gone")]
    now[0] = QUIET_SECONDS
    health.look()
    assert told[1:] == [(TOPIC, None)]
    health.look()
    assert len(told) == 2


def test_what_fails_here_is_over_with_the_next_span_that_is_passed_on(heard):
    told, _, health = heard
    with health.passing_on():
        SDK.error("Exception while exporting Span.")
        health.passed_on()
    assert told == [(TOPIC, "Exception while exporting Span.")]
    with health.passing_on():
        raise OSError("gone")
    assert told[1:] == [(TOPIC, "gone")]
    with health.passing_on():
        pass  # it was not sampled: nothing is known
    assert len(told) == 2
    with health.passing_on():
        health.passed_on()
    assert told[2:] == [(TOPIC, None)]


def test_what_fails_elsewhere_is_not_over_because_a_span_was_passed_on(heard):
    told, now, health = heard
    thread = threading.Thread(target=lambda: SDK.error("Exception while exporting Span."))
    thread.start()
    thread.join()
    with health.passing_on():
        raise OSError("gone")
    with health.passing_on():
        health.passed_on()
    assert [text for _, text in told] == ["Exception while exporting Span.", "gone"]
    now[0] = QUIET_SECONDS
    health.look()
    assert told[2:] == [(TOPIC, None)]


SHARED = "opentelemetry.sdk._shared_internal"
OTLP = "opentelemetry.exporter.otlp.proto"
TRANSIENT = "Transient error %s encountered while exporting %s to %s, retrying in %.2fs."


@pytest.mark.parametrize(
    ("logger", "message", "arguments", "signal"),
    [
        ("opentelemetry.sdk.trace.export", "Exception while exporting Span.", (), TRACES),
        ("opentelemetry.sdk.metrics._internal.export", "Exception while exporting", (), METRICS),
        (SHARED, "Queue full, dropping %s.", ("Span",), TRACES),
        (SHARED, "Queue full, dropping %s.", ("Log",), None),
        (f"{OTLP}.http.trace_exporter", "Failed to export span batch code: %s", (503,), TRACES),
        (f"{OTLP}.http.metric_exporter", "Failed to export", (), METRICS),
        (f"{OTLP}.http._log_exporter", "Failed to export logs batch", (), None),
        (f"{OTLP}.grpc.exporter", TRANSIENT, ("UNAVAILABLE", "traces", "a:1", 1.0), TRACES),
        (f"{OTLP}.grpc.exporter", TRANSIENT, ("UNAVAILABLE", "metrics", "a:1", 1.0), METRICS),
        (f"{OTLP}.grpc.exporter", TRANSIENT, ("UNAVAILABLE", "logs", "a:1", 1.0), None),
        ("opentelemetry.exporter.ours", "No answer", (), ""),
        ("opentelemetry.sdk.resources", "Detector %s failed", ("any",), None),
        ("opentelemetry.sdk.trace", "Setting attribute on ended span.", (), None),
        ("opentelemetry.sdk.metrics._internal", "An instrument was created already", (), None),
        ("opentelemetry.sdk._logs._internal.export", "Exception while exporting logs.", (), None),
    ],
)
def test_only_exports_of_the_job_are_its_trouble(logger, message, arguments, signal):
    told = []
    exported = [frozenset({TRACES}), frozenset({METRICS}), frozenset({TRACES, METRICS})]
    listening = [
        Health(lambda topic, error, signals=signals: told.append(signals), signals=signals)
        for signals in exported
    ]
    for health in listening:
        health.begin()
    logging.getLogger(logger).warning(message, *arguments)
    for health in listening:
        health.end()
    assert told == [signals for signals in exported if signal in signals or signal == ""]


def shutdown():
    SDK.warning("Can't shutdown multiple times")


def test_a_warning_about_settings_or_the_end_is_no_trouble(heard):
    shutdown()
    assert heard[0] == []


def test_what_others_log_is_none_of_it(heard):
    told, _, health = heard
    logging.getLogger("opentelemetry.instrumentation.thing").warning("no")
    assert told == []
    health.end()
    SDK.warning("after the end")
    assert told == []
