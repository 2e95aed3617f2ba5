"""Calls with former names of arguments are refused with the present ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import DataflowError


def orders() -> Any:
    return rc.read().memory("user STRING, price BIGINT, at TIMESTAMP", name="orders")


FORMER: list[tuple[Callable[[Any], Any], str]] = [
    (lambda s: s.window(rc.windows.tumbling("1 hour"), on="at"), "window .* on=; use time_column="),
    (lambda s: s.deduplicate("user", within=5, on="at"), "deduplicate .* on=; use time_column="),
    (
        lambda s: s.key_by("user").track(max, state="n INT", initialise=max),
        "track .* initialise=; use init_state=",
    ),
    (
        lambda s: s.key_by("user").running_reduce(max, initial=max),
        "running_reduce .* initial=; use preload=",
    ),
    (
        lambda s: s.key_by("user").running(on="at", n=agg.lag("price")),
        "running .* use time_column=",
    ),
    (
        lambda s: s.key_by("user").aggregate(n=agg.count(), initial=lambda: None),
        "aggregate .* initial=; use preload=",
    ),
    (lambda s: s.asof_join(right=s, on="user"), "asof_join .* right=; use other="),
    (
        lambda s: s.join(orders(), on="user", left_time="at"),
        "join .* left_time=; use left_time_column=",
    ),
]


@pytest.mark.parametrize(("build", "words"), FORMER)
def test_a_former_name_of_an_argument_is_refused_with_the_present_one(
    build: Callable[[Any], Any], words: str
) -> None:
    with pytest.raises(DataflowError, match=words):
        build(orders())


@pytest.mark.parametrize(("old", "new"), [("complete", "on_close"), ("change", "on_update")])
def test_a_former_value_of_emit_is_refused_with_the_present_one(old: Any, new: str) -> None:
    timed = orders().event_time("at")
    with pytest.raises(DataflowError, match=f"emit='{new}' is what emit='{old}' was"):
        timed.key_by("user").window(rc.windows.tumbling("1 hour"), emit=old)
    with pytest.raises(DataflowError, match=new):
        timed.key_by("user").window(rc.windows.tumbling("1 hour"), emit=old, time="processing")


def test_names_are_given_by_keyword() -> None:
    def same(value: Any) -> Any:
        return value

    stream: Any = orders()
    for call in (
        lambda: stream.transform(same, "named"),
        lambda: stream.map(same, "n INT", "named"),
        lambda: stream.flat_map(same, "n INT", "named"),
        lambda: stream.map_batches(same, None, "named"),
        lambda: stream.filter("price > 1", "named"),
        lambda: stream.key_by("user").running_reduce(same, "named"),
    ):
        with pytest.raises(TypeError, match="positional"):
            call()


def test_new_columns_may_have_any_name() -> None:
    keyed = orders().key_by("user")
    assert "initial" in keyed.aggregate(initial=agg.count(), name="a").schema.names
    assert "on" in keyed.running(on=agg.lag("price"), name="b").schema.names
