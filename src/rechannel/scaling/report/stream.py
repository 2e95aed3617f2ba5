"""Advice for a stream of ours, as what a page shows. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rechannel.scaling.decided import Decided
from rechannel.scaling.needs.values import (
    Amount,
    ControllerDecisions,
    OperatorNeed,
    StreamAdvice,
    StreamNeeds,
)
from rechannel.scaling.needs.words import between, short
from rechannel.scaling.report.drawing import clock
from rechannel.scaling.report.parts import (
    Band,
    Bar,
    Card,
    Chart,
    Dots,
    Event,
    Level,
    Line,
    Mark,
    Page,
    Part,
    Section,
    Table,
)

MOST_ROWS = 200
"""Operators in the table."""
MOST_CHARTS = 24
"""Operators whose tasks are drawn, those with the longest turns."""
MOST_LINES = 6
"""Operators whose tasks are drawn over time."""
SAME = 0.2
"""By which share rows of a timestep may differ to be compared."""
MOST_EVENTS = 100
"""Decisions that are drawn over time."""


def stream_page(made: StreamAdvice) -> Page:
    """Return what the page of a stream's advice shows."""
    needs, left_out = made.needs, []
    if len(made.operators) > MOST_ROWS:
        left_out.append(f"{len(made.operators) - MOST_ROWS} operators are not in the table")
    sections = () if needs is None else tuple(_measured(made, needs))
    return Page(
        title=f"How much does {made.title} need?",
        about=_about(needs),
        sections=(*sections, *_decisions(made.controllers)),
        notes=(*made.notes, *left_out),
        record=made.to_dict(),
    )


def _about(needs: StreamNeeds | None) -> str:
    if needs is None:
        return "Nothing was measured."
    first, last = needs.windows[0], needs.windows[-1]
    return (
        f"Timesteps {first.first} to {last.last}, {clock(first.start_ms / 1e3)} to"
        f" {clock(last.end_ms / 1e3)} UTC, in windows; policy {needs.policy}; an interval of"
        f" {short(needs.interval_ms)} ms, of which {needs.utilisation:.0%} may be used; "
        f"{short(needs.rate)} rows per second arrive, {short(needs.backlog)} wait."
    )


def _measured(made: StreamAdvice, needs: StreamNeeds) -> Iterator[Section]:
    yield Section(id="advice", title="What it needs", parts=tuple(_cards(made, needs)))
    yield Section(
        id="operators",
        title="Operators",
        hint="Tasks: a ring is what there is, a dot what is advised, the bar its interval.",
        parts=(_operators(made),),
    )
    if needs.curve:
        hint = "Each number of cores with its best tasks; the area is what the costs leave open."
        yield Section(
            id="cores", title="On other numbers of cores", hint=hint, parts=(_curve(needs),)
        )
    fits = tuple(_fits(made, needs))
    if fits:
        hint = "Each dot is a task; the line is the fit, the area the ends of its interval."
        yield Section(id="costs", title="What tasks cost", hint=hint, parts=fits)
    yield Section(
        id="time", title="Over time", hint=_TIME_HINT, parts=tuple(_over_time(made, needs))
    )


_TIME_HINT = "A vertical line is a decision; a strong one led to a change."


def _cards(made: StreamAdvice, needs: StreamNeeds) -> Iterator[Card]:
    facts = [
        f"{name}: {_amount(amount)}"
        for name, amount in (("cores", needs.cores), ("executors", needs.executors))
        if amount is not None
    ]
    if needs.predicted_ms is not None:
        facts.append(
            f"timesteps: {short(needs.timestep_ms)} ms, then {short(needs.predicted_ms)} ms"
        )
    if needs.used is not None:
        facts.append(f"{needs.used:.0%} of what may be used")
    if needs.offset > 1:
        facts.append(f"all costs times {needs.offset:.2f}, for what no task reports")
    title = "Something is to be changed" if needs.changes else "All is well"
    text = f"{needs.why[:1].upper()}{needs.why[1:]}."
    yield Card(title=title, text=text, facts=tuple(facts), weighty=needs.changes)
    for name, of in made.operators.items():
        if of.remedy is not None:
            yield _skewed(name, of)


