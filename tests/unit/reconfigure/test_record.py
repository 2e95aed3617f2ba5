"""One reconfiguration as the fold of its events: what may happen in which phase, and what stays of it."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import pytest

from rechannel import changes
from rechannel.model.codec import decode, encode
from rechannel.reconfigure import strategies
from rechannel.reconfigure.events import (
    Finished,
    Planned,
    Prepared,
    Requested,
    Resumed,
    Reversed,
    Stepped,
    event_from_json,
)
from rechannel.reconfigure.record import (
    OPEN,
    TABLE,
    UNDER_WAY,
    Phase,
    Record,
    TakenStep,
    begun,
    cut_step,
)
from rechannel.reconfigure.steps import Assign, BinMove, Step

MOVES = tuple(
    BinMove(operator="counts", lo=i, hi=i + 1, source=0, target=1, size=10.0) for i in range(3)
)
FIRST, LAST = (
    Assign(operator="counts", name="tasks", value=2),
    Assign(operator="counts", name="starts", value=["0"]),
)
WHOLE = Step(first=(FIRST,), moves=MOVES, last=(LAST,))
JSON = encode(WHOLE)

ASKED = Requested(
    id="r1",
    time_ms=100,
    change=changes.rescale("counts", 2).to_json(),
    strategy=strategies.fluid().to_json(),
    cause="a test",
    at_timestep=7,
    steps=(JSON,),
)
EVENTS = {
    "requested": ASKED,
    "prepared": Prepared(id="r1", time_ms=200, facts={"bytes": 5}),
    "planned": Planned(id="r1", time_ms=300, steps=(JSON, JSON), base={"operators": {}}),
    "stepped": Stepped(id="r1", time_ms=400, timestep=9),
    "reversed": Reversed(id="r1", time_ms=500, steps=(JSON,), reason="back"),
    "resumed": Resumed(id="r1", time_ms=600, timestep=9),
}
OUTCOMES = ("done", "undone", "aborted", "superseded", "failed")


def finished(outcome: str, reason: str = "") -> Finished:
    return Finished(id="r1", time_ms=700, outcome=outcome, reason=reason)  # type: ignore[arg-type]


def in_phase(phase: Phase) -> Record:
    """A record as if it were in a phase, with two steps to make."""
    return replace(begun(ASKED), phase=phase, steps=(WHOLE, WHOLE), times={})


EVERY_EVENT = [*EVENTS.values(), *map(finished, OUTCOMES)]


@pytest.mark.parametrize(
    ("phase", "event"),
    list(product(Phase, EVERY_EVENT)),
    ids=lambda value: str(getattr(value, "outcome", None) or getattr(value, "kind", value)),
)
def test_what_the_table_allows_happens_and_nothing_else(phase, event):
    record = in_phase(phase)
    allowed = TABLE.get((phase, event.kind), frozenset())
    if isinstance(event, Finished):
        allowed &= {Phase(event.outcome)}
    if not allowed:
        with pytest.raises(ValueError, match=f"r1 is {phase}: {event.kind} .*cannot happen"):
            record.after(event)
        return
    after = record.after(event)
    assert {after.phase} == allowed
    assert after.times == ({} if after.phase == phase else {str(after.phase): event.time_ms})


def test_the_table_has_no_way_out_of_the_end_and_reaches_every_phase():
    ends = set(Phase) - OPEN
    assert {phase for phase, _ in TABLE} == {*OPEN, Phase.DONE}
    assert set().union(*TABLE.values()) == set(Phase)
    assert ends == {Phase(outcome) for outcome in OUTCOMES}
    assert UNDER_WAY < OPEN


def test_a_record_begins_as_it_was_asked_for():
    record = begun(ASKED)
    assert (record.id, record.phase, record.cause) == ("r1", Phase.WAITING, "a test")
    assert record.change == changes.rescale("counts", 2)
    assert record.strategy == strategies.fluid()
    assert (record.at_timestep, record.at_ms, record.fixed) == (7, None, (WHOLE,))
    assert record.times == {"waiting": 100}
    assert record.touches == {"counts"}
    assert (record.open, record.under_way, record.left, record.last_timestep) == (
        True, False, (), None,
    )  # fmt: skip
    assert begun(replace(ASKED, steps=None)).fixed is None


def test_phases_are_dated_when_they_are_first_entered():
    record = begun(ASKED).after(EVENTS["prepared"])
    again = record.after(EVENTS["resumed"]).after(
        Prepared(id="r1", time_ms=9000, facts={"bytes": 6})
    )
    assert again.times == {"waiting": 100, "ready": 200}
    assert again.prepared == {"bytes": 6}


def test_what_was_prepared_has_to_be_prepared_by_the_next_driver():
    record = begun(ASKED).after(EVENTS["prepared"]).after(EVENTS["resumed"])
    assert (record.phase, record.drivers) == (Phase.WAITING, 1)
    moving = record.after(EVENTS["planned"]).after(EVENTS["resumed"])
    assert (moving.phase, moving.drivers) == (Phase.MOVING, 2)


def test_where_executors_have_other_names_neither_its_steps_nor_the_way_back_put_tasks_anywhere():
    placed = Assign(operator="counts", name="placement", value=[[0, "1"]])
    step = replace(WHOLE, first=(FIRST, placed), last=(placed, LAST))
    asked = replace(ASKED, steps=(encode(step),))
    base = {"operators": {"counts": {"tasks": 2, "placement": [[0, "1"]]}}, "job": {}}
    planned = Planned(id="r1", time_ms=300, steps=(encode(step),), base=base)
    record = begun(asked).after(planned)
    assert record.after(EVENTS["resumed"]).steps == (step,)
    after = record.after(Resumed(id="r1", time_ms=600, timestep=9, unplaced=True))
    assert (after.steps, after.fixed) == ((WHOLE,), (WHOLE,))
    assert after.base == {"operators": {"counts": {"tasks": 2, "placement": []}}, "job": {}}


def test_steps_are_made_one_by_one():
    record = begun(ASKED).after(EVENTS["planned"])
    assert (record.left, record.base) == ((WHOLE, WHOLE), {"operators": {}})
    record = record.after(EVENTS["stepped"])
    assert record.left == (WHOLE,)
    assert record.taken == (TakenStep(timestep=9, time_ms=400, bins=3, size=30.0),)
    assert record.last_timestep == 9
    record = record.after(Stepped(id="r1", time_ms=401, timestep=10))
    assert record.left == ()
    with pytest.raises(ValueError, match="r1 has no step left for timestep 11"):
        record.after(Stepped(id="r1", time_ms=402, timestep=11))


def test_a_part_of_a_step_leaves_the_rest_for_later():
    record = begun(ASKED).after(EVENTS["planned"])
    record = record.after(Stepped(id="r1", time_ms=400, timestep=9, moves=1))
    assert record.taken[0].bins == 1
    assert record.left == (Step(moves=MOVES[1:], last=(LAST,)), WHOLE)
    whole = record.after(Stepped(id="r1", time_ms=400, timestep=9, moves=2))
    assert whole.left == (WHOLE,)


def test_a_step_in_two_is_the_step():
    one, other = cut_step(WHOLE, 2)
    assert (one.first, one.last, other.first, other.last) == ((FIRST,), (), (), (LAST,))
    assert one.moves + other.moves == WHOLE.moves


def test_the_way_back_takes_the_place_of_the_steps_that_were_left():
    record = begun(ASKED).after(EVENTS["planned"]).after(EVENTS["stepped"])
    back = Step(moves=MOVES[:1])
    record = record.after(
        Reversed(id="r1", time_ms=500, steps=(encode(back),), reason="changed my mind")
    )
    assert (record.phase, record.left) == (Phase.REVERSING, (back,))
    assert len(record.taken) == 1
    over = record.after(EVENTS["stepped"]).after(finished("undone"))
    assert (over.phase, over.reason, len(over.taken)) == (Phase.UNDONE, "changed my mind", 2)


def test_of_one_that_is_over_the_way_is_forgotten_and_what_was_done_stays():
    record = begun(ASKED).after(EVENTS["planned"]).after(EVENTS["stepped"])
    over = record.after(finished("failed", "no luck"))
    assert (over.steps, over.next, over.base, over.fixed, over.left) == ((), 0, {}, None, ())
    assert (over.reason, len(over.taken), over.open) == ("no luck", 1, False)


def test_a_record_is_read_as_it_was_written():
    record = begun(ASKED)
    for event in (None, EVENTS["prepared"], EVENTS["planned"], EVENTS["stepped"], finished("done")):
        record = record if event is None else record.after(event)
        assert decode(Record, json.loads(json.dumps(encode(record)))) == record
    plain = begun(replace(ASKED, steps=None, at_timestep=None, at_ms=5))
    assert decode(Record, json.loads(json.dumps(encode(plain)))) == plain


@pytest.mark.parametrize("event", EVERY_EVENT, ids=lambda e: getattr(e, "outcome", e.kind))
def test_an_event_is_read_as_it_was_written(event):
    assert event_from_json(json.loads(json.dumps(event.to_json()))) == event


def test_what_is_no_event_is_no_event():
    with pytest.raises(ValueError, match="kind"):
        event_from_json({"kind": "exploded", "id": "r1", "time_ms": 1})
