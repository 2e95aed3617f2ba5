"""Rechannel's side of every comparison: ordinary programs against the public API."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import rechannel as rc
from benchmarks.big_timestep import SCHEMA as BIG_SCHEMA
from benchmarks.big_timestep import watched
from benchmarks.clock_source import ClockSource
from benchmarks.harness import Measurement, Parameters
from benchmarks.inputs import SCHEMA
from benchmarks.measurements import BatchMeasurement, LatencyMeasurement
from benchmarks.nexmark.events import SCHEMAS
from benchmarks.nexmark.query import Query, Tables, query
from benchmarks.processor import ProcessorTime, processor_time
from benchmarks.session import shared_settings
from benchmarks.variant import report
from rechannel import aggregates as agg
from rechannel.dataflow.streams.stream import Stream
from rechannel.kernels.functions.python_rows import Rows
from rechannel.operators.process.context import Context
from rechannel.operators.process.process_frame import ProcessFrame
from rechannel.operators.process.track_frame import KeyedFrame

POLL_SECONDS = 0.05
ENTRIES_KEPT = 1_000_000
"""Journal entries stay, because the time at which a timestep was committed is read from its entry."""


def keyed_state(parameters: Parameters) -> BatchMeasurement:
    """Count and sum of ``value`` per ``key``."""
    spark = session(parameters)
    counted = (
        read_batches(spark, parameters)
        .key_by("key")
        .aggregate(count=agg.count(), total=agg.sum("value"), name="totals")
    )
    return run_batches(parameters, counted)


telemetry_overhead = keyed_state


def bins(parameters: Parameters) -> BatchMeasurement:
    """Rows per ``key``, over ``bins`` bins."""
    spark = session(parameters)
    keyed = read_batches(spark, parameters).key_by("key")
    return run_batches(
        parameters, keyed.aggregate(count=agg.count(), name="counts", bins=parameters["bins"])
    )


def big_timestep(parameters: Parameters) -> dict[str, Any]:
    """Count, sum and last text per key, in one timestep; the peaks of the Python workers."""
    files = sorted(Path(parameters["input"]).glob("*.parquet"))
    with watched() as peaks:
        spark = session(parameters)
        rows = rc.read(spark).files(
            parameters["input"],
            format="parquet",
            schema=BIG_SCHEMA,
            per_timestep=len(files),
            name="rows",
        )
        totals = rows.key_by("key").aggregate(
            count=agg.count(), total=agg.sum("value"), last=agg.last("text"), name="totals"
        )
        settings = rc.Settings(
            tasks=parameters["tasks"],
            durability=rc.Durability(parameters["durability"]),
            task_bytes=parameters["task_bytes"],
            timestep_bytes=1 << 50,
        )
        state = Path(parameters["scratch"]) / "state"
        job = rc.Job("benchmark", totals.write.noop(), state=state, settings=settings).start()
        job.process_all_available()
        facts = job.recent_progress
    (found,) = (
        job.state("totals")
        .selectExpr(
            "count(*) AS keys",
            "sum(count) AS rows",
            "sum(total) AS total",
            "sum(key * total) AS weighted",
        )
        .collect()
    )
    job.stop()
    return {
        "seconds": [fact.duration_ms / 1e3 for fact in facts],
        "rows": [fact.rows_in for fact in facts],
        "state": found.asDict(),
        "workers": [[peaks.anonymous[pid], peaks.resident[pid]] for pid in peaks.anonymous],
    }


def pipelining(parameters: Parameters) -> BatchMeasurement:
    """Count and sum per key, then how many keys have each count."""
    spark = session(parameters)
    counted = (
        read_batches(spark, parameters)
        .key_by("key")
        .aggregate(count=agg.count(), total=agg.sum("value"), name="totals")
    )
    spread = counted.key_by("count").aggregate(keys=agg.count(), name="spread")
    return run_batches(parameters, spread)


def nexmark(parameters: Parameters) -> BatchMeasurement:
    """A query of NEXMark, with its processor time. Without state it is its SQL, over a DataFrame."""
    spark = session(parameters)
    asked = query(parameters["query"])
    streams = {kind: nexmark_rows(spark, parameters, kind) for kind in asked.reads}
    with processor_time() as watched:
        return run_batches(parameters, nexmark_results(asked, streams), watched)


def nexmark_results(asked: Query, streams: Mapping[str, Stream]) -> Stream:
    """The rows of a query over the kinds of events that it reads."""
    if not asked.stateful:
        (kind,) = asked.reads
        return streams[kind].transform(Sql(asked.sql, kind))
    timed = {kind: rows.event_time("dateTime") for kind, rows in streams.items()}
    nobody: Any = None
    return asked.build(Tables(**{kind: timed.get(kind, nobody) for kind in SCHEMAS}))


def nexmark_rows(spark: Any, parameters: Parameters, kind: str) -> Stream:
    """One kind of event, a batch per timestep."""
    return rc.read(spark).files(
        Path(parameters["input"]) / kind,
        format="parquet",
        schema=SCHEMAS[kind],
        per_timestep=parameters["files"],
        name=kind,
    )


@dataclass(frozen=True)
class Sql:
    """A query over one table, as a function of a DataFrame."""

    text: str
    table: str

    def __call__(self, frame: Any) -> Any:
        """Its rows."""
        return frame.sparkSession.sql(
            self.text.replace(f"FROM {self.table}", "FROM {rows}"), rows=frame
        )


def python_state(parameters: Parameters) -> BatchMeasurement:
    """Count and sum per key by a user's function of `track` or `process`: once per key, or over all keys of a task."""
    spark = session(parameters)
    keyed = read_batches(spark, parameters).key_by("key")
    state = "count bigint, total bigint"
    if parameters["form"] == "process":
        states = {"totals": rc.states.value_state(state)}
        tracked = keyed.process(process_rows, schema=state, states=states, name="totals")
    elif parameters["form"] == "process_batches":
        states = {"totals": rc.states.value_state(state)}
        tracked = keyed.process_batches(process_frame, schema=state, states=states, name="totals")
    elif parameters["form"] == "per_key":
        tracked = keyed.track(add_rows, state=state, name="totals")
    else:
        tracked = keyed.track_batches(add_frame, state=state, name="totals")
    return run_batches(parameters, tracked)


