"""Which events complete which spans, and in what order."""

from __future__ import annotations

import pytest

from rechannel.exporting.error_texts import ErrorText
from rechannel.exporting.spans import Spans
from rechannel.monitoring import PhaseTimes, ReconfigurationSummary, Steps
from rechannel.telemetry.events import (
    Note,
    SinkPublished,
    TimestepCommitted,
    TimestepFailed,
    TimestepStarted,
)


def started(timestep):
    return TimestepStarted(timestep=timestep, now_ms=0, at_ms=timestep * 100)


def committed(timestep):
    at = timestep * 100 + 50
    return TimestepCommitted(timestep=timestep, at_ms=at, duration_ms=50, phases={"run": 50})


def published(timestep, sink="out"):
    return SinkPublished(timestep=timestep, sink=sink, at_ms=timestep * 100 + 60, duration_ms=5)


def summary(first, last, *, phase="done", reason=""):
    return ReconfigurationSummary(
        id="r1",
        change="rescale",
        strategy="all_at_once()",
        cause="tested",
        phase=phase,
        reason=reason,
        steps=Steps(made=2, left=0),
        bins=4,
        bytes=400,
        first_timestep=first,
        last_timestep=last,
        phases_ms=PhaseTimes(prepare=10, synchronize=20, update=70),
        times={"waiting": 1_000, "ready": 1_010, "moving": 1_030, phase: 1_100},
        prepared={},
        drivers=1,
        latency_ms={},
    )


@pytest.fixture
def spans():
    return Spans("shop", tasks=0, committed=4, errors=ErrorText.LINE)


def names(made):
    return [(span.name, span.key[1]) for span in made]


def see(spans, *events):
    return names(span for event in events for span in spans.see(event))


def test_a_timestep_is_complete_at_its_commit(spans):
    assert see(spans, started(5), Note(at_ms=1, topic="any", text="thing")) == []
    assert see(spans, committed(5)) == [("timestep", 5), ("run", 5)]


def test_timesteps_in_flight_do_not_mix(spans):
    assert see(spans, started(5), started(6), committed(5)) == [("timestep", 5), ("run", 5)]
    assert see(spans, committed(6)) == [("timestep", 6), ("run", 6)]


def test_one_whose_beginning_was_not_seen_has_no_spans(spans):
    assert see(spans, committed(5)) == []
    assert see(spans, started(6)) == []
    spans.forget()
    assert see(spans, committed(6), started(7), committed(7)) == [("timestep", 7), ("run", 7)]


def test_what_a_sink_publishes_follows_the_timestep_whenever_it_is_heard_of(spans):
    assert see(spans, started(5), published(5)) == []
    assert see(spans, committed(5)) == [("timestep", 5), ("run", 5), ("publish out", 5)]
    assert see(spans, published(5, "late")) == [("publish late", 5)]


def test_each_attempt_that_fails_has_a_span(spans):
    failed = TimestepFailed(timestep=5, at_ms=520, error="OSError", again_ms=1)
    assert see(spans, started(5), failed) == [("timestep", 5)]
    assert see(spans, failed) == []
    assert see(spans, started(5), committed(5)) == [("timestep", 5), ("run", 5)]


def test_a_reconfiguration_waits_for_the_timesteps_that_it_is_linked_to(spans):
    assert see(spans, started(5), committed(5), started(6)) == [("timestep", 5), ("run", 5)]
    assert list(spans.reconfigured(summary(5, 6))) == []
    made = list(spans.see(committed(6)))
    root, *phases = made[2:]
    assert (root.name, root.parent, root.start_ms, root.end_ms) == (
        "reconfiguration",
        None,
        1_000,
        1_100,
    )
    assert [link.to for link in root.links] == [("timestep", 5), ("timestep", 6)]
    assert root.error is None
    assert root.attributes == {
        "rechannel.job.name": "shop",
        "rechannel.reconfiguration.id": "r1",
        "rechannel.reconfiguration.change": "rescale",
        "rechannel.reconfiguration.strategy": "all_at_once()",
        "rechannel.reconfiguration.cause": "tested",
        "rechannel.reconfiguration.phase": "done",
        "rechannel.reconfiguration.reason": "",
        "rechannel.reconfiguration.steps": 2,
        "rechannel.reconfiguration.bins.moved": 4,
        "rechannel.reconfiguration.moved": 400,
    }
    assert [(s.name, s.parent, s.start_ms, s.end_ms) for s in phases] == [
        ("prepare", root.key, 1_000, 1_010),
        ("synchronize", root.key, 1_010, 1_030),
        ("update", root.key, 1_030, 1_100),
    ]


def test_one_that_came_to_no_timestep_waits_for_none(spans):
    (root, *_) = spans.reconfigured(summary(None, None, phase="failed", reason="no room"))
    assert (root.links, root.error) == ((), "no room")


def test_what_waits_at_the_end_is_told(spans):
    assert list(spans.reconfigured(summary(9, 9))) == []
    assert names(spans.finish())[0] == ("reconfiguration", "r1")
    assert list(spans.finish()) == []
