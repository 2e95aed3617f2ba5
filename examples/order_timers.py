"""Keep state of your own per key, and act when nothing has arrived for a while.

Orders are paid in parts. One is reported when it is paid in full, or when event time is ten minutes past its last part.

Prints:

    lamp: paid, 30 of 30
    desk: given up, 40 of 100
"""

import datetime as dt
import tempfile
from pathlib import Path
from typing import Any

import rechannel as rc
from rechannel.testing import script

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def pay(_order: str, state: Any, rows: rc.frames.Rows) -> tuple[int, int, str]:
    """Add up what was paid: the state of an order after the rows of a timestep."""
    paid = (state.paid if state else 0) + sum(rows["amount"])
    price = max(rows["price"])
    return paid, price, "paid" if paid >= price else "open"


def give_up(_order: str, state: Any) -> tuple[int, int, str] | None:
    """Emit a last row for an order that times out; nothing for one that is paid."""
    return (state.paid, state.price, "given up") if state.status == "open" else None


def part(order: str, price: int, amount: int, minute: int) -> dict[str, object]:
    """Make a row."""
    at = NOON + dt.timedelta(minutes=minute)
    return {"order": order, "price": price, "amount": amount, "at": at}


def main(folder: Path) -> None:
    """Feed three timesteps, and print what became of the orders."""
    parts = script("order STRING, price BIGINT, amount BIGINT, at TIMESTAMP")
    timed = rc.read().memory(parts, name="parts").event_time("at")
    orders = timed.key_by("order").track(
        pay,
        state="paid BIGINT, price BIGINT, status STRING",
        timeout="10 minutes",
        time="event",
        expired=give_up,
        name="orders",
    )
    settled = orders.filter(lambda row: row.status != "open")
    job = rc.Job("orders", settled.write.memory("settled"), state=folder / "state")
    running = job.start(in_process=rc.InProcess())

    parts.push([part("lamp", 30, 10, 0), part("desk", 100, 40, 1)])
    parts.push([part("lamp", 30, 20, 2)])
    parts.push([part("rug", 50, 5, 15)])  # event time passes the timer of the desk
    running.process_all_available()

    for row in running.memory("settled").to_pylist():
        print(f"{row['order']}: {row['status']}, {row['paid']} of {row['price']}")
    running.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
