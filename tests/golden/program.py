"""The dataflow of the golden state directory, its input, and the changes to it while it runs.

Edit it only to follow names of the public API: what is on disk must not change. Digests contain the code of functions
and journals their import paths, so functions keep both, and this module keeps its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.settings import Settings
from rechannel.sources.connectors import MemoryConnector
from rechannel.state.merging import MergePolicy
from rechannel.testing import Process, script

BEGIN_MS = 1_700_000_000_000
"""Unix milliseconds: the first timestep, and the time of the first row."""

DURABLE = ("sold-out", "note-counts-out")
"""Sinks, beside those of files, whose publications are journalled."""

EVENTS = "user string, item bigint, price double, at timestamp, note string"
OFFERS = "item bigint, offer double, at timestamp"
RATES = "item bigint, rate double"

SETTINGS = Settings(
    tasks=2,
    bins=8,
    in_flight=2,
    keep_versions=2,
    snapshot_every=6,
    merging=MergePolicy(fan=2, slice_rows=16, slice_bytes=1_000),
)


# Input ------------------------------------------------------------------------------------------------------


def time_of(seconds: float) -> int:
    """Microseconds of a row, that many seconds after the beginning."""
    return BEGIN_MS * 1_000 + int(seconds * 1_000_000)


def events(batch: int) -> list[dict[str, Any]]:
    """Rows of a batch: now and then one comes late, has no time, or holds what functions cannot handle."""
    return [_event(n, batch) for n in range(batch * 24, batch * 24 + 24)]


def _event(n: int, batch: int) -> dict[str, Any]:
    late = 60 if n % 17 == 11 else 0
    seconds = batch * 10 + n % 24 * 0.4 - late
    return {
        "user": None if n % 29 == 0 else f"user-{n * 7 % 9}",
        "item": n * 5 % 7,
        "price": float(n * 13 % 50) / 4,
        "at": None if n % 41 == 40 else time_of(seconds),
        "note": "not a number" if n % 19 == 7 else str(n * 3 % 100),
    }


def offers(batch: int) -> list[dict[str, Any]]:
    """Rows of the second stream, a little behind the first."""
    return [
        {"item": n % 7, "offer": n * 11 % 40 / 2, "at": time_of(batch * 10 + n % 5 * 2 - 1)}
        for n in range(batch * 5, batch * 5 + 5)
    ]


def rates(batch: int) -> list[dict[str, Any]]:
    """Rows of the table: two items get another rate."""
    return [{"item": (batch + i) % 7, "rate": 1 + batch / 8} for i in range(2)]


@dataclass(frozen=True, kw_only=True)
class Feeds:
    """What the sources read."""

    events: MemoryConnector = field(default_factory=lambda: script(EVENTS, partitions=2))
    offers: MemoryConnector = field(default_factory=lambda: script(OFFERS))
    rates: MemoryConnector = field(default_factory=lambda: script(RATES))

    def push(self, batch: int) -> None:
        """A batch of each."""
        self.events.push(events(batch))
        self.offers.push(offers(batch))
        self.rates.push(rates(batch))


# Functions of a user ----------------------------------------------------------------------------------------

CHEAP = 2.0


def whole_cents(prices: pa.Array) -> pa.Array:
    return pc.cast(pc.round(pc.multiply(prices, 100.0)), pa.int64())


def is_sold(prices: pa.Array) -> pa.Array:
    return pc.greater(prices, 0.25)


def number_of(row: Any) -> Any:
    return (row.user, row.item, int(row.note))


def has_user(row: Any) -> bool:
    return row.user is not None


def words(row: Any) -> Iterator[Any]:
    for digit in row.note[:2]:
        yield (digit, row.item)


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    twice = pc.multiply(batch.column("offer"), 2.0)
    return batch.set_column(1, "offer", twice)


def tripled(batch: pa.RecordBatch) -> pa.RecordBatch:
    thrice = pc.multiply(batch.column("offer"), 3.0)
    return batch.set_column(1, "offer", thrice)


def cheap(batch: pa.RecordBatch) -> Any:
    return pc.less(batch.column("price"), CHEAP)


def dear(batch: pa.RecordBatch) -> Any:
    return pc.greater_equal(batch.column("price"), 9.0)


def larger(earlier: pa.RecordBatch, later: pa.RecordBatch) -> pa.RecordBatch:
    columns = [
        pc.max_element_wise(earlier.column(name), later.column(name))
        for name in earlier.schema.names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=earlier.schema)


def visits(key: Any, state: Any, rows: Any) -> Any:
    n, most = state or (0, 0.0)
    return (n + len(rows), max([most, *rows["price"]]))


def left(key: Any, state: Any) -> Any:
    return (-state[0], state[1])


def spent(key: Any, state: Any, rows: Any) -> Any:
    for note in rows["note"]:
        int(note)
    return (state or 0.0) + sum(rows["price"])


def spent_and_count(key: Any, state: Any, rows: Any) -> Any:
    total, n = state or (0.0, 0)
    for note in rows["note"]:
        int(note)
    return (total + sum(rows["price"]), n + len(rows))


def counted(frame: Any) -> dict[str, Any]:
    return {"n": frame.previous("n", 0) + frame.count()}


def span(frame: Any) -> dict[str, Any]:
    return {"rows": frame.count()}


def both(one: Any, two: Any) -> dict[str, Any]:
    return {"sold": one.count(), "offered": two.count()}


# The dataflow -----------------------------------------------------------------------------------------------


def streams(feeds: Feeds) -> dict[str, Any]:
    """The streams that everything begins with."""
    events = rc.read().memory(feeds.events, name="events")
    return {
        "events": events.event_time("at", delay="5 seconds", name="timed"),
        "offers": rc.read()
        .memory(feeds.offers, name="offers")
        .event_time("at", delay="5 seconds", idle="1 minute", name="offers-timed"),
        "rates": rc.read().memory(feeds.rates, name="rates"),
    }


def flows(feeds: Feeds, *, changed: bool) -> list[Any]:
    """The dataflow. changed: as it is after the changes of `begin`."""
    made = streams(feeds)
    return [
        *_stateless(made),
        *_windows(made),
        *_keyed(made, changed=changed),
        *_meetings(made, changed=changed),
        *([_added(made["events"])] if changed else []),
    ]


def _file(stream: Any, name: str) -> Any:
    return stream.write.json(f"/golden/{name}", name=f"{name}-out")


def _stateless(made: Mapping[str, Any]) -> list[Any]:
    events = made["events"]
    chosen = events.select(
        "user", "item", when="at", cents=rc.computed(whole_cents, "price"), name="chosen"
    )
    sold = events.filter(rc.computed(is_sold, "price"), name="sold")
    numbers = events.map(
        number_of,
        "user string, item bigint, number bigint",
        name="numbers",
        on_error="dead_letter",
    )
    known = events.filter(has_user, name="known")
    digits = known.flat_map(words, "digit string, item bigint", name="digits")
    parts = events.branch(cheap=cheap, dear=dear, otherwise="usual", name="parts")
    return [
        _file(chosen, "chosen"),
        sold.write.noop(name="sold-out"),
        _file(numbers, "numbers"),
        _file(numbers.dead_letters, "not-numbers"),
        digits.key_by("digit").aggregate(n=agg.count(), name="digit-counts").write.memory("digits"),
        parts["cheap"].union(parts["dear"], name="extremes").write.memory("extremes"),
        parts["usual"].key_by("item").latest(by="at", name="usual-latest").write.memory("usual"),
    ]


def _windows(made: Mapping[str, Any]) -> list[Any]:
    events = made["events"]
    by_user, by_item = events.key_by("user"), events.key_by("item")
    tumbling = by_user.window(rc.windows.tumbling("20 seconds")).aggregate(
        n=agg.count(),
        total=agg.sum("price"),
        mean=agg.mean("price"),
        low=agg.min("price"),
        high=agg.max("price"),
        spread=agg.stddev("price"),
        items=agg.count_distinct("item", k=16),
        name="tumbling",
    )
    sliding = by_item.window(rc.windows.sliding("30 seconds", "10 seconds")).aggregate(
        n=agg.count(), total=agg.sum("item"), name="sliding"
    )
    ordered = by_item.window(rc.windows.sliding("20 seconds", "10 seconds")).aggregate(
        first=agg.first("price"), last=agg.last_n("note", 2), name="ordered-sliding"
    )
    lasting = by_item.window(
        rc.windows.tumbling("10 seconds", offset="5 seconds"),
        lateness="30 seconds",
        emit="on_update",
    ).aggregate(n=agg.count("user"), name="lasting")
    sessions = by_user.window(rc.windows.sessions("6 seconds"), lateness="20 seconds").aggregate(
        n=agg.count(), last=agg.last("price"), name="sessions"
    )
    counting = by_item.window(rc.windows.counting(6, 3)).aggregate(
        total=agg.sum("price"), name="counting"
    )
    reduced = (
        events.select("user", "price", "item", "at", name="plain")
        .key_by("user")
        .window(rc.windows.tumbling("30 seconds"))
        .reduce(larger, name="window-reduce")
    )
    grouped = by_user.window(rc.windows.tumbling("20 seconds")).apply_batches(
        span, "rows bigint", name="applied"
    )
    best = tumbling.window(rc.windows.same_window()).top(2, by="total", name="best-users")
    everything = events.window(rc.windows.tumbling("10 seconds")).aggregate(
        n=agg.count(), name="all-rows"
    )
    processing = by_item.window(rc.windows.tumbling("3 seconds"), time="processing").aggregate(
        n=agg.count(), name="processing"
    )
    early = by_item.window(rc.windows.tumbling("1 minute"), emit=rc.every("2 seconds")).aggregate(
        n=agg.count(), name="early"
    )
    return [
        _file(tumbling, "tumbling"),
        _file(tumbling.late, "tumbling-late"),
        *(
            stream.write.memory(stream.name)
            for stream in (sliding, ordered, lasting, sessions, counting, reduced, grouped)
        ),
        *(stream.write.memory(stream.name) for stream in (best, everything, processing, early)),
        sessions.late.write.memory("sessions-late"),
    ]


def aggregates(*, changed: bool) -> dict[str, Any]:
    """Of the operator `totals`."""
    kept = {"n": agg.count(), "total": agg.sum("price"), "variance": agg.variance("price")}
    return {**kept, "high": agg.max("price")} if changed else kept


def _keyed(made: Mapping[str, Any], *, changed: bool) -> list[Any]:
    events = made["events"]
    totals = events.key_by("user").aggregate(aggregates(changed=changed), name="totals")
    highest = (
        events.select("item", "price", name="prices")
        .key_by("item")
        .running_reduce(larger, name="highest")
    )
    tracked = events.key_by("user").track(
        visits,
        state="n bigint, most double",
        timeout="15 seconds",
        time="event",
        expired=left,
        name="tracked",
    )
    spending = events.key_by("item").track(
        spent_and_count if changed else spent,
        state="total double, n bigint" if changed else "total double",
        on_error="dead_letter",
        timeout=30_000,
        name="spending",
    )
    batches = events.key_by("user", "item").track_batches(counted, state="n bigint", name="batches")
    running = events.key_by("user").running(
        before=agg.lag("price", default=0.0),
        change=agg.difference("price"),
        n=agg.cumulative(agg.count()),
        name="running",
    )
    in_order = events.key_by("item").running(
        before=agg.lag("note"), time_column="at", name="in-order"
    )
    return [
        _file(totals, "totals"),
        highest.write.memory("highest"),
        _file(tracked, "tracked"),
        spending.write.memory("spending"),
        spending.dead_letters.write.memory("not-spent"),
        batches.write.memory("batches"),
        running.write.memory("running"),
        in_order.write.memory("in-order"),
        events.deduplicate("user", within="20 seconds", name="fresh").write.memory("fresh"),
        events.deduplicate("item", "note", name="unique").write.memory("unique"),
        events.key_by("item").top(3, by=("price", "note"), name="top").write.memory("top"),
    ]


def _meetings(made: Mapping[str, Any], *, changed: bool) -> list[Any]:
    events, offers, rates = made["events"], made["offers"], made["rates"]
    twice = offers.map_batches(tripled if changed else doubled, name="doubled")
    joined = events.join(
        offers, "item", within=rc.between("-4 seconds", "4 seconds"), how="full", name="joined"
    )
    windows = events.join(
        offers, "item", within=rc.windows.tumbling("10 seconds"), how="anti", name="without-offer"
    )
    latest = events.asof_join(twice, "item", tolerance="8 seconds", name="at-offer")
    rated = events.lookup(rates, "item", how="left", name="rated")
    together = events.cogroup(
        offers, "item", within=rc.windows.tumbling("20 seconds")
    ).apply_batches(both, "sold bigint, offered bigint", name="together")
    return [
        _file(joined, "joined"),
        joined.late.write.memory("joined-late"),
        *(stream.write.memory(stream.name) for stream in (windows, latest, rated, together)),
    ]


def _added(events: Any) -> Any:
    counts = events.key_by("note").aggregate(n=agg.count(), name="note-counts")
    return counts.write.memory("note-counts", name="note-counts-out")


# Changes while it runs --------------------------------------------------------------------------------------


def first_changes(process: Process) -> None:
    """Of the Configuration, done when the stream is idle."""
    process.reconfigure(rc.changes.rescale("totals", tasks=3))
    process.reconfigure(
        [rc.changes.split("tumbling", 0, into=2), rc.changes.move("sliding", [1, 2], 0)]
    )
    process.reconfigure(rc.changes.rescale("joined", tasks=4), rc.strategies.batched(2))


def change_of_logic(process: Process) -> None:
    """Other aggregates, which keep another column, and another function."""
    process.reconfigure(
        [
            rc.changes.change_logic(
                "totals", aggregates(changed=True), migrate=rc.changes.migrate(add={"high": 0.0})
            ),
            rc.changes.change_logic("doubled", tripled),
        ]
    )


def new_program(process: Process, feeds: Feeds) -> None:
    """The whole dataflow anew, with an operator more."""
    migrate = {"spending": rc.changes.migrate(add={"n": 0})}
    process.reconfigure(rc.changes.change_dataflow(*flows(feeds, changed=True), migrate=migrate))


def unfinished_changes(process: Process) -> None:
    """Of which one is under way and one waits when the driver dies."""
    process.reconfigure(rc.changes.rescale("tracked", tasks=4), rc.strategies.fluid())
    process.reconfigure(rc.changes.rewrite("batches"), at=10_000)


def last_changes(process: Process) -> None:
    """By the driver that goes on."""
    process.reconfigure([rc.changes.merge("tumbling", [0, 1]), rc.changes.combine("totals", "off")])
    process.reconfigure(
        [rc.changes.set_interval(5), rc.changes.set_in_flight(1), rc.changes.set_bound("events", 1)]
    )
    process.reconfigure(rc.changes.rewrite("totals"))
