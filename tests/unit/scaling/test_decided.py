"""Decisions are known by the shape of a controller's state, and are told again when they say something else."""

from __future__ import annotations

import pytest

from rechannel.scaling.decided import (
    MOST_SHOWN,
    Decided,
    decisions_in,
    decisions_since,
    finite,
    story,
)


def made(number: int, **other) -> Decided:
    return Decided(
        **{"timestep": number, "at_ms": 10 * number, "outcome": "enough", "why": "", **other}
    )


def state(*decisions: Decided):
    return {"looked": 3, "decisions": [each.to_dict() for each in decisions]}


FULL = made(
    4,
    outcome="changed",
    why="counts 1 -> 4",
    parallelism={"counts": 4},
    executors=2,
    changes=("rebalance(operator='counts')",),
    evidence={"cores": 3, "operators": {"counts": {"row_ms": 0.5}}},
    remedies={"counts": "split"},
    became="r1: done",
)


def test_decisions_are_read_from_a_state_as_json():
    assert decisions_in(state(made(1), FULL)) == (made(1), FULL)


def test_states_that_show_none():
    for other in (None, 3, [], {}, {"decisions": 3}, {"decisions": {"a": 1}}):
        assert decisions_in(other) == ()


def test_what_has_another_shape_is_left_out():
    mixed = state(FULL)
    mixed["decisions"] += ["a text", {"timestep": 3}, {**FULL.to_dict(), "timestep": "three"}]
    assert decisions_in(mixed) == (FULL,)


def test_a_decision_is_of_a_timestep():
    with pytest.raises(ValueError, match=r"Decided\(timestep=-1\): give the number of a timestep"):
        made(-1)
    mixed = state(FULL)
    mixed["decisions"].append({**FULL.to_dict(), "timestep": -1})
    assert decisions_in(mixed) == (FULL,)


def test_only_the_latest_are_read():
    many = [made(number) for number in range(MOST_SHOWN + 5)]
    assert decisions_in(state(*many)) == tuple(many[5:])


def test_new_decisions_and_those_with_a_new_end_are_told():
    done = made(2, outcome="changed", became="r1: done")
    before = state(made(1), made(2, outcome="changed"))
    assert decisions_since(before, state(made(1), done, made(3))) == (done, made(3))
    assert decisions_since(before, before) == ()
    assert decisions_since(None, before) == decisions_in(before)


def test_what_is_not_finite_is_not_known():
    figures = {"a": float("inf"), "b": {"c": [1.5, float("nan")]}, "d": "inf", "e": 3}
    assert finite(figures) == {"a": None, "b": {"c": [1.5, None]}, "d": "inf", "e": 3}


def test_the_story_has_each_decision_once_and_no_row_of_idle_ones():
    began = made(2, outcome="changed", parallelism={"counts": 4})
    done = made(2, outcome="changed", parallelism={"counts": 4}, became="r1: done")
    again = made(3, outcome="changed", parallelism={"counts": 5})
    told = [made(1), began, made(4), again, done, made(5), made(6), made(7, outcome="cap")]
    assert story(told) == (made(1), done, again, made(6), made(7, outcome="cap"))
    assert story([]) == ()
    many = [made(n, outcome=f"{n}") for n in range(MOST_SHOWN + 3)]
    assert story(many) == tuple(many[3:])
