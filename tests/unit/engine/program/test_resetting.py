"""A source that begins again at another place, also if its driver dies at any write of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from rechannel.engine.journal.acts import acts_of
from rechannel.engine.journal.folds.timesteps import WITHDRAWN
from rechannel.engine.program.resetting import Reset
from rechannel.errors import RefusedError
from rechannel.sources.kafka.connector import KafkaConnector
from rechannel.testing import Crash, Fault, FaultKind
from tests.support.text_edits import World, before, found, rows

ASKED = Reset(source="in", accepted=True, cause="a test")


def start(world: World, reset: Reset | None, faults: Any = ()) -> None:
    world.harness = world.bench(before)
    world.harness.start(reset=reset, faults=faults)


def test_rows_are_read_again_and_state_stays():
    world = World(before)
    start(world, ASKED)
    assert world.state.offsets == {"in": {"batches": 0}}
    assert not world.state.open_intents
    world.harness.process.run()
    assert found(world.harness, "op") == rows("n", "total", a=(3, 12), b=(2, 4))
    [act] = acts_of(world.state.notes)
    assert (act["kind"], act["cause"], act["timestep"]) == ("reset", "a test", 1)
    assert act["what"] == "source 'in' from {'batches': 1} to {'batches': 0}"


def test_what_is_not_accepted_is_refused_with_where_it_would_go():
    world = World(before)
    number = world.state.number
    with pytest.raises(
        RefusedError, match=r'from {"batches": 1} to {"batches": 0}.*accept_repeats_and_gaps=True'
    ):
        start(world, Reset(source="in"))
    assert world.state.number == number


@pytest.mark.parametrize(
    ("reset", "said"),
    [
        (Reset(source="nowhere"), "the program has no source 'nowhere'"),
        (Reset(source="in", to=datetime.now(UTC)), "can be reset to where a new job begins only"),
    ],
)
def test_what_cannot_be_reset(reset, said):
    world = World(before)
    number = world.state.number
    with pytest.raises(RefusedError, match=said):
        start(world, reset)
    assert world.state.number == number


def test_a_source_that_is_there_already_keeps_the_timesteps_that_are_open():
    world = World(before, in_flight=False)
    start(world, ASKED)
    process = world.harness.process
    while not world.state.open_intents:
        process.step()
    assert world.state.offsets == {"in": {"batches": 0}}
    planned = world.state.open_intents
    start(world, ASKED)
    assert (world.state.open_intents, world.state.notes.get(WITHDRAWN)) == (planned, None)
    assert len(acts_of(world.state.notes)) == 1


@pytest.mark.parametrize("kind", [FaultKind.BEFORE, FaultKind.AFTER])
def test_a_reset_whose_driver_dies_at_any_write(kind):
    outcomes = set()
    for writes in count():
        world, armed = World(before), [True]

        def faults(writes: int = writes, armed: list[bool] = armed) -> Iterator[Fault | None]:
            yield from [None] * writes
            if armed[0]:
                yield Fault(kind=kind)

        try:
            start(world, ASKED, faults())
            armed[0] = False
            world.harness.process.run()
        except Crash:
            done = bool(acts_of(world.state.notes))
            outcomes.add(done)
            start(world, None if done else ASKED)
            world.harness.process.run()
        assert found(world.harness, "op") == rows("n", "total", a=(3, 12), b=(2, 4))
        assert len(acts_of(world.state.notes)) == 1
        if not armed[0]:
            break
    assert outcomes == {False, True} or kind is FaultKind.BEFORE


def test_a_topic_begins_at_a_time_or_at_offsets():
    topic = KafkaConnector(bootstrap="host:9092", topics=("clicks",))
    then = datetime(2026, 1, 31, tzinfo=UTC)
    assert topic.beginning_at(then).starting == then
    assert topic.beginning_at({"clicks": {0: 7}}).starting == {"clicks": {0: 7}}
    assert topic.beginning_at(None).starting == "earliest"
    with pytest.raises(RefusedError, match="has no time zone"):
        topic.beginning_at(datetime(2026, 1, 31))  # noqa: DTZ001 - that is what is wrong
