"""Alerts of payments with a process function, whose threshold is another one from one timestep on.

Each card has a state that is forgotten after an hour, a timer that goes off when the card was quiet
for a minute, and a side output of large payments. The threshold is in the program's text: the new
text is deployed while the job runs, and the state stays. Rows that wait for the watermark by then
are rows of the new text: of the payments of B, all but the first reach it.

Prints:

    large: A 120.0
    alert: A spent 310.0
    deployed: done
    large: B 60.0
    large: B 60.0
    alert: B spent 180.0
    alert: B quiet 180.0
    alert: A quiet 370.0
    alert: C quiet 1.0
"""

import datetime as dt
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rechannel as rc
from rechannel.testing import script

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
MINUTE = dt.timedelta(minutes=1)


def watching(threshold: float) -> Any:
    """Return the function of the operator, made of a parameter."""

    def watch(_card: str, rows: Any, context: Any) -> Iterator[tuple[str, float]]:
        spent = context.value("spent")
        for row in rows:
            before = spent.get(0.0)
            total = before + row.amount
            spent.set(total)
            context.set_timer("quiet", row.at + MINUTE)
            if row.amount > threshold:
                context.side_output("large", row.amount)
            if before <= 3 * threshold < total:
                yield "spent", total

    return watch


def quiet(_card: str, _timer: Any, context: Any) -> Iterator[tuple[str, float]]:
    """Report what was spent, and forget it."""
    yield "quiet", context.value("spent").get(0.0)
    context.value("spent").clear()


def program(payments: Any, state: Path, threshold: float) -> rc.Job:
    """Return the job of a threshold."""
    stream = rc.read().memory(payments, name="payments").event_time("at", delay="5 seconds")
    alerts = stream.key_by("card").process(
        watching(threshold),
        schema="what STRING, total DOUBLE",
        states={"spent": rc.states.value_state("total DOUBLE", ttl="1 hour")},
        timers={"quiet": "event"},
        on_timer=quiet,
        side_outputs={"large": "amount DOUBLE"},
        time_column="at",
        name="alerts",
    )
    large = alerts.side_output("large")
    ends = [
        alerts.write.memory("alerts", name="alerts-out"),
        large.write.memory("large", name="large-out"),
    ]
    return rc.Job("cards", ends, state=state)


def pay(card: str, amount: float, second: int) -> dict[str, object]:
    """Make a row."""
    return {"card": card, "amount": amount, "at": NOON + dt.timedelta(seconds=second)}


def show(job: Any, seen: dict[str, int]) -> None:
    """Print the rows that have come since the last call."""
    for table, words in (("large", "large"), ("alerts", "alert")):
        rows = job.memory(table).to_pylist()
        for row in rows[seen.get(table, 0) :]:
            print(f"{words}:", *row.values())
        seen[table] = len(rows)


def main(folder: Path) -> None:
    """Watch two cards, with a lower threshold for the second half."""
    payments, seen = script("card STRING, amount DOUBLE, at TIMESTAMP"), dict[str, int]()
    job = program(payments, folder / "state", threshold=100.0).start(in_process=rc.InProcess())
    payments.push([pay("A", 120.0, 0), pay("A", 100.0, 2), pay("A", 90.0, 3), pay("A", 60.0, 4)])
    payments.push([pay("B", 60.0, 20)])
    job.process_all_available()
    payments.push([pay("B", 60.0, 30)])
    job.process_all_available()
    show(job, seen)

    change = job.deploy(program(payments, folder / "state", threshold=50.0))
    print("deployed:", change.wait(60).phase if change else "it runs already")
    payments.push([pay("B", 60.0, 40), pay("C", 1.0, 50)])
    payments.push([pay("C", 1.0, 300)])
    job.process_all_available()
    show(job, seen)
    job.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
