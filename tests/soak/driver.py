"""One driver of the soak, in a process of its own: `python -m tests.soak.driver FOLDER SEED WHAT`.

WHAT: "on" runs until it is killed or fenced and changes the stream at random all the while; "finish"
works off all there is and stops. The last line that it writes tells in JSON how it ended.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import FencedError, RechannelError, StateInUseError
from rechannel.job import InProcess, Job
from rechannel.running import RunningJob
from rechannel.settings import Settings
from rechannel.state.merging import MergePolicy

ROWS = "k STRING, v BIGINT"
PATIENCE = 300
STRATEGIES = (
    lambda: rc.strategies.fluid(bins=1),
    lambda: rc.strategies.fluid(bins=1, gap=1),
    lambda: rc.strategies.batched(bins=3),
    rc.strategies.all_at_once,
)


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def flows(folder: Path) -> list[Any]:
    """Rows as they are, an operator, and another one after it."""
    rows = rc.read().files(str(folder / "in/*.parquet"), schema=ROWS, per_timestep=2, name="rows")
    keys = rows.key_by("k").aggregate(
        n=agg.count(), t=agg.sum("v"), latest=agg.last("v"), name="keys"
    )
    sizes = keys.key_by("n").aggregate(c=agg.count(), name="sizes")
    return [
        rows.map_batches(same, schema=ROWS).write.json(folder / "copied", name="copied"),
        keys.write.parquet(folder / "keys", name="keys-out"),
        sizes.write.parquet(folder / "sizes", name="sizes-out"),
    ]


def settings(rng: Random) -> Settings:
    return Settings(
        tasks=2,
        bins=8,
        keep_versions=1,
        snapshot_every=rng.choice((1, 3, 7)),
        in_flight=rng.choice((1, 3)),
        publish_backlog=rng.choice((1, 8)),
        merging=MergePolicy(fan=2, slice_rows=1),
    )


def change(rng: Random, job: RunningJob) -> Any:
    """A change that may be, or may have to be refused."""
    name = rng.choice(("keys", "sizes"))
    operator = job.configuration.operators[name]
    routing = operator.routing
    assert routing is not None
    bins, first = routing.bins, rng.randrange(routing.bins)
    kinds = (
        lambda: rc.changes.rescale(name, tasks=rng.choice((1, 2, 3, 5))),
        lambda: rc.changes.rebalance(name),
        lambda: rc.changes.split(name, first, into=rng.choice((2, 3, 9))),
        lambda: rc.changes.merge(name, list(range(first, min(bins, first + rng.randrange(2, 20))))),
        lambda: rc.changes.move(name, [first, rng.randrange(bins)], rng.randrange(operator.tasks)),
        lambda: rc.changes.rewrite(name),
        lambda: rc.changes.combine("sizes", rng.choice(("on", "off", "auto"))),
        lambda: rc.changes.set_in_flight(rng.choice((1, 2, 4))),
        lambda: rc.changes.set_interval(rng.choice((0, 1, 5))),
        lambda: rc.changes.change_logic(
            "keys", {"n": agg.count(), "t": agg.sum("v"), "latest": agg.last("v")}
        ),
    )
    return rng.choice(kinds)()


def poke(rng: Random, job: RunningJob, done: Counter[str]) -> None:
    """Ask for changes until the job ends."""
    while job.is_active:
        time.sleep(rng.random() * 0.2)
        options: dict[str, Any] = {}
        if rng.random() < 0.2:
            options["at"] = job.status.timestep + rng.randrange(1, 12)
        if rng.random() < 0.2:
            options["supersede"] = True
        try:
            changes = [change(rng, job) for _ in range(rng.choice((1, 1, 1, 3)))]
            asked = job.reconfigure(changes, rng.choice(STRATEGIES)(), **options)
            done["asked"] += 1
            if rng.random() < 0.3:
                time.sleep(rng.random() * 0.1)
                asked.abort()
        except RechannelError:
            done["refused"] += 1
        except Exception as error:
            done[f"odd: {type(error).__name__} {error}"[:300]] += 1


def tell(**facts: Any) -> None:
    sys.stdout.write(f"{json.dumps(facts)}\n")
    sys.stdout.flush()


def main(folder: Path, seed: int, what: str) -> None:
    """One driver's life."""
    logging.disable(logging.WARNING)
    rng = Random(seed)
    finish, done = what == "finish", Counter[str]()
    takeover = finish or rng.random() < 0.7
    try:
        job = Job("soak", flows(folder), state=folder / "state", settings=settings(rng)).start(
            in_process=InProcess(), takeover=takeover, revert=True
        )
        tell(started=True, takeover=takeover)
        if finish:
            job.process_all_available(PATIENCE)
            job.stop(PATIENCE)
        else:
            poke(rng, job, done)
            job.await_termination(PATIENCE)
        tell(end="done", **done)
    except (FencedError, StateInUseError) as error:
        tell(end=type(error).__name__, **done)
    except RechannelError as error:
        fenced = isinstance(error.__cause__, FencedError)
        tell(end="FencedError" if fenced else f"{type(error).__name__}: {error}"[:500], **done)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
