"""A change is written once: one that this file defines is reached by Python, command line, HTTP, OpenAPI and docs."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Annotated

import pytest
import typer
from msgspec import Meta
from typer.testing import CliRunner

import rechannel as rc
from rechannel import changes, strategies
from rechannel.cli.remote.commands import group
from rechannel.engine.reconfigure.cluster import FixedCluster
from rechannel.errors import RefusedError
from rechannel.model.configuration import Configuration
from rechannel.reconfigure.changes.change import JOB, Change, Cli
from rechannel.reconfigure.changes.registry import KINDS
from rechannel.reconfigure.edits import change_set
from rechannel.reconfigure.notation import whole_milliseconds
from rechannel.reconfigure.stream_facts import StreamFacts
from rechannel.testing import Harness, script
from scripts.change_tables import in_python, on_the_command_line, over_http
from tests.support.changing import Paper


@dataclass(frozen=True, slots=True)
class SlowDown(Change):
    """Lengthen the distance between timestep starts."""

    kind = "slow_down"

    by_ms: Annotated[
        int,
        Meta(ge=1, description="Milliseconds to add."),
        Cli(argument=True, metavar="TIME", read=whole_milliseconds),
    ]
    times: Annotated[int, Meta(ge=1, le=9, description="How often.")] = 1

    def resolved(self, configuration: Configuration, facts: StreamFacts) -> Configuration:
        """The Configuration with the longer interval."""
        del facts
        longer = configuration.interval_ms + self.by_ms * self.times
        return replace(configuration, interval_ms=longer)


@dataclass(frozen=True, slots=True)
class Enlarge(Change):
    """Have this many executors, and shorter timesteps once they are there."""

    kind = "enlarge"

    hosts: Annotated[int, Meta(ge=1)]

    def resolved(self, configuration: Configuration, facts: StreamFacts) -> Configuration:
        """The Configuration with that many executors and a shorter interval."""
        del facts
        return replace(configuration, executors=self.hosts, interval_ms=7)

    @property
    def executors_needed(self) -> int | None:
        """One per host."""
        return self.hosts


@pytest.fixture(autouse=True)
def registered():
    KINDS.register(SlowDown)
    KINDS.register(Enlarge)
    yield
    KINDS.unregister("slow_down")
    KINDS.unregister("enlarge")


CHANGE = SlowDown(5, times=2)
JSON = {"kind": "slow_down", "by_ms": 5, "times": 2}


def test_python_offers_it():
    assert changes.slow_down(5, times=2) == CHANGE
    assert "slow_down" in dir(changes)
    assert str(CHANGE) == "slow_down(by_ms=5, times=2)"
    assert change_set(CHANGE).changes == (CHANGE,)
    with pytest.raises(RefusedError, match="slow_down: by_ms: expected int >= 1, got 0"):
        changes.slow_down(0)


def test_the_coordinator_makes_it():
    paper = Paper()
    paper.ask(CHANGE)
    paper.step()
    assert paper.configuration.interval_ms == 10
    assert CHANGE.touches() == {JOB}


@pytest.mark.parametrize("together", [False, True])
def test_executors_that_a_kind_of_its_own_needs_are_there_before_it_begins(together):
    source = script("k string", [[{"k": "a"}]])
    stream = rc.read().memory(source).key_by("k").aggregate(n=rc.aggregates.count(), name="counts")
    cluster = FixedCluster(room=4)
    harness = Harness(stream.write.memory("out"), cluster=cluster)
    process = harness.start()
    process.run()
    asked = [CHANGE, Enlarge(3)] if together else [Enlarge(3)]
    process.reconfigure(asked, strategy=strategies.all_at_once(prepare=False))
    process.run()
    (record,) = harness.journal_state().coordination.records
    assert (str(record.phase), dict(record.prepared)) == ("done", {"executors": 3})
    assert (cluster.requested, len(cluster.alive)) == ([3], 3)
    configuration = harness.journal_state().configurations[-1][1]
    assert (configuration.executors, configuration.interval_ms) == (3, 7)


def test_files_keep_it():
    assert CHANGE.to_json() == JSON
    assert KINDS.read(json.loads(json.dumps(JSON))) == CHANGE


def test_the_command_line_has_it():
    sent = []
    app = typer.Typer()
    app.add_typer(group("Change it.", sent.append), name="change")
    app.command("other")(lambda: None)
    runner = CliRunner()
    helped = runner.invoke(app, ["change", "URL", "slow-down", "--help"]).output
    assert "Lengthen the distance between timestep starts." in helped
    assert "How often." in helped
    assert runner.invoke(app, ["change", "URL", "slow-down", "5ms", "--times", "2"]).exit_code == 0
    assert sent == [JSON]


def test_bodies_of_http_take_it_and_openapi_shows_it():
    pytest.importorskip("fastapi")
    from rechannel.serve.bodies import PlanBody, ReconfigureBody
    from rechannel.serve.failures import MalformedError
    from rechannel.serve.reading import read_body
    from rechannel.serve.schemas import schemas

    assert read_body(PlanBody, json.dumps({"change": JSON}).encode()).to_change() == CHANGE
    several = json.dumps({"changes": [JSON, JSON]}).encode()
    assert read_body(ReconfigureBody, several).to_change().changes == (CHANGE, CHANGE)
    with pytest.raises(MalformedError, match="change: slow_down: times: expected int <= 9, got 10"):
        read_body(PlanBody, json.dumps({"change": {**JSON, "times": 10}}).encode())
    document = schemas()
    assert document["Change"]["discriminator"]["mapping"]["slow_down"].endswith("/SlowDown")
    assert document["SlowDown"]["required"] == ["kind", "by_ms"]
    assert document["SlowDown"]["properties"]["times"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 9,
        "default": 1,
        "description": "How often.",
    }


def test_the_tables_of_the_documentation_have_it():
    assert (
        "| `slow_down(by_ms, times=1)` | Lengthen the distance between timestep starts. |"
        in in_python()
    )
    assert any(row.startswith("| `slow-down TIME [--times N]` |") for row in on_the_command_line())
    meanings = "`by_ms`: Milliseconds to add. `times` (optional): How often."
    assert f"| `slow_down` | {meanings} |" in over_http()


def test_a_kind_is_registered_once():
    with pytest.raises(ValueError, match="'slow_down' is registered already"):
        KINDS.register(SlowDown)


def test_what_only_the_engine_makes_is_not_offered():
    for kind in ("change_program", "together"):
        assert kind not in dir(changes)
        with pytest.raises(AttributeError, match="there is no change"):
            getattr(changes, kind)