def add_rows(key: int, state: Any, rows: Rows) -> tuple[int, int]:
    """The state of one key after its rows of a timestep."""
    del key
    count, total = state or (0, 0)
    return count + len(rows), total + sum(rows["value"])


def process_rows(key: int, rows: Rows, context: Context) -> list[tuple[int, int]]:
    """What `add_rows` does, as a process function."""
    del key
    totals = context.value("totals")
    count, total = totals.get((0, 0))
    made = count + len(rows), total + sum(rows["value"])
    totals.set(made)
    return [made]


def add_frame(frame: KeyedFrame) -> dict[str, Any]:
    """The states of all keys of a task after their rows of a timestep."""
    return {
        "count": frame.previous("count", 0) + frame.count(),
        "total": frame.previous("total", 0) + frame.sum("value"),
    }


def process_frame(frame: ProcessFrame) -> dict[str, Any]:
    """What `add_frame` does, as a process function."""
    made = {
        "count": frame.previous("totals", "count", 0) + frame.count(),
        "total": frame.previous("totals", "total", 0) + frame.sum("value"),
    }
    frame.set_value("totals", made)
    return made


def state_growth(parameters: Parameters) -> BatchMeasurement:
    """Count and sum per key over a state of ``keys`` keys that was loaded in bulk."""
    spark = session(parameters)

    def initial() -> Any:
        return spark.range(0, parameters["keys"], 1, 64).selectExpr(
            "id AS key", "CAST(1 AS BIGINT) AS count", "id AS total"
        )

    counted = (
        read_batches(spark, parameters)
        .key_by("key")
        .aggregate(count=agg.count(), total=agg.sum("value"), name="totals", preload=initial)
    )
    return run_batches(parameters, counted)


def latency(parameters: Parameters) -> LatencyMeasurement:
    """A keyed count over the clock-driven source, as fast as possible."""
    spark = session(parameters)
    start_ns = time.time_ns()
    options = {name: parameters[name] for name in ("rate", "keys", "partitions")}
    rows = rc.read(spark).python(ClockSource, options={"start_ns": start_ns, **options})
    counted = rows.key_by("key").aggregate(
        count=agg.count(), name="counts", tasks=parameters["tasks"]
    )
    # The source stage reads several source partitions per task: a task costs more than 100 rows do.
    job = start(parameters, counted, tasks=parameters["cores"])
    wanted = (parameters["warmup_seconds"] + parameters["seconds"]) * parameters["rate"]
    (source,) = job.sources
    phases: dict[int, dict[str, float]] = {}
    while (done := job.committed_offset(source).get("rows", 0)) < wanted:
        if job.await_termination(POLL_SECONDS):
            raise RuntimeError("the job ended before it had read all rows")
        phases.update({p.timestep: dict(p.phases) for p in job.recent_progress})
        report(f"{done} of {wanted} rows")
    job.stop()
    names = sorted({name for phase in phases.values() for name in phase})
    return {
        "start_ns": start_ns,
        "commits": list(commits(parameters, source)),
        "phases": {name: [phases[t].get(name, 0.0) for t in sorted(phases)] for name in names},
    }