def _skewed(name: str, of: OperatorNeed) -> Card:
    after = "" if of.heaviest_after is None else f", then {of.heaviest_after:.2f} times"
    heaviest = 1.0 if of.heaviest is None else of.heaviest
    return Card(
        title=f"{name}: {of.remedy}",
        text="Its rows are skewed, for which more tasks are no remedy.",
        facts=(f"the heaviest task has {heaviest:.2f} times the mean{after}",),
        weighty=True,
    )


def _amount(amount: Amount) -> str:
    return f"{amount.present}, needs {amount.advised} ({between(amount.low, amount.high)})"


def _operators(made: StreamAdvice) -> Table:
    shown = list(made.operators.items())[:MOST_ROWS]
    most = max((max(of.instances, of.high) for _, of in shown), default=1)
    rows = tuple(
        (
            name,
            _known(of.target),
            _known(of.rate),
            str(of.instances),
            str(of.advised),
            between(of.low, of.high),
            Bar(present=of.instances, advised=of.advised, low=of.low, high=of.high, most=most),
            "" if of.cost is None else short(of.cost.fixed_ms),
            "" if of.cost is None else short(1e3 * of.cost.row_ms),
            "" if of.turn_ms is None else short(of.turn_ms),
        )
        for name, of in shown
    )
    heads = ("operator", "target, rows/s", "true rate of a task, rows/s", "tasks", "advised")
    more = ("interval", "", "ms of a task", "ms of 1,000 rows", "turn, ms")
    return Table(heads=(*heads, *more), rows=rows, texts=frozenset({"operator", ""}))


def _known(value: float | None) -> str:
    return "not known" if value is None else short(value)


def _curve(needs: StreamNeeds) -> Chart:
    at = {point.cores: point.timestep_ms for point in needs.curve}
    marks = _marks(needs, at)
    room = Level(name="may be used", y=needs.utilisation * needs.in_flight * needs.interval_ms)
    highest = max(point.high_ms for point in needs.curve)
    return Chart(
        title="A timestep",
        x="cores",
        y="ms",
        lines=(Line(name="timestep", points=tuple(at.items())),),
        bands=(
            Band(
                name="between the ends of the costs",
                points=tuple((point.cores, point.low_ms, point.high_ms) for point in needs.curve),
            ),
        ),
        marks=marks,
        # A bound that is far above everything would make all of it flat.
        levels=(room,) if room.y <= 4 * max(highest, needs.timestep_ms) else (),
    )


def _marks(needs: StreamNeeds, at: Mapping[int, float]) -> tuple[Mark, ...]:
    """Return what there is and what is advised. at: milliseconds of a timestep, by cores."""
    cores, executors = needs.cores, needs.executors
    if cores is None or executors is None:
        return ()

    def on_curve(name: str, count: int, *, advised: bool) -> Mark:
        nearest = min(at, key=lambda each: abs(each - count))
        return Mark(name=name, at=(nearest, at[nearest]), advised=advised)

    now = on_curve("now, at this load", cores.present, advised=False)
    if _as_measured(needs):
        now = Mark(name="now, measured", at=(cores.present, needs.timestep_ms))
    each = cores.present / executors.present
    return now, on_curve("advised", round(executors.advised * each), advised=True)


def _as_measured(needs: StreamNeeds) -> bool:
    """Whether timesteps had about as many rows as those that the advice is for."""
    latest = needs.windows[-1]
    seconds = (latest.end_ms - latest.start_ms) / 1e3
    rows = latest.arrived_per_s * seconds / (latest.last - latest.first + 1)
    return abs(rows - needs.rate * needs.interval_ms / 1e3) <= SAME * rows


