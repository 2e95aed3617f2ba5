"""Watch payments in JSON files: alerts by a process function, bad records aside, each in a dataset.

A card is watched until an hour has passed without a payment. Three payments of more than 500 within
ten minutes, at three merchants, are an alert. A record that is no payment is a dead letter; more
than one in five of a timestep would fail the job.

Prints:

    {'card': 'A', 'merchants': 'bar, inn, pub', 'total': 1900.0}
    timestep 2: {"card": "B", "amount": "much"}
    watched: no card
"""

import datetime as dt
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rechannel as rc

SCHEMA = "card STRING, merchant STRING, amount DOUBLE, at TIMESTAMP"
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def watch(_card: str, rows: Any, context: Any) -> Iterator[tuple[str, float]]:
    """Keep the large payments of the last ten minutes; a third merchant is an alert."""
    large = context.list("large")
    for row in rows:
        context.set_timer("silent", row.at + dt.timedelta(hours=1))
        if row.amount <= 500:
            continue
        while len(large) and large[0].at < row.at - dt.timedelta(minutes=10):
            large.popleft()
        large.append((row.merchant, row.amount, row.at))
        merchants = sorted({each.merchant for each in large})
        if len(merchants) == 3:
            yield ", ".join(merchants), sum(each.amount for each in large)


def forget(_card: str, _timer: Any, context: Any) -> None:
    """Nothing was paid for an hour."""
    context.list("large").clear()


def alerts_of(payments: Any) -> Any:
    """Return the alerts of a stream of payments; a test gives it other ones."""
    return payments.key_by("card").process(
        watch,
        schema="merchants STRING, total DOUBLE",
        states={"large": rc.states.list_state("merchant STRING, amount DOUBLE, at TIMESTAMP")},
        timers={"silent": "event"},
        on_timer=forget,
        time_column="at",
        name="alerts",
    )


def pay(card: str, merchant: str, amount: float, minute: int) -> str:
    """Return a record as a line of a file."""
    at = (NOON + dt.timedelta(minutes=minute)).isoformat()
    return json.dumps({"card": card, "merchant": merchant, "amount": amount, "at": at})


def main(place: Path) -> None:
    """Run the job over the first file, and then over the others."""
    incoming = place / "in"
    incoming.mkdir()

    def arrive(name: str, *lines: str) -> None:
        (place / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        (place / name).rename(incoming / name)  # a file is whole when it is seen

    read = rc.read(rc.session("local[2]")).files(
        f"{incoming}/*.json",
        schema=SCHEMA,
        per_timestep=1,
        on_error=rc.at_most(percent=20, min_rows=5),
        name="payments",
    )
    alerts = alerts_of(read.event_time("at", "1 minute")).write.dataset(place / "alerts")
    bad = rc.dead_letters(alerts).write.dataset(place / "bad")
    settings = rc.Settings(tasks=2)
    arrive("1.json", pay("A", "bar", 600.0, 0), pay("A", "inn", 700.0, 3), pay("B", "bar", 9.0, 4))
    job = rc.Job("payments", [alerts, bad], state=place / "state", settings=settings).start()
    job.process_all_available()
    arrive("2.json", pay("A", "pub", 600.0, 8), '{"card": "B", "amount": "much"}')
    arrive("3.json", pay("C", "bar", 1.0, 300))
    job.process_all_available()
    for row in rc.read_output(place / "alerts").table().to_pylist():
        print(row)
    for row in rc.read_output(place / "bad").table().to_pylist():
        print(f"timestep {row['at_timestep']}: {row['row']}")
    watched = sorted({row["card"] for row in job.state("alerts").collect()})
    print("watched:", ", ".join(watched) or "no card")
    job.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        main(Path(directory))
