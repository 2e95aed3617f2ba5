"""When controllers begin."""

import pytest

import rechannel as rc
from rechannel.control.triggers import Moment
from rechannel.errors import RefusedError


def moment(timestep: int = 0, time_ms: int = 0, **more: object) -> Moment:
    return Moment(timestep=timestep, time_ms=time_ms, **more)  # type: ignore[arg-type]


def test_every_few_timesteps_and_at_once():
    trigger = rc.control.every(timesteps=3)
    assert trigger.due(moment(5), None)
    assert not trigger.due(moment(7), moment(5))
    assert trigger.due(moment(8), moment(5))


def test_every_few_seconds():
    trigger = rc.control.every(seconds=1.5)
    assert not trigger.due(moment(9, 1_499), moment(1, 0))
    assert trigger.due(moment(9, 1_500), moment(1, 0))
    assert trigger.due(moment(9, 5_000), moment(8, 9_000_000))  # the clock was set right


def test_by_hand_once_per_call():
    trigger = rc.control.by_hand()
    assert not trigger.due(moment(), None)
    assert trigger.due(moment(calls=1), None)
    assert not trigger.due(moment(calls=1), moment(calls=1))
    assert rc.control.every(timesteps=100).due(moment(2, calls=2), moment(1, calls=1))


def test_events_count_once():
    trigger = rc.control.on("change_done")
    assert not trigger.due(moment(), None)
    assert trigger.due(moment(events={"change_done": 2}), None)
    assert not trigger.due(moment(events={"change_done": 2}), moment(events={"change_done": 2}))


def test_an_operation_after_each_measured_timestep_makes_none():
    measured, done = rc.control.on("measured"), rc.control.on("change_done")
    assert measured.due(moment(2, measured=2), moment(1, measured=1))
    assert not measured.urgent(moment(2, measured=2), moment(1, measured=1))
    assert measured.urgent(moment(2, calls=2), moment(1, calls=1))
    assert done.urgent(moment(events={"change_done": 1}), None)


def test_a_watermark_fires_once():
    trigger = rc.control.on("watermark", at_ms=1_000)
    assert not trigger.due(moment(events={"watermark": 999}), None)
    assert trigger.due(moment(events={"watermark": 1_200}), moment(events={"watermark": 500}))
    assert not trigger.due(moment(events={"watermark": 1_300}), moment(events={"watermark": 1_200}))


def test_a_metric_fires_once_per_timestep():
    trigger = rc.control.when("duration_ms", above=500)
    assert not trigger.due(moment(3), None)
    assert not trigger.due(moment(3, progress={"duration_ms": 500}), None)
    assert trigger.due(moment(3, progress={"duration_ms": 501}), moment(2))
    assert not trigger.due(moment(3, progress={"duration_ms": 501}), moment(3))
    below = rc.control.when("rows_in", below=1)
    assert below.due(moment(3, progress={"rows_in": 0}), None)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (rc.control.every, "give one of the two"),
        (lambda: rc.control.every(timesteps=0), "above 0"),
        (lambda: rc.control.every(timesteps=1, seconds=1), "give one of the two"),
        (lambda: rc.control.on("rain"), "there is no such event; there are change_done"),
        (lambda: rc.control.on("watermark"), "needs the event time"),
        (lambda: rc.control.on("change_done", at_ms=1), "needs the event time"),
        (lambda: rc.control.when("mood", above=1), "there is no such metric; there are duration"),
        (lambda: rc.control.when("rows_in"), "give above= or below="),
    ],
)
def test_wrong_triggers_are_refused(make, message: str):
    with pytest.raises(RefusedError, match=message):
        make()
