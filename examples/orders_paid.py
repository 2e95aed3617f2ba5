"""Orders joined to their payments: records that are no orders aside, a bound on them, and figures for an alert.

Prints:

    paid: 1 by 3.0
    open: 2
    bad: parse
    bad: valid
    bad rows: parse 1 of 5, valid 1 of 4
    lag of event time: known
"""

import datetime as dt
import json
import tempfile
from pathlib import Path
from typing import Any

import rechannel as rc
from rechannel.testing import script

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
ORDER = "id BIGINT, price DOUBLE, placed TIMESTAMP"


def program(records: Any, payments: Any, state: Path) -> rc.Job:
    """Return the job."""
    few = rc.at_most(percent=20, timesteps=10, min_rows=20)
    orders = (
        rc.read()
        .memory(records, name="records")
        .decode_json(ORDER, on_error=few, name="parse")
        .expect_or_drop(
            has_id=rc.expectations.not_null("id"),
            priced=rc.expectations.between("price", 0, 10_000),
            bound=few,
            name="valid",
        )
        .event_time("placed", delay="1 minute", idle="5 minutes")
    )
    paid = rc.read().memory(payments, name="payments")
    paid = paid.event_time("at", delay="1 minute", idle="5 minutes")
    within = rc.between(0, "30 minutes")
    pairs = orders.join(paid, {"id": "order"}, how="left", within=within, name="pairs")
    ends = [pairs.write.memory("pairs"), pairs.late.write.memory("late")]
    return rc.Job("orders", [*ends, rc.dead_letters(*ends).write.memory("bad")], state=state)


def order(number: int, price: float, minute: int) -> dict[str, str]:
    """Make a record."""
    placed = (NOON + dt.timedelta(minutes=minute)).isoformat()
    return {"value": json.dumps({"id": number, "price": price, "placed": placed})}


def payment(number: int, amount: float, minute: int) -> dict[str, object]:
    """Make a row."""
    return {"order": number, "amount": amount, "at": NOON + dt.timedelta(minutes=minute)}


def main(folder: Path) -> None:
    """Feed two timesteps, and print what became of the orders."""
    records, payments = script("value STRING"), script("order BIGINT, amount DOUBLE, at TIMESTAMP")
    job: Any = program(records, payments, folder / "state").start(in_process=rc.InProcess())
    records.push([order(1, 3.0, 1), order(2, 4.0, 2), order(3, -1.0, 3), {"value": "no order"}])
    payments.push([payment(1, 3.0, 5)])
    job.process_all_available()
    records.push([order(4, 1.0, 50)])  # from here on, no payment of order 2 can come in time
    payments.push([payment(9, 1.0, 51)])
    job.process_all_available()

    for row in sorted(job.memory("pairs").to_pylist(), key=lambda row: row["id"]):
        print(f"paid: {row['id']} by {row['amount']}" if row["amount"] else f"open: {row['id']}")
    for letter in sorted(job.memory("bad").to_pylist(), key=lambda row: row["operator"]):
        print("bad:", letter["operator"])
    counts = [f"{name} {each.bad} of {each.rows}" for name, each in job.status.bad_rows.items()]
    print("bad rows:", ", ".join(sorted(counts)))
    lag = job.status.operators["pairs"].event_time_lag_s  # for Prometheus: see docs/http.md
    print("lag of event time:", "known" if lag > 0 else "none")
    job.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
