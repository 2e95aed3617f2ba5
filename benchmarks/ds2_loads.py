"""The loads of DS2's tables 3 and 4: queries of NEXMark at rates, and what an instance of their main operator does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import rechannel as rc
from benchmarks.nexmark.events import EVENTS, PER_EPOCH, SCHEMAS, Events
from benchmarks.nexmark.query import Tables, query
from benchmarks.nexmark.tables import TIME
from benchmarks.slots import Slot

if TYPE_CHECKING:
    import pyarrow as pa

    from rechannel.dataflow.streams.stream import Stream

STARTS = (8, 12, 16, 20, 24, 28)

SPLITS = 240
"""Of a source in a timestep, so that any number of tasks has about equally many rows."""
KEYS = 200_000
"""People who are active, and auctions that are open: so many, and evenly used, that no task has far more rows than
others, as at the rates of the paper. DS2 leaves skew aside, and so do these loads."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """A query at the rates of DS2's table 3, with the answers of its table 4."""

    query: str
    """Its name in `benchmarks.nexmark`."""
    main: str
    """The operator whose instances are counted."""
    rates: Mapping[str, int]
    """Records per second of each source, as published."""
    published: int
    """Instances of the main operator that DS2 ends with, on Flink."""
    steps: Mapping[int, tuple[int, ...]]
    """By start, the numbers that it goes through there."""
    reaches: Mapping[str, float]
    """Share of each source's records that reach the main operator."""
    scale: float
    """Of the rates, so that making and moving the records needs little of a small machine."""
    in_flight: int = 2
    """Timesteps; 1 where nothing but sources runs, of which the next timestep waits for nothing."""

    def slot_rate(self, scale: float, short: float) -> float:
        """Return the records per second that an instance processes at a scale.

        The least instances that keep the rate are then those of the paper. One fewer lacks 1 - short of an instance.
        """
        return self.target(scale) / (self.published - short)

    def target(self, scale: float) -> float:
        """Return the records per second that reach the main operator at a scale."""
        return scale * sum(rate * self.reaches[kind] for kind, rate in self.rates.items())


def _steps(*rows: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
    return dict(zip(STARTS, rows, strict=True))


LOADS: Mapping[str, Load] = {
    "q1": Load(
        query="q1-ds2",
        main="bid",
        rates={"bid": 4_000_000},
        published=16,
        steps=_steps((12, 16), (16,), (16,), (16,), (16,), (16,)),
        reaches={"bid": 1.0},
        scale=1 / 400,
        in_flight=1,
    ),
    "q2": Load(
        query="q2",
        main="bid",
        rates={"bid": 4_000_000},
        published=14,
        steps=_steps((11, 13, 14), (14,), (12, 14), (13, 14), (14,), (14,)),
        reaches={"bid": 1.0},
        scale=1 / 400,
        in_flight=1,
    ),
    "q3": Load(
        query="q3",
        main="suggestions",
        rates={"auction": 500_000, "person": 100_000},
        published=20,
        steps=_steps((16, 20), (18, 20), (20,), (20,), (20,), (20,)),
        reaches={"auction": 1 / 5, "person": 1 / 2},
        scale=1 / 60,
    ),
    "q5": Load(
        query="q5-ds2",
        main="counts",
        rates={"bid": 500_000},
        published=16,
        steps=_steps((14, 15, 16), (16,), (16,), (14, 16), (14, 16), (13, 16)),
        reaches={"bid": 1.0},
        scale=1 / 80,
    ),
    "q8": Load(
        query="q8",
        main="new",
        rates={"auction": 420_000, "person": 120_000},
        published=10,
        steps=_steps((10,), (10,), (8, 10), (8, 10), (8, 10), (8, 10)),
        reaches={"auction": 1.0, "person": 1.0},
        scale=1 / 80,
    ),
    "q11": Load(
        query="q11",
        main="sessions",
        rates={"bid": 1_000_000},
        published=28,
        steps=_steps((12, 22, 28), (22, 28), (26, 28), (28,), (28,), (28,)),
        reaches={"bid": 1.0},
        scale=1 / 100,
    ),
}


@dataclass(frozen=True, kw_only=True)
class From:
    """A maker of rows that begins with a later one. Rows are a function of their number."""

    make: Callable[[int, int], pa.RecordBatch]
    first: int

    def __call__(self, start: int, stop: int) -> pa.RecordBatch:
        """Return rows start to stop, counted from the first."""
        return self.make(self.first + start, self.first + stop)


def stream_of(
    load: Load, *, scale: float, interval_ms: int, seconds: float, slack: float, spark: Any
) -> Stream:
    """Return the query over sources with rates. seconds: that a row of a query without state costs.

    slack: by which share a timestep may read more than is due in an interval, so that a lag can be made good.
    """
    tables = {kind: _source(load, kind, scale, interval_ms, slack, spark) for kind in load.rates}
    if load.main in tables:
        tables[load.main] = tables[load.main].map_batches(Slot(seconds=seconds), name="slots")
    nothing: Any = None
    asked = {kind: tables.get(kind, nothing) for kind in PER_EPOCH}
    return query(load.query).build(Tables(**asked))


def _source(
    load: Load, kind: str, scale: float, interval_ms: int, slack: float, spark: Any
) -> Stream:
    rate = load.rates[kind] * scale
    events = Events(
        rate=round(rate * EVENTS / PER_EPOCH[kind]),
        active_people=KEYS,
        in_flight=KEYS,
        hot=False,
    )
    rows = rc.read(spark).generator(
        From(make=events.source(kind), first=KEYS * PER_EPOCH[kind]),
        schema=SCHEMAS[kind],
        rows_per_second=rate,
        per_timestep=round((1 + slack) * rate * interval_ms / 1e3),
        partitions=SPLITS,
        name=kind,
    )
    return rows.event_time(TIME, 0, name=f"{kind}-time")
