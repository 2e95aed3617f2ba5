"""Change a job while it runs: more tasks, a few bins at a time, and another aggregate.

Prints:

    rescale(operator='users', tasks=4) by fluid(bins=2)
    done: 8 bins moved in 4 steps
    the job has 4 tasks
    ann: n=3 slowest=9
    bob: n=2 slowest=None
"""

import tempfile
from pathlib import Path
from typing import Any

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.testing import script


def main(folder: Path) -> None:
    """Start a job, change it twice, and print its state."""
    clicks = script("user STRING, ms BIGINT")
    users = (
        rc.read()
        .memory(clicks, name="clicks")
        .key_by("user")
        .aggregate(n=agg.count(), name="users", tasks=2, bins=16)
    )
    job = rc.Job("clicks", users.write.memory("out"), state=folder / "state")
    running = job.start(in_process=rc.InProcess())
    clicks.push([{"user": "ann", "ms": 5}, {"user": "bob", "ms": 7}, {"user": "bob", "ms": 8}])
    running.process_all_available()

    # A plan says what would happen, and does nothing.
    plan = running.plan(rc.changes.rescale("users", tasks=4), rc.strategies.fluid(bins=2))
    print(str(plan).splitlines()[0])

    change = running.reconfigure(plan).wait(60)
    summary = change.summary()
    print(f"{summary.phase}: {summary.bins} bins moved in {summary.steps.made} steps")
    print(f"the job has {running.configuration.operators['users'].tasks} tasks")

    # The new aggregate starts with the next row; the old one goes on with its state.
    aggregates = {"n": agg.count(), "slowest": agg.max("ms")}
    migration = rc.changes.migrate(add={"slowest": None})
    running.reconfigure(rc.changes.change_logic("users", aggregates, migrate=migration)).wait(60)
    clicks.push([{"user": "ann", "ms": 9}, {"user": "ann", "ms": 4}])
    running.process_all_available()
    state: Any = running.state("users")  # a table of Arrow; on Spark a DataFrame
    for row in state.sort_by("user").to_pylist():
        print(f"{row['user']}: n={row['n']} slowest={row['slowest']}")
    running.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
