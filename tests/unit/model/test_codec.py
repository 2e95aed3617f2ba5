"""What the annotations of a record say of its form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any

import pytest

from rechannel.model.codec import ABSENT, closed, decode, encode, form, sparse, written


class Colour(StrEnum):
    RED = "red"


@closed
@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    count: int
    id: Annotated[str, ABSENT] = ""
    ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    leaves: Mapping[str, Leaf] = field(default_factory=dict)
    row: tuple[Leaf, ...] = ()
    colour: Colour = Colour.RED
    data: Any = None
    best: Leaf | None = None
    steps: Annotated[tuple[int, ...], ABSENT] = ()
    notes: Annotated[Mapping[str, Any], ABSENT] = field(default_factory=dict)
    span: Annotated[int, written("width", encode=str, decode=int)] = 0

    def __post_init__(self):
        object.__setattr__(self, "notes", MappingProxyType(dict(self.notes)))


@sparse
class Base:
    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Base):
    first: int = 0
    name: str
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int


form(Point, encode=lambda point: [point.x, point.y], decode=lambda data: Point(*data))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    points: tuple[Point, ...]


EMPTY = {"leaves": {}, "row": [], "colour": "red", "data": None, "best": None, "width": "0"}


def test_an_optional_member_is_left_out_while_it_has_its_default():
    assert encode(Tree()) == EMPTY
    full = encode(Tree(steps=(1,), notes={"a": 1}))
    assert (full["steps"], full["notes"]) == ([1], {"a": 1})


def test_a_record_in_a_record_is_read_as_it_was_written():
    leaf = Leaf(count=2**70, id="a", ms=1)
    tree = Tree(leaves={"a": leaf}, row=(leaf, leaf), data={"a": [1, None]}, best=leaf, span=2**64)
    assert encode(tree)["width"] == "18446744073709551616"
    assert decode(Tree, encode(tree)) == tree


def test_a_sparse_record_keeps_the_order_of_its_fields():
    assert encode(Event(name="a", cost=float("0"))) == {"name": "a"}
    assert list(encode(Event(name="a", first=3))) == ["first", "name"]


def test_a_class_may_have_a_form_of_its_own():
    shape = Shape(points=(Point(1, 2), Point(3, 4)))
    assert encode(shape) == {"points": [[1, 2], [3, 4]]}
    assert decode(Shape, encode(shape)) == shape


def test_a_number_is_taken_as_it_is():
    assert repr(decode(Leaf, {"count": 1, "ms": 2}).ms) == "2"


def test_unknown_members_are_ignored_where_the_record_is_not_closed():
    assert decode(Tree, {**EMPTY, "later": 1}) == Tree()
    with pytest.raises(ValueError, match="later"):
        decode(Leaf, {"count": 1, "later": 2})


@pytest.mark.parametrize(
    "data",
    [
        None,
        {"leaves": []},
        {"leaves": {"a": {}}},
        {"leaves": {"a": {"count": "1"}}},
        {"leaves": {"a": {"count": 1.5}}},
        {"leaves": {"a": {"count": True}}},
        {"leaves": {"a": {"count": 1, "ms": None}}},
        {"colour": "green"},
        {"row": 5},
    ],
)
def test_what_is_no_such_record_is_refused(data):
    with pytest.raises((KeyError, TypeError, ValueError)):
        decode(Tree, data)
