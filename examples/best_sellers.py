"""What sells best in each minute, kept as tables; another aggregate by an upgrade that is tried on a fork first.

`sold` has a row per product and minute, also of the minute that is still open: a changelog keeps it.
`best` has the first two of each minute that has closed. For PostgreSQL, `write.postgres(url, table, ...)`
takes the same `keys` and `changes` as `write.dataset(path, ...)`.

Prints:

    sold: 12:00 cup 3, 12:00 pen 2, 12:01 bag 1
    best: 12:00 cup, 12:00 pen
    on trial: 12:01 bag 2 for 9
    upgraded: 12:00 cup 3 for None, 12:00 pen 2 for None, 12:01 bag 2 for 9, 12:02 hat 1 for 2
    best: 12:00 cup, 12:00 pen, 12:01 bag
"""

import datetime as dt
import tempfile
from pathlib import Path
from typing import Any

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.testing import script

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
REVENUE = {"revenue": agg.sum("price")}
"""What the second version adds."""


def program(sales: Any, place: Path, more: dict[str, Any]) -> rc.Job:
    """Return the job."""
    stream = rc.read().memory(sales, name="sales").event_time("at", delay="5 seconds")
    products, minutes = stream.key_by("product"), rc.windows.tumbling("1 minute")
    counts: dict[str, Any] = {"n": agg.count(), **more}
    sold = products.window(minutes, emit="on_update").aggregate(counts, name="sold")
    closed = products.window(minutes).aggregate(n=agg.count(), name="closed")
    best = closed.window(rc.windows.same_window()).top(2, by="n", name="best")
    kept = ["product", "window_start"]
    ends = [
        sold.changelog().write.dataset(
            f"{place}/sold", keys=kept, changes="change", name="to-sold"
        ),
        best.write.dataset(f"{place}/best", keys=["window_start", "rank"], name="to-best"),
    ]
    return rc.Job("sales", ends, state=place / "state")


def sell(product: str, second: int, price: int = 2) -> dict[str, object]:
    """Make a row."""
    return {"product": product, "price": price, "at": NOON + dt.timedelta(seconds=second)}


def rows(place: Path, name: str) -> list[dict[str, Any]]:
    """Return what a reader of a table sees."""
    table: Any = rc.read_output(f"{place}/{name}").table()
    return sorted(table.to_pylist(), key=lambda row: (row["window_start"], -row["n"]))


def sold(place: Path) -> str:
    """Return the table `sold` in words."""
    words = [
        f"{row['window_start']:%H:%M} {row['product']} {row['n']}" for row in rows(place, "sold")
    ]
    last = [f" for {row['revenue']}" if "revenue" in row else "" for row in rows(place, "sold")]
    return ", ".join(map(str.__add__, words, last))


def best(place: Path) -> str:
    """Return the table `best` in words."""
    return ", ".join(f"{row['window_start']:%H:%M} {row['product']}" for row in rows(place, "best"))


def upgrade(job: rc.Job) -> None:
    """Let a program take over, and process what is there."""
    running = job.start(upgrade=True, in_process=rc.InProcess())
    running.process_all_available()
    running.stop()


def main(folder: Path) -> None:
    """Run the first version, then the second on a fork, then the second."""
    sales = script("product STRING, price BIGINT, at TIMESTAMP")
    live, trial = folder / "live", folder / "trial"
    job = program(sales, live, {}).start(in_process=rc.InProcess())
    sales.push([sell("pen", 1), sell("pen", 2), sell("cup", 3)])
    sales.push([sell("cup", 4), sell("cup", 5), sell("bag", 70)])
    job.process_all_available()
    job.savepoint("before-revenue", cause="release 2")
    job.stop()
    print("sold:", sold(live))
    print("best:", best(live))

    program(sales, live, {}).fork(trial / "state", at="before-revenue")
    sales.push([sell("bag", 71, price=9)])
    upgrade(program(sales, trial, REVENUE))
    print("on trial:", sold(trial))

    sales.push([sell("hat", 130)])
    upgrade(program(sales, live, REVENUE))
    print("upgraded:", sold(live))
    print("best:", best(live))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
