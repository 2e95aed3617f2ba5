"""How far event time has come."""

import json
import pickle

import pytest

from rechannel.model.codec import decode, encode
from rechannel.model.eventtime import ENDED, NEVER, Mark, TimeInput, Times, advance

A, B = TimeInput(name="a", delay_us=10), TimeInput(name="b")
LAZY = TimeInput(name="b", idle_ms=100)


def run(inputs, *timesteps):
    """Watermarks after timesteps of (time, seen)."""
    times, out = Times(), []
    for stream_ms, seen in timesteps:
        times = advance(times, inputs, seen, stream_ms)
        out.append(times.watermark)
    return out


def test_before_any_row_nothing_is_complete():
    assert Times().watermark == NEVER
    assert run([A], (0, {}), (1, {})) == [NEVER, NEVER]
    assert run([], (0, {})) == [NEVER]


def test_it_is_the_latest_row_less_the_delay():
    assert run([A], (0, {"a": 100}), (1, {}), (2, {"a": 105})) == [90, 90, 95]


def test_it_never_goes_back():
    assert run([A], (0, {"a": 100}), (1, {"a": 50}), (2, {"a": 101})) == [90, 90, 91]


def test_it_is_that_of_the_slowest_input():
    assert run([A, B], (0, {"a": 100}), (1, {"b": 20}), (2, {"b": 500})) == [NEVER, 20, 90]


def test_an_idle_input_holds_nobody_back_until_it_is_back():
    steps = [(0, {"a": 100, "b": 50}), (100, {"a": 200}), (101, {"a": 300}), (102, {"b": 60})]
    assert run([A, LAZY], *steps) == [50, 50, 290, 290]
    # It was there from the first timestep on, without any row.
    assert run([A, LAZY], (0, {"a": 100}), (100, {}), (101, {})) == [NEVER, NEVER, 90]


def test_when_all_are_idle_time_stands_still():
    assert run([LAZY], (0, {"b": 50}), (500, {}), (501, {"b": 60})) == [50, 50, 60]


def test_an_operator_hands_on_its_own():
    assert run([B], (0, {"b": ENDED})) == [ENDED]
    assert run([A], (0, {"a": ENDED})) == [ENDED]
    assert run([A], (0, {"a": NEVER})) == [NEVER]


def test_inputs_that_went_are_forgotten_and_new_ones_begin():
    times = advance(Times(), [A], {"a": 100}, 0)
    times = advance(times, [B], {"b": 95}, 1)
    assert set(times.marks) == {"b"}
    assert times.watermark == 95


@pytest.mark.parametrize(
    "times", [Times(), Times(watermark=5, marks={"a": Mark(latest=7, active_ms=3)})]
)
def test_it_survives_json_and_pickle(times):
    assert decode(Times, json.loads(json.dumps(encode(times)))) == times
    assert pickle.loads(pickle.dumps(times)) == times
    with pytest.raises(TypeError):
        times.marks["a"] = Mark()


def test_input_that_is_finished_is_at_its_end():
    done = TimeInput(name="a", delay_us=10, finished=True)
    assert run([done], (0, {"a": 100})) == [ENDED]
    assert run([done], (0, {})) == [ENDED]
    assert run([done, B], (0, {"b": 5})) == [5]
