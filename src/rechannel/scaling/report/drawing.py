"""Charts as SVG. Pure.

Nothing is drawn by a script: a chart is there without one, in the colours of the page's theme, and each mark names its
figures when the reader points at it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

from rechannel.scaling.needs.words import short
from rechannel.scaling.report.parts import Bar, Chart, Point

WIDTH, HEIGHT = 540, 280
LEFT, RIGHT, TOP, BOTTOM = 62, 18, 14, 46
HUES = 6
"""Colours of lines, `--hue-0` and on; more lines have them again."""
TICKS = 5
WHOLE = ("cores", "tasks", "instances", "epoch", "rows", "rows of a task")
"""What axes show that has no fractions."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Values from `low` to `high`, on pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    whole: bool = False
    """Whether there are only whole numbers."""

    def at(self, value: float) -> float:
        """Return the pixel of a value, to a tenth."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    @property
    def ticks(self) -> list[float]:
        """About `TICKS` round numbers."""
        size = step(self.high - self.low)
        size = max(1.0, size) if self.whole else size
        first = math.ceil(self.low / size - 1e-9)
        last = math.floor(self.high / size + 1e-9)
        return [number * size for number in range(first, last + 1)]


def step(extent: float) -> float:
    """Return the distance of ticks: 1, 2 or 5 times a power of 10."""
    rough = extent / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * by for by in (1, 2, 5, 10) if power * by >= rough * (1 - 1e-9))


def axes(chart: Chart) -> tuple[Axis, Axis]:
    """Return both axes: everything that the chart shows lies within them."""
    xs, ys = (sorted(values) for values in zip(*_points(chart), strict=True))
    low = xs[0] if chart.times else min(0.0, xs[0])
    width = xs[-1] - low or 1.0
    height = (ys[-1] or 1.0) * 1.06
    right = low + width * (1.0 if chart.times else 1.04)
    x = Axis(low, right, LEFT, WIDTH - RIGHT, whole=chart.times or chart.x in WHOLE)
    return x, Axis(min(0.0, ys[0]), height, HEIGHT - BOTTOM, TOP, whole=chart.y in WHOLE)


def _points(chart: Chart) -> list[Point]:
    """Return all points of a chart; one at the origin if there are none."""
    found = [point for line in chart.lines for point in line.points]
    found += [point for dots in chart.dots for point in dots.points]
    found += [(x, y) for band in chart.bands for x, *ends in band.points for y in ends]
    found += [mark.at for mark in chart.marks]
    first = found[0][0] if found else 0.0
    found += [(first, level.y) for level in chart.levels]
    found += [(event.x, 0.0) for event in chart.events]
    return found or [(0.0, 0.0)]


def drawn(chart: Chart) -> str:
    """Return a chart as an element `figure`."""
    x, y = axes(chart)
    parts = [
        *_grid(chart, x, y),
        *_areas(chart, x, y),
        *_lines(chart, x, y),
        *_marks(chart, x, y),
    ]
    name = escape(f"{chart.title}: {chart.y} by {chart.x}", quote=True)
    return (
        f'<figure class="chart"><figcaption>{escape(chart.title)}</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{name}">{"".join(parts)}</svg>'
        f"{_legend(chart)}</figure>"
    )


def _grid(chart: Chart, x: Axis, y: Axis) -> Iterator[str]:
    for value in y.ticks:
        at = y.at(value)
        yield f'<line class="grid" x1="{x.start}" x2="{x.end}" y1="{at}" y2="{at}"/>'
        yield f'<text class="tick" x="{x.start - 6}" y="{at + 4}" text-anchor="end">{short(value)}</text>'
    for value in x.ticks:
        at = x.at(value)
        told = clock(value) if chart.times else short(value)
        yield f'<text class="tick" x="{at}" y="{y.start + 16}" text-anchor="middle">{told}</text>'
    middle = (x.start + x.end) / 2
    yield f'<line class="axis" x1="{x.start}" x2="{x.end}" y1="{y.start}" y2="{y.start}"/>'
    yield f'<text class="name" x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(chart.x)}</text>'
    yield (
        f'<text class="name" transform="translate(14 {(y.start + y.end) / 2}) rotate(-90)"'
        f' text-anchor="middle">{escape(chart.y)}</text>'
    )


def _areas(chart: Chart, x: Axis, y: Axis) -> Iterator[str]:
    for band in chart.bands:
        upper = [(a, high) for a, _, high in band.points]
        lower = [(a, low) for a, low, _ in reversed(band.points)]
        yield f'<path class="band" d="{_path([*upper, *lower], x, y)}Z">{_told(band.name)}</path>'


def _lines(chart: Chart, x: Axis, y: Axis) -> Iterator[str]:
    for level in chart.levels:
        at = y.at(level.y)
        told = _told(f"{level.name}: {short(level.y)}")
        yield f'<line class="level" x1="{x.start}" x2="{x.end}" y1="{at}" y2="{at}">{told}</line>'
        yield f'<text class="note" x="{x.end}" y="{at - 4}" text-anchor="end">{escape(level.name)}</text>'
    for number, line in enumerate(chart.lines):
        points = stepped(line.points) if line.steps else line.points
        style = f"stroke:var(--hue-{number % HUES})"
        yield f'<path class="line" style="{style}" d="{_path(points, x, y)}">{_told(line.name)}</path>'


def stepped(points: Sequence[Point]) -> list[Point]:
    """Return the points of a line whose values hold until the next one."""
    made: list[Point] = []
    for a, b in points:
        if made:
            made.append((a, made[-1][1]))
        made.append((a, b))
    return made


def _marks(chart: Chart, x: Axis, y: Axis) -> Iterator[str]:
    for dots in chart.dots:
        for a, b in dots.points:
            told = _told(f"{dots.name}: {short(a)}, {short(b)}")
            yield f'<circle class="dot" cx="{x.at(a)}" cy="{y.at(b)}" r="3">{told}</circle>'
    for event in chart.events:
        at, kind = x.at(event.x), "event strong" if event.strong else "event"
        told = _told(event.name)
        yield f'<line class="{kind}" x1="{at}" x2="{at}" y1="{y.start}" y2="{y.end}">{told}</line>'
    for mark in chart.marks:
        a, b = x.at(mark.at[0]), y.at(mark.at[1])
        kind = "advised" if mark.advised else "present"
        told = _told(f"{mark.name}: {short(mark.at[0])}, {short(mark.at[1])}")
        yield f'<circle class="{kind}" cx="{a}" cy="{b}" r="6">{told}</circle>'
        end = a > (x.start + x.end) / 2
        side = f'x="{a - 10}" text-anchor="end"' if end else f'x="{a + 10}"'
        above = b + 18 if mark.advised and b < y.start - 24 else b - 8
        yield f'<text class="note" {side} y="{above}">{escape(mark.name)}</text>'


def _path(points: Iterable[Point], x: Axis, y: Axis) -> str:
    return "M" + "L".join(f"{x.at(a)} {y.at(b)}" for a, b in points)


def _told(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _legend(chart: Chart) -> str:
    if len(chart.lines) < 2:
        return ""
    items = (
        f'<li><span class="swatch" style="background:var(--hue-{number % HUES})"></span>'
        f"{escape(line.name)}</li>"
        for number, line in enumerate(chart.lines)
    )
    return f'<ul class="names-of-lines">{"".join(items)}</ul>'


# In a cell, and words -------------------------------------------------------------------------------

BAR_WIDTH, BAR_HEIGHT = 180, 20


def bar(of: Bar) -> str:
    """Return the picture of a number that there is, one that is advised, and its interval."""
    line = Axis(0.0, max(of.most, 1.0), 8, BAR_WIDTH - 8)
    middle = BAR_HEIGHT / 2
    name = (
        f"{short(of.present)} now, {short(of.advised)} advised ({short(of.low)} to"
        f" {short(of.high)})"
    )
    return (
        f'<svg class="bar-of" viewBox="0 0 {BAR_WIDTH} {BAR_HEIGHT}" role="img" aria-label="{name}">'
        f'<line class="axis" x1="8" x2="{BAR_WIDTH - 8}" y1="{middle}" y2="{middle}"/>'
        f'<line class="interval" x1="{line.at(of.low)}" x2="{line.at(of.high)}" y1="{middle}" y2="{middle}"/>'
        f'<circle class="present" cx="{line.at(of.present)}" cy="{middle}" r="5"/>'
        f'<circle class="advised" cx="{line.at(of.advised)}" cy="{middle}" r="4"/>'
        f"{_told(name)}</svg>"
    )


def clock(second: float) -> str:
    """Return a time of day in UTC, from Unix seconds."""
    return datetime.fromtimestamp(second, UTC).strftime("%H:%M:%S")
