"""Queries of NEXMark as Bytewax runs them: ``python flow.py PARAMETERS``, one process per core, in its own environment.

PARAMETERS is a JSON object; when batches were read, and how many rows came out, is written as JSON to its ``told``.
Nothing of this repository can be imported here. What needs no state works on Arrow batches, as on the other sides;
operators with state take rows one by one, which is the only form that Bytewax has.
"""

# mypy: disable-error-code="import-not-found, misc"
from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import bytewax.operators as op
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.operators import windowing as win
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import cluster_main

CHUNK = 1 << 13
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TEN, TWO = timedelta(seconds=10), timedelta(seconds=2)
PATIENCE = timedelta(seconds=60)
"""How far behind its key's latest row a row may come: the processes read files of their own, at their own pace."""

Rows: TypeAlias = Any
"""A `Stream`."""


@dataclass
class Told:
    """What a process tells at its end."""

    read: dict[int, float] = field(default_factory=dict)
    rows: int = 0
    late: int = 0


TOLD = Told()


@dataclass
class Files(DynamicSource[pa.RecordBatch]):
    """Every process reads its files of every batch, in order, some rows at a time."""

    directory: Path
    columns: tuple[str, ...]

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Part:
        """The files of one process."""
        paths = sorted(self.directory.glob("*.parquet"))
        return Part(self.chunks(p for p in paths if part_of(p) % worker_count == worker_index))

    def chunks(self, paths: Iterable[Path]) -> Iterable[pa.RecordBatch]:
        """Rows of all files."""
        for path in paths:
            TOLD.read.setdefault(batch_of(path), time.time())
            table = pq.read_table(path, columns=list(self.columns) or None)
            yield from table.combine_chunks().to_batches(max_chunksize=CHUNK)


class Part(StatelessSourcePartition[pa.RecordBatch]):
    """What is left to read."""

    def __init__(self, chunks: Iterable[pa.RecordBatch]) -> None:
        self.left = iter(chunks)

    def next_batch(self) -> Iterable[pa.RecordBatch]:
        """One batch; the end of the stream after the last one."""
        return [next(self.left)]


class Nothing(DynamicSink[Any]):
    """Counts rows and drops them."""

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Drop:
        """One per process."""
        return Drop()


class Drop(StatelessSinkPartition[Any]):
    """See `Nothing`."""

    def write_batch(self, items: list[Any]) -> None:
        """Rows, or Arrow batches."""
        TOLD.rows += sum(i.num_rows if isinstance(i, pa.RecordBatch) else 1 for i in items)


class Late(Nothing):
    """Counts rows that came when their window was gone."""

    def build(self, step_id: str, worker_index: int, worker_count: int) -> DropLate:
        """One per process."""
        return DropLate()


class DropLate(Drop):
    """See `Late`."""

    def write_batch(self, items: list[Any]) -> None:
        """Rows."""
        TOLD.late += len(items)


def complete(found: win.WindowOut[Any, Any]) -> Rows:
    """What windows hold when they are complete."""
    op.output(found.late.stream_id.replace(".", "-"), found.late, Late())
    return found.down


def part_of(path: Path) -> int:
    """Number of the file in its batch."""
    return int(path.stem.rpartition("-")[2])


def batch_of(path: Path) -> int:
    """Number of the batch."""
    return int(path.stem.split("-")[1])


def clock(at: Callable[[Any], datetime]) -> win.EventClock[Any]:
    """Event time of a row. No window waits for the clock of the machine."""
    return win.EventClock(
        at, wait_for_system_duration=PATIENCE, to_system_utc=lambda timestamp: None
    )


def keyed(
    name: str, rows: Rows, key: Callable[[Any], str], made: Callable[[pa.RecordBatch], Any]
) -> Rows:
    """Rows of Arrow batches, as pairs of key and tuple. made: columns of a batch, as lists."""
    flat = op.flat_map(f"{name}-rows", rows, lambda batch: zip(*made(batch), strict=True))
    return op.map(f"{name}-key", flat, lambda row: (key(row), row))


def lists(*names: str) -> Callable[[pa.RecordBatch], list[list[Any]]]:
    """Columns as lists."""
    return lambda batch: [batch[name].to_pylist() for name in names]


def q0(read: Callable[..., Rows]) -> Rows:
    """Unchanged."""
    return read("bid")


def q1(read: Callable[..., Rows]) -> Rows:
    """Another price."""

    def priced(batch: pa.RecordBatch) -> pa.RecordBatch:
        price = pc.multiply(batch["price"].cast(pa.float64()), 0.908)
        return batch.set_column(2, "price", price)

    return op.map("euros", read("bid", "auction", "bidder", "price", "dateTime", "extra"), priced)


def q2(read: Callable[..., Rows]) -> Rows:
    """Some auctions."""

    def chosen(batch: pa.RecordBatch) -> pa.RecordBatch:
        auction = batch["auction"]
        left = pc.subtract(auction, pc.multiply(pc.divide(auction, 123), 123))
        return batch.filter(pc.equal(left, 0))

    return op.map("chosen", read("bid", "auction", "price"), chosen)


def q3(read: Callable[..., Rows]) -> Rows:
    """Auctions of a category with their sellers, of some states."""
    people = read("person", "id", "name", "city", "state")
    auctions = read("auction", "id", "seller", "category")
    states = pa.array(["OR", "ID", "CA"])
    wanted = op.map("states", people, lambda b: b.filter(pc.is_in(b["state"], value_set=states)))
    chosen = op.map("category", auctions, lambda b: b.filter(pc.equal(b["category"], 10)))
    left = keyed("person", wanted, lambda row: str(row[0]), lists("id", "name", "city", "state"))
    right = keyed("auction", chosen, lambda row: str(row[0]), lists("seller", "id"))
    both = op.merge("both", left, right)

    def met(state: Any, row: tuple[Any, ...]) -> tuple[Any, list[Any]]:
        person, waiting = state or (None, [])
        if len(row) == 2:
            waiting.append(row[1])
            return (person, waiting), [(*person[1:], row[1])] if person else []
        return (row, waiting), [(*row[1:], auction) for auction in waiting]

    return op.stateful_flat_map("join", both, met)


