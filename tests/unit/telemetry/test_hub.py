"""The hub of a job's telemetry: what controllers show is in the log."""

from rechannel.telemetry.driver_hub import open_hub
from rechannel.telemetry.events import Note, TimestepCommitted
from rechannel.telemetry.reading import read_events


def test_what_a_controller_shows_is_a_note(tmp_path):
    hub = open_hub(
        "job", spark=None, root=tmp_path, clock=lambda: 5.0, timestep=1, tasks={}, backlog=1
    )
    hub.shown("monitor", 3, {"p99": {"counts": 1.5, "": None}})
    hub.close()
    (note,) = [event for event in read_events(tmp_path / "telemetry") if isinstance(event, Note)]
    assert (note.topic, note.timestep, note.at_ms) == ("controller", 3, 5)
    assert note.text == "controller monitor shows p99"
    assert note.data == {"controller": "monitor", "metrics": {"p99": {"counts": 1.5, "": None}}}


def test_no_timestep_lasts_less_than_nothing(tmp_path):
    """The clock of the host was set back while it ran."""
    hub = open_hub(
        "job", spark=None, root=tmp_path, clock=lambda: 5.0, timestep=1, tasks={}, backlog=1
    )
    hub.committed(
        1,
        reports=[],
        began_ms=3_600_000.0,
        at_ms=2_000.0,
        phases={"plan": 1.0, "run": -3_598_000.0},
        state={},
        watermarks={},
        sources=frozenset(),
    )
    hub.close()
    events = read_events(tmp_path / "telemetry")
    (one,) = [event for event in events if isinstance(event, TimestepCommitted)]
    assert (one.duration_ms, dict(one.phases)) == (0.0, {"plan": 1.0, "run": 0.0})