def _fits(made: StreamAdvice, needs: StreamNeeds) -> Iterator[Chart]:
    """Yield the tasks of each operator and the line through them, at most `MOST_CHARTS`, longest turns first."""
    drawn = [(name, of) for name, of in made.operators.items() if of.points]
    drawn.sort(key=lambda each: -(each[1].turn_ms or 0.0))
    for name, of in drawn[:MOST_CHARTS]:
        lines: tuple[Line, ...] = ()
        bands: tuple[Band, ...] = ()
        if of.cost is not None:
            cost, most = of.cost, max(rows for rows, _ in of.points)
            ends = [(fixed, fixed + row * most) for fixed, row in (cost.flat, cost.steep)]
            (first, last), fit = zip(*ends, strict=True), cost.fixed_ms + cost.row_ms * most
            words = f"{short(cost.fixed_ms)} ms, and {short(1e3 * cost.row_ms)} ms for 1,000 rows"
            lines = (Line(name=words, points=((0.0, cost.fixed_ms), (most, fit))),)
            edges = ((0.0, min(first), max(first)), (most, min(last), max(last)))
            bands = (Band(name="ends of the interval", points=edges),)
        most_hangs = " (most hangs on it)" if name == needs.hangs_on else ""
        yield Chart(
            title=f"{name}{most_hangs}",
            x="rows of a task",
            y="ms",
            lines=lines,
            bands=bands,
            dots=(Dots(name="task", points=of.points),),
        )


# Over time -----------------------------------------------------------------------------------------


def _over_time(made: StreamAdvice, needs: StreamNeeds) -> Iterator[Chart]:
    windows = needs.windows
    start, end = windows[0].start_ms / 1e3, windows[-1].end_ms / 1e3
    events = tuple(_events(made.controllers, start, end))

    def chart(title: str, y: str, *lines: Line, levels: tuple[Level, ...] = ()) -> Chart:
        return Chart(
            title=title, x="time, UTC", y=y, lines=lines, levels=levels, events=events, times=True
        )

    def line(name: str, values: Sequence[float]) -> Line:
        ends = [
            (at / 1e3, value)
            for window, value in zip(windows, values, strict=True)
            for at in (window.start_ms, window.end_ms)
        ]
        return Line(name=name, points=tuple(ends))

    yield chart("Load", "rows per second", line("arrive", [each.arrived_per_s for each in windows]))
    if any(each.backlog for each in windows):
        yield chart("Backlog", "rows", line("wait", [each.backlog for each in windows]))
    took = line("timestep", [each.timestep_ms for each in windows])
    room = Level(name="may be used", y=needs.utilisation * needs.in_flight * needs.interval_ms)
    near = room.y <= 4 * max(each.timestep_ms for each in windows)
    yield chart("Timesteps, the median of each window", "ms", took, levels=(room,) if near else ())
    names = sorted(made.operators, key=lambda name: -made.operators[name].instances)[:MOST_LINES]
    tasks = [line(name, [float(each.tasks.get(name, 0)) for each in windows]) for name in names]
    yield chart("Tasks", "tasks", *tasks)


def _events(
    controllers: Sequence[ControllerDecisions], start: float, end: float
) -> Iterator[Event]:
    for controller in controllers:
        for made in controller.decisions[-MOST_EVENTS:]:
            if start <= made.at_ms / 1e3 <= end:
                name = f"{clock(made.at_ms / 1e3)} {controller.name}: {made.outcome}: {made.why}"
                yield Event(name=name, x=made.at_ms / 1e3, strong=made.wants)


def _decisions(controllers: Sequence[ControllerDecisions]) -> Iterator[Section]:
    if not controllers:
        return
    parts: list[Part] = []
    for controller in controllers:
        if not controller.decisions:
            parts.append(Card(title=controller.name, text="It has decided nothing yet."))
            continue
        rows = tuple(
            (
                controller.name + (" (only advises)" if controller.dry_run else ""),
                clock(made.at_ms / 1e3),
                str(made.timestep),
                made.outcome,
                made.why,
                _wanted(made),
                made.became,
            )
            for made in reversed(controller.decisions)
        )
        heads = ("controller", "UTC", "timestep", "outcome", "why", "wanted", "what became of it")
        parts.append(Table(heads=heads, rows=rows, texts=frozenset(heads) - {"timestep"}))
    yield Section(
        id="decisions", title="Decisions", hint="The latest come first.", parts=tuple(parts)
    )


def _wanted(made: Decided) -> str:
    wanted = [f"{name}: {count} tasks" for name, count in made.parallelism.items()]
    if made.executors is not None:
        wanted.append(f"{made.executors} executors")
    wanted += [f"{name}: {change}" for name, change in made.remedies.items()]
    return "; ".join((*wanted, *made.changes))