def q5(read: Callable[..., Rows]) -> Rows:
    """The auctions with the most bids of every window."""
    bids = keyed(
        "bid", read("bid", "auction", "dateTime"), lambda r: str(r[0]), lists("auction", "dateTime")
    )
    sliding = win.SlidingWindower(length=TEN, offset=TWO, align_to=EPOCH)
    counted = win.fold_window(
        "count",
        bids,
        clock(lambda r: r[1]),
        sliding,
        int,
        lambda n, _: n + 1,
        lambda a, b: a + b,
        ordered=False,
    )
    numbered = op.map("window", complete(counted), lambda kv: ("all", (kv[1][0], kv[1][1], kv[0])))
    every = win.TumblingWindower(length=TWO, align_to=EPOCH)

    def best(held: list[Any], row: tuple[Any, ...]) -> list[Any]:
        most = held[0][1] if held else -1
        return [row] if row[1] > most else [*held, row] if row[1] == most else held

    def both(a: list[Any], b: list[Any]) -> list[Any]:
        for row in b:
            a = best(a, row)
        return a

    hottest = win.fold_window(
        "best",
        numbered,
        clock(lambda r: EPOCH + r[0] * TWO),
        every,
        list,
        best,
        both,
        ordered=False,
    )
    return op.flat_map("hottest", complete(hottest), lambda kv: kv[1][1])


def q7(read: Callable[..., Rows]) -> Rows:
    """The highest bids of every window, out of those of every Arrow batch."""
    names = ("auction", "price", "bidder", "dateTime", "extra")

    def highest(batch: pa.RecordBatch) -> list[list[Any]]:
        start = pc.floor_temporal(batch["dateTime"], 10, "second")
        table = pa.table([*(batch[name] for name in names), start], names=[*names, "w"])
        most = table.group_by("w").aggregate([("price", "max")])
        top = table.join(most, "w").filter(pc.field("price") == pc.field("price_max"))
        return [top[name].to_pylist() for name in names]

    bids = keyed("bid", read("bid", *names), lambda row: "all", highest)

    def best(held: list[Any], row: tuple[Any, ...]) -> list[Any]:
        most = held[0][1] if held else -1
        return [row] if row[1] > most else [*held, row] if row[1] == most else held

    tumbling = win.TumblingWindower(length=TEN, align_to=EPOCH)
    found = win.fold_window(
        "best", bids, clock(lambda r: r[3]), tumbling, list, best, lambda a, b: a + b, ordered=False
    )
    return op.flat_map("highest", complete(found), lambda kv: kv[1][1])


def q8(read: Callable[..., Rows]) -> Rows:
    """People who opened an auction in the window in which they came."""
    people = keyed(
        "person",
        read("person", "id", "name", "dateTime"),
        lambda r: str(r[0]),
        lists("id", "name", "dateTime"),
    )
    sellers = keyed(
        "auction",
        read("auction", "seller", "dateTime"),
        lambda r: str(r[0]),
        lists("seller", "dateTime"),
    )
    tumbling = win.TumblingWindower(length=TEN, align_to=EPOCH)
    joined = win.join_window(
        "new",
        clock(lambda r: r[-1]),
        tumbling,
        people,
        sellers,
        insert_mode="first",
        emit_mode="complete",
        ordered=False,
    )
    return complete(joined)


def q11(read: Callable[..., Rows]) -> Rows:
    """Bids per bidder and session."""
    bids = keyed(
        "bid", read("bid", "bidder", "dateTime"), lambda r: str(r[0]), lists("bidder", "dateTime")
    )
    sessions = win.SessionWindower(gap=TEN)
    counted = win.fold_window(
        "count",
        bids,
        clock(lambda r: r[1]),
        sessions,
        int,
        lambda n, _: n + 1,
        lambda a, b: a + b,
        ordered=False,
    )
    return complete(counted)


def q18(read: Callable[..., Rows]) -> Rows:
    """The last bid of every bidder in every auction, whenever it is another one."""
    names = ("auction", "bidder", "price", "channel", "url", "dateTime", "extra")
    bids = keyed("bid", read("bid", *names), lambda r: f"{r[0]},{r[1]}", lists(*names))

    def later(held: Any, row: tuple[Any, ...]) -> tuple[Any, list[Any]]:
        return (row, [row]) if held is None or row[5] >= held[5] else (held, [])

    return op.stateful_flat_map("last", bids, later)


QUERIES: dict[str, Callable[[Callable[..., Rows]], Rows]] = {
    each.__name__: each for each in (q0, q1, q2, q3, q5, q7, q8, q11, q18)
}


def main(parameters: dict[str, Any]) -> None:
    """Run one process of the query to the end of its files."""
    flow = Dataflow(parameters["query"])

    def read(kind: str, *columns: str) -> Rows:
        return op.input(kind, flow, Files(Path(parameters["input"]) / kind, columns))

    op.output("out", QUERIES[parameters["query"]](read), Nothing())
    cluster_main(flow, parameters["addresses"], parameters["process"])
    told = {
        "read": [TOLD.read[b] for b in sorted(TOLD.read)],
        "end": time.time(),
        "rows": TOLD.rows,
        "late": TOLD.late,
    }
    Path(parameters["told"]).write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
