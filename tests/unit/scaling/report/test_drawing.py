"""Charts: what is drawn lies where its figures say, and within the picture."""

from __future__ import annotations

import re
import xml.etree.ElementTree as Xml

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.scaling.needs.words import between, short
from rechannel.scaling.report.drawing import (
    BAR_WIDTH,
    HEIGHT,
    WIDTH,
    Axis,
    axes,
    bar,
    clock,
    drawn,
    step,
    stepped,
)
from rechannel.scaling.report.parts import Band, Bar, Chart, Dots, Event, Level, Line, Mark

values = st.floats(0, 1e12, allow_nan=False)
points = st.lists(st.tuples(values, values), max_size=5).map(tuple)


def svg_of(chart):
    text = drawn(chart)
    return Xml.fromstring(re.search(r"<svg.*</svg>", text, re.DOTALL)[0])


@given(points, points, st.booleans())
def test_everything_lies_within_the_picture(first, second, times):
    chart = Chart(
        title="t", x="cores", y="ms", times=times,
        lines=(Line(name="a", points=first, steps=True),) if first else (),
        bands=(Band(name="b", points=tuple((x, y, 2 * y) for x, y in second)),) if second else (),
        dots=(Dots(name="d", points=second),),
        marks=tuple(Mark(name="m", at=at) for at in first),
        levels=(Level(name="l", y=3),),
    )  # fmt: skip
    if times and any(x > 1e10 for x, _ in (*first, *second)):
        return  # no year
    for each in svg_of(chart).iter():
        for name, most in (
            ("cx", WIDTH),
            ("x1", WIDTH),
            ("x2", WIDTH),
            ("cy", HEIGHT),
            ("y1", HEIGHT),
        ):
            assert 0 <= float(each.get(name, 0)) <= most
        for x, y in re.findall(r"([-\d.]+) ([-\d.]+)", each.get("d", "")):
            assert 0 <= float(x) <= WIDTH
            assert 0 <= float(y) <= HEIGHT


def test_marks_lie_on_the_line_that_they_belong_to():
    line = ((1.0, 900.0), (2.0, 500.0), (4.0, 300.0))
    chart = Chart(
        title="t", x="cores", y="ms",
        lines=(Line(name="timestep", points=line),),
        marks=(Mark(name="now", at=(2, 500)), Mark(name="advised", at=(4, 300), advised=True)),
    )  # fmt: skip
    found = svg_of(chart)
    x, y = axes(chart)
    [path] = [each for each in found.iter() if each.get("class") == "line"]
    drawn_at = [tuple(map(float, p.split())) for p in path.get("d")[1:].split("L")]
    assert drawn_at == [(x.at(a), y.at(b)) for a, b in line]
    spots = {
        e.get("class"): (float(e.get("cx")), float(e.get("cy")))
        for e in found.iter()
        if e.get("cx")
    }
    assert spots == {"present": drawn_at[1], "advised": drawn_at[2]}
    titles = [each.text for each in found.iter("title")]
    assert titles == ["timestep", "now: 2, 500", "advised: 4, 300"]


def test_times_begin_where_the_windows_do():
    lines = (Line(name="a", points=((1_000.0, 3.0), (1_060.0, 9.0))),)
    chart = Chart(
        title="t", x="time", y="rows", lines=lines, times=True, events=(Event(name="e", x=1_030),)
    )
    x, _ = axes(chart)
    assert (x.low, x.high) == (1_000, 1_060)
    [event] = [each for each in svg_of(chart).iter() if each.get("class") == "event"]
    assert float(event.get("x1")) == x.at(1_030) == (x.start + x.end) / 2


def test_a_chart_of_nothing_is_a_frame():
    assert len(list(svg_of(Chart(title="t", x="cores", y="ms")).iter("text"))) > 2


@pytest.mark.parametrize(
    ("extent", "size"), [(10, 2), (9, 2), (5, 1), (1, 0.2), (0.7, 0.2), (30, 10), (100, 20), (6_360, 2_000)]
)  # fmt: skip
def test_ticks_are_round(extent, size):
    assert step(extent) == pytest.approx(size)
    ticks = Axis(0, extent, 0, 100).ticks
    assert ticks == pytest.approx([size * n for n in range(len(ticks))])
    assert ticks[-1] <= extent < ticks[-1] + size * 1.001


def test_what_has_no_fractions_has_no_ticks_between():
    assert Axis(0, 2, 0, 100, whole=True).ticks == [0, 1, 2]


def test_a_value_holds_until_the_next_one():
    assert stepped([(0, 1), (5, 2), (6, 2)]) == [(0, 1), (5, 1), (5, 2), (6, 2), (6, 2)]


def test_a_bar_has_all_of_its_numbers():
    made = Xml.fromstring(bar(Bar(present=2, advised=6, low=4, high=8, most=8)))
    assert made.get("aria-label") == "2 now, 6 advised (4 to 8)"
    at = {e.get("class"): e for e in made.iter()}
    ends = [float(at["interval"].get(name)) for name in ("x1", "x2")]
    width = BAR_WIDTH - 16
    assert ends == [8 + width / 2, 8 + width]
    assert float(at["present"].get("cx")) == 8 + width / 4
    assert float(at["advised"].get("cx")) == 8 + width * 3 / 4


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (0.25, "0.25"), (3.92e-13, "< 0.001"), (12.345, "12.3"), (999.6, "1,000"), (2_000, "2,000"),
        (9_999.7, "10 k"), (12_345, "12.3 k"), (999_499, "999 k"), (999_600, "1 M"), (1_250_000, "1.25 M"),
        (3e9, "3 G"), (2.5e12, "2,500 G"),
    ],
)  # fmt: skip
def test_figures_have_three_digits_and_no_exponent(value, text):
    assert short(value) == text


def test_words():
    assert (between(3, 3), between(3, 5)) == ("3", "3 to 5")
    assert clock(3_661) == "01:01:01"
