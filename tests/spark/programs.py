"""Dataflows that several tests run, what they left behind, and processes that run them to be killed.

A process of its own is `python -m tests.spark.programs MODULE:FUNCTION ARGUMENTS`, the arguments as one JSON object. It
talks in lines of JSON on its standard output; `children.py` is the other end.
"""

import faulthandler
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.journal.reading import read_only
from rechannel.engine.spark.runner import SparkRunner
from rechannel.state.stores.local import Durability, LocalStore
from tests.support.jvms import SHORT_LIVED

T = TypeVar("T")

PATIENCE = 300
"""Seconds for what takes one or two on a machine that is not busy."""

ACCOUNTS, BRANCHES = 97, 7

TIMESTEPS, PER_TIMESTEP = 24, 300
ROWS = TIMESTEPS * PER_TIMESTEP
"""Size of a ledger, unless a test says otherwise: more than the commits between two sweeps of files."""

BRIEF = 8 * PER_TIMESTEP
"""Rows of a ledger where a few timesteps prove as much as many."""

PLAIN: dict[str, Any] = {
    "durability": Durability.PROCESS,
    "snapshot_every": 6,
    "tasks": 2,
}
"""Settings of the tests: small numbers, so that snapshots and merges happen."""


def entries(start: int, stop: int) -> pa.RecordBatch:
    """Bookings as a function of their number."""
    number = np.arange(start, stop, dtype=np.int64)
    return pa.record_batch(
        {
            "number": number,
            "account": number * 7919 % ACCOUNTS,
            "amount": np.sin(number) * 10.0 ** (number % 9),
        }
    )


def with_branch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A coarser key for the second operator."""
    branch = pa.array(batch.column("account").to_numpy() % BRANCHES)
    return batch.append_column("branch", branch)


def follow(key: Any, state: Any, rows: Any) -> tuple[int, int]:
    """How many bookings an account had, and the number of its latest."""
    seen = 0 if state is None else state.seen
    return (seen + len(rows), rows["number"][-1])


def as_it_is(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A front function that does nothing."""
    return batch


def ledger(
    out: Path | str,
    *,
    rows: int = ROWS,
    per_timestep: int = PER_TIMESTEP,
    front: Callable[[Any], Any] = as_it_is,
    behind: Callable[[Any], Any] = with_branch,
    update: Callable[[Any, Any, Any], Any] = follow,
) -> list[Any]:
    """Two stateful operators in a row and a track, with files behind two of them."""
    source = rc.read().generator(
        entries,
        schema="number BIGINT, account BIGINT, amount DOUBLE",
        rows=rows,
        per_timestep=per_timestep,
        partitions=2,
        name="entries",
    )
    booked = source.map_batches(front, name="front")
    balances = booked.key_by("account").aggregate(
        n=agg.count(), total=agg.sum("amount"), spread=agg.stddev("amount"), latest=agg.last("amount"),
        name="balances",
    )  # fmt: skip
    columns = "account BIGINT, n BIGINT, total DOUBLE, spread DOUBLE, latest DOUBLE, branch BIGINT"
    branches = (
        balances.map_batches(behind, schema=columns, name="behind")
        .key_by("branch")
        .aggregate(updates=agg.count(), top=agg.max("total"), sum=agg.sum("total"), name="branches")
    )
    followed = booked.key_by("account").track(
        update, state="seen BIGINT, latest BIGINT", name="followed"
    )
    return [
        balances.write.parquet(f"{out}/balances", name="to-balances"),
        branches.write.parquet(f"{out}/branches", name="to-branches"),
        followed,
    ]


OPERATORS = ("balances", "branches", "followed")


def session(place: Path | str, master: str = "local[2]", **config: Any) -> Any:
    """A session of `rc.session` whose files lie under a place."""
    return rc.session(
        master,
        **{
            "spark__local__dir": f"{place}/local",
            "spark__driver__memory": "600m",
            "spark__driver__extraJavaOptions": SHORT_LIVED,
            "spark__executor__extraJavaOptions": SHORT_LIVED,
            "spark__sql__warehouse__dir": f"{place}/warehouse",
            **config,
        },
    )