def session(parameters: Parameters) -> Any:
    """A session with the settings that every side gets."""
    settings = shared_settings(parameters)
    master = settings.pop("spark.master")
    named: dict[str, Any] = {key.replace(".", "__"): value for key, value in settings.items()}
    return rc.session(master, **named)


def read_batches(spark: Any, parameters: Parameters) -> Stream:
    """The input's batches, one per timestep."""
    folder = Path(parameters["scratch"]) / "input"
    folder.mkdir()
    for batch in range(parameters["batches"]):
        for file in sorted(Path(parameters["input"]).glob(f"batch-{batch:05d}-part-*.parquet")):
            (folder / file.name).symlink_to(file)
    return rc.read(spark).files(
        folder, format="parquet", schema=SCHEMA, per_timestep=parameters["files"], name="batches"
    )


def start(parameters: Parameters, stream: Stream, *, tasks: int) -> rc.RunningJob:
    """Start a job that throws its rows away, as the peers do."""
    settings = rc.Settings(
        tasks=tasks,
        durability=rc.Durability(parameters["durability"]),
        in_flight=parameters.get("in_flight", 1),
        inline_rows=parameters.get("inline_rows", 0),
        telemetry=parameters.get("telemetry", True),
        snapshot_every=ENTRIES_KEPT,
    )
    state = Path(parameters["scratch"]) / "state"
    return rc.Job("benchmark", stream.write.noop(), state=state, settings=settings).start()


def run_batches(
    parameters: Parameters, stream: Stream, watched: ProcessorTime | None = None
) -> BatchMeasurement:
    """Run over all batches; a batch's time is what passed since the commit before its own.

    watched: tells the processor time of every batch.
    """
    began = time.time_ns()
    job = start(parameters, stream, tasks=parameters["tasks"])
    total = parameters["batches"]
    seen: dict[int, dict[str, Any]] = {}
    while job.status.timestep < total:
        if job.await_termination(POLL_SECONDS):
            raise RuntimeError("the job ended before its input did")
        seen.update({p.timestep: p.to_dict() for p in job.recent_progress})
        report(f"{job.status.timestep} of {total} batches")
    job.process_all_available()
    seen.update({p.timestep: p.to_dict() for p in job.recent_progress})
    job.stop()
    facts = [seen[timestep] for timestep in sorted(seen)]
    ends = [committed for _, _, committed in commits(parameters, None)]
    at = [began, *ends]
    names = sorted({name for fact in facts for name in fact["phases"]})
    measurement: BatchMeasurement = {
        "seconds": [(b - a) / 1e9 for a, b in pairwise(at)],
        "rows": [fact["rows_in"] for fact in facts],
        "latencies": [(b - a) / 1e9 for a, b in zip(intents(parameters), ends, strict=True)],
        "phases": {name: [fact["phases"].get(name, 0.0) for fact in facts] for name in names},
    }
    if watched is not None:
        watched.sample()
        measurement["processor"] = [watched.between(a, b) for a, b in pairwise(at)]
    return measurement


def commits(parameters: Parameters, source: str | None) -> Sequence[tuple[int, int, int]]:
    """(first row, row after the last, time of the commit in ns since 1970) of every timestep.

    A timestep counts as committed from the moment at which its journal entry got its name.
    """
    out: list[tuple[int, int, int]] = []
    last = 0
    for body, at in entries(parameters, "committed"):
        end = body["offsets"][source]["rows"] if source else last
        out.append((last, end, at))
        last = end
    return out


def intents(parameters: Parameters) -> list[int]:
    """When every timestep began, ns since 1970: the time of the entry that says what it will read."""
    return [at for _, at in entries(parameters, "intent")]


def entries(parameters: Parameters, kind: str) -> Iterator[tuple[Measurement, int]]:
    """Journal entries of a kind that are about timesteps, and when they got their names, ns since 1970."""
    for file in sorted((Path(parameters["scratch"]) / "state" / "journal").glob("*.json")):
        entry: Measurement = json.loads(file.read_text(encoding="utf-8"))
        if entry["kind"] == kind and entry["body"]["timestep"] != 0:
            yield entry["body"], file.stat().st_ctime_ns
