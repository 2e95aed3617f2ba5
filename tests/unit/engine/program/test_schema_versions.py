"""Passages between eras of state: a tree towards the present one, which can be turned around."""

from __future__ import annotations

from typing import Any

from rechannel.engine.program.schema_versions import LOST, TIMED, UNKNOWN, directed, pruned, turned


def migration(name: str, expired: int | None = None, **more: Any) -> dict[str, Any]:
    told = {"name": name, "expired_before_ms": expired, "using": None, "steps": [{"carry": 0}]}
    return told | more


def passage(source: str, target: str, back: bool = True, **more: Any) -> dict[str, Any]:
    return {
        "from": source,
        "to": target,
        "migration": migration(f"{source}>{target}"),
        "back": migration(f"{target}>{source}") if back else None,
        "no_way_back": "" if back else f"{target} cannot become {source}",
    } | more


def named(way: Any) -> list[tuple[str, str, str]]:
    assert not isinstance(way, str), way
    return [(one["from"], one["to"], one["migration"]["name"]) for one in way]


def nothing() -> frozenset[str]:
    raise AssertionError


def test_a_chain_of_before_says_where_it_leads():
    chain = [{"from": "a", "migration": 1}, {"from": "b", "migration": 2}]
    assert [(one["from"], one["to"]) for one in directed(chain, "c")] == [("a", "b"), ("b", "c")]
    assert directed(directed(chain, "c"), "never") == directed(chain, "c")
    assert directed([], "c") == []


def test_only_leaves_of_which_nothing_is_stored_go():
    way = [passage("a", "b"), passage("b", "c"), passage("x", "c")]
    assert pruned(way, {"a"}) == way[:2]
    assert pruned(way, {"b", "x"}) == way[1:]
    assert pruned(way, ()) == []
    assert pruned(way, (), left="b") == [way[1]]


def test_the_way_is_turned_around_as_far_as_the_era_that_is_meant():
    way = [passage("a", "b"), passage("b", "c"), passage("x", "c")]
    assert named(turned(way, "b", nothing)) == [
        ("a", "b", "a>b"), ("x", "c", "x>c"), ("c", "b", "c>b"),
    ]  # fmt: skip
    assert sorted(named(turned(way, "a", nothing))) == [
        ("b", "a", "b>a"), ("c", "b", "c>b"), ("x", "c", "x>c"),
    ]  # fmt: skip
    there = turned(way, "a", nothing)
    assert not isinstance(there, str)
    assert sorted(named(turned(there, "c", nothing))) == sorted(named(way))


def test_what_cannot_be_turned_is_no_matter_where_nothing_is_stored():
    way = [passage("a", "b", back=False)]
    assert turned(way, "a", lambda: frozenset({"a"})) == []
    assert turned(way, "a", lambda: frozenset({"a", "b"})) == "b cannot become a"
    assert turned(way, "a", lambda: None) == "b cannot become a"
    beside = [*way, passage("x", "b")]
    assert turned(beside, "a", lambda: frozenset({"x"})) == "b cannot become a"


def test_a_journal_of_before_has_no_way_back():
    old = {name: value for name, value in passage("a", "b").items() if "back" not in name}
    assert turned([old], "a", lambda: None) == UNKNOWN
    assert turned([old], "a", lambda: frozenset({"a"})) == []


def test_an_era_that_is_forgotten_is_not_led_back_to():
    reason = turned([passage("a", "b")], "z", nothing)
    assert isinstance(reason, str)
    assert "the way back is forgotten" in reason


def test_what_follows_from_the_time_of_the_change_is_turned_once_only():
    way = [passage("a", "b", migration=migration("a>b", expired=7))]
    there = turned(way, "a", nothing)
    assert not isinstance(there, str)
    assert there[0]["back"] is None
    assert turned(there, "b", lambda: None) == TIMED


def test_what_loses_something_there_and_back_is_turned_once_only():
    adds = migration("a>b", steps=[{"carry": 0}, {"fill": "0"}])
    there = turned([passage("a", "b", migration=adds)], "a", nothing)
    assert not isinstance(there, str)
    assert turned(there, "b", lambda: None) == LOST
    promised = migration("b>a", using={"path": "m:back"})
    there = turned([passage("a", "b", migration=adds) | {"back": promised}], "a", nothing)
    assert named(turned(there, "b", nothing)) == [("a", "b", "a>b")]