def start(
    spark: SparkSession,
    flows: Any,
    state: Path | str,
    *,
    name: str = "ledger",
    takeover: bool = False,
    **settings: Any,
) -> rc.RunningJob:
    """A running job."""
    values = rc.Settings(**{**PLAIN, **settings})
    return rc.Job(name, flows, state=str(state), settings=values, spark=spark).start(
        takeover=takeover
    )


def run(spark: SparkSession, flows: Any, state: Path | str, **settings: Any) -> rc.RunningJob:
    """A job that has read its input to the end and stopped."""
    job = start(spark, flows, state, **settings)
    try:
        job.process_all_available(PATIENCE)
    finally:
        job.stop(PATIENCE)
    return job


def run_in_process(flows: Any, state: Path | str, **settings: Any) -> rc.RunningJob:
    """As `run`, without Spark: what a stream comes to is the same, and is there in a fraction of the time."""
    values = rc.Settings(**{**PLAIN, **settings})
    job = rc.Job("ledger", flows, state=str(state), settings=values).start(
        in_process=rc.InProcess()
    )
    try:
        job.process_all_available(PATIENCE)
    finally:
        job.stop(PATIENCE)
    return job


def as_bytes(table: pa.Table) -> bytes:
    """A table's values as bytes: floats to the last bit, nulls as nulls whatever lies under them."""
    plain = pa.Table.from_pylist(table.to_pylist(), schema=table.schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, plain.schema) as writer:
        writer.write_table(plain.combine_chunks())
    held: bytes = sink.getvalue().to_pybytes()
    return held


def states(job: rc.RunningJob, operators: Iterable[str] = OPERATORS) -> dict[str, bytes]:
    """The state of every operator, byte for byte."""
    return {name: as_bytes(job.state_table(name)) for name in operators}


def published(path: Path | str) -> dict[str, Counter[str]]:
    """Rows under the path of a file sink by timestep, and how often each is there."""
    out: dict[str, Counter[str]] = {}
    for folder in sorted(Path(path).glob("timestep=*")):
        rows: Counter[str] = Counter()
        for file in folder.glob("*.parquet"):
            table = pq.ParquetFile(file).read()
            rows.update(repr(row) for row in table.to_pylist())
        out[folder.name] = rows
    return out


def outputs(out: Path | str) -> dict[str, dict[str, Counter[str]]]:
    """Everything that the file sinks of a ledger show."""
    return {name: published(f"{out}/{name}") for name in ("balances", "branches")}


def journal_of(state: Path | str) -> Any:
    """What the journal of a state directory says now."""
    return read_only(LocalStore(Path(state)))


def files_under(path: Path | str, pattern: str = "*") -> dict[str, int]:
    """Names of all files below a directory, with their sizes; no temporary ones."""
    return {
        str(file.relative_to(path)): file.stat().st_size
        for file in sorted(Path(path).rglob(pattern))
        if file.is_file() and not file.name.startswith(".tmp-")
    }


def written_by(mark: dict[str, Any], state: Path | str) -> list[str]:
    """Segments that an attempt of a task has written. mark: `holds.me` of it."""
    return list(files_under(state, f"segments/*/*-{mark['task']}-*.arrow"))


def until(condition: Callable[[], T], what: str, patience: float = PATIENCE) -> T:
    """Wait for a condition; its value. Raises TimeoutError saying what did not happen."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.03)
    raise TimeoutError(f"did not happen in {patience} s: {what}")


def configured(change: Callable[[Any], Any]) -> None:
    """From now on, jobs of this process run every timestep under a changed configuration."""
    opened = SparkRunner.open

    def open_changed(runner: SparkRunner, timestep: Any) -> None:
        opened(runner, replace(timestep, configuration=change(timestep.configuration)))

    SparkRunner.open = open_changed  # type: ignore[method-assign, assignment]


def tell(**facts: Any) -> None:
    """Tell the process that started this one."""
    print(json.dumps(facts), flush=True)


def main() -> None:
    """Run a function of a module as a process. SIGUSR1 makes it write down what its threads are at."""
    faulthandler.register(signal.SIGUSR1)
    module, _, name = sys.argv[1].partition(":")
    tell(result=getattr(import_module(module), name)(**json.loads(sys.argv[2])))


if __name__ == "__main__":
    main()
