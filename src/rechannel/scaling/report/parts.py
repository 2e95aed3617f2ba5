"""What a page of advice is made of, as values. What they look like is in `drawing.py` and `page.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Point: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Points that are connected, in their order."""

    name: str
    points: tuple[Point, ...]
    steps: bool = False
    """Whether a value holds until the next point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """An area between two lines."""

    name: str
    points: tuple[tuple[float, float, float], ...]
    """(x, low, high)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dots:
    """Points that are not connected."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One point with a name: what there is, or what is advised."""

    name: str
    at: Point
    advised: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A bound, across the chart."""

    name: str
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened, on the axis of times."""

    name: str
    x: float
    strong: bool = False
    """Whether it changed something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture with two axes, both from 0 on unless it shows times."""

    title: str
    x: str
    y: str
    """What the axes show, with units."""
    lines: tuple[Line, ...] = ()
    bands: tuple[Band, ...] = ()
    dots: tuple[Dots, ...] = ()
    marks: tuple[Mark, ...] = ()
    levels: tuple[Level, ...] = ()
    events: tuple[Event, ...] = ()
    times: bool = False
    """Whether x is seconds of a time, which need not begin at 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """In a cell: a number that there is, one that is advised, and its interval."""

    present: float
    advised: float
    low: float
    high: float
    most: float
    """Of all bars of the column."""


Cell: TypeAlias = str | Bar


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of texts, figures and bars."""

    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    texts: frozenset[str] = frozenset()
    """Heads of columns of words, which are aligned left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What follows, in words."""

    title: str
    text: str
    facts: tuple[str, ...] = ()
    weighty: bool = False


Part: TypeAlias = Chart | Table | Card


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading with what belongs to it."""

    id: str
    title: str
    parts: tuple[Part, ...]
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """All of it."""

    title: str
    about: str
    sections: tuple[Section, ...]
    notes: tuple[str, ...]
    record: Mapping[str, Any]
    """The advice as JSON values, which the page carries."""
