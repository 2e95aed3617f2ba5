"""The hub of a job's telemetry: what controllers show is in the log."""

from rechannel.telemetry.driver_hub import open_hub
from rechannel.telemetry.events import Note
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
