"""How fast critical participation is computed: from a trace in a file to summaries, and from an event log of Spark.

The figures to beat are SnailTrail's (NSDI 2018, tables 2 and 3): 1.2 M events/s at most, on 32 cores, and 0.06 s for a
window of one second with 30,000 events. An activity is two events there, its begin and its end, and so is a message.
Everything runs in one process, on the cores that it finds useful.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.harness import (
    Benchmark,
    Measurement,
    Metric,
    Parameters,
    Picture,
    Result,
    Series,
    Variant,
    Workbench,
)
from benchmarks.trials import run_trials

THROUGHPUT, LATENCY = 1.2e6, 0.06
"""Published, events/s and seconds."""

NS = 1_000_000_000


def run_trace(parameters: Parameters) -> Measurement:
    """Seconds to read a trace, and to analyse it, by repeat; the first one, which compiles, is left out."""
    from rechannel.profiling.files.table import open_trace
    from rechannel.profiling.reading import profile_trace
    from rechannel.profiling.threads import in_threads

    file = Path(parameters["scratch"]) / "trace.parquet"
    events = write_trace_of(file, parameters)
    reading, analysing, windows = [], [], 0
    for _ in range(parameters["repeats"] + 1):
        began = time.perf_counter()
        trace = open_trace(file)
        read = time.perf_counter()
        found = profile_trace(trace, window=NS, each=in_threads)
        found.by_activity(), found.by_worker(), found.by_operator(), found.by_channel()
        analysing.append(time.perf_counter() - read)
        reading.append(read - began)
        windows = len(found.windows)
    total = float(found.cells.collect()["critical"].sum())
    if abs(total - found.known) > 1e-6 * windows:
        msg = f"participation adds up to {total} over {found.known} windows"
        raise RuntimeError(msg)
    return {
        "events": events,
        "windows": windows,
        "reading": reading[1:],
        "analysing": analysing[1:],
    }


def write_trace_of(file: Path, parameters: Parameters) -> int:
    """Write a trace of workers that are busy most of the time and send to each other; how many events it has."""
    from rechannel.profiling.files.table import write_trace
    from rechannel.profiling.model.trace import DATA, RESERVED, Activities, Messages, Names, Trace

    rng = np.random.default_rng(parameters["seed"])
    workers, seconds = parameters["workers"], parameters["seconds"]
    each: int = parameters["events_per_second"] * seconds // 4 // workers
    count = each * workers
    gaps = rng.exponential(seconds * NS / each, size=(workers, each)).astype(np.int64) + 2
    start = np.cumsum(gaps, axis=1)
    length = (np.minimum(gaps, np.roll(gaps, -1, axis=1)) * 0.8).astype(np.int64)
    worker = np.repeat(np.arange(workers, dtype=np.int32), each)
    did = Activities(
        worker=worker,
        kind=rng.integers(len(RESERVED), len(RESERVED) + 2, count).astype(np.int32),
        operator=rng.integers(0, parameters["operators"], count).astype(np.int32),
        start=start.ravel(),
        end=(start + length).ravel(),
    )
    of = rng.integers(0, count, count)
    sent = did.start[of]
    went = Messages(
        source=worker[of],
        target=rng.integers(0, workers, count).astype(np.int32),
        kind=np.full(count, RESERVED.index(DATA), dtype=np.int32),
        operator=np.full(count, -1, dtype=np.int32),
        sent=sent,
        received=sent + rng.exponential(1e6, count).astype(np.int64) + 1,
    )
    names = Names(
        workers=[f"worker {i}" for i in range(workers)],
        operators=[f"operator {i}" for i in range(parameters["operators"])],
        kinds=[*RESERVED, "processing", "scheduling"],
    )
    write_trace(Trace(names=names, activities=did, messages=went), file)
    return int(4 * count)


def run_log(parameters: Parameters) -> Measurement:
    """Seconds to read an event log of Spark, and to analyse what it says, by repeat."""
    from rechannel.profiling.reading import profile_trace
    from rechannel.profiling.spark.event_files import log_lines
    from rechannel.profiling.spark.log import SparkLog
    from rechannel.profiling.spark.trace import spark_trace
    from rechannel.profiling.threads import in_threads

    file = Path(parameters["scratch"]) / "app-1"
    write_log_of(file, parameters)
    reading, analysing, tasks = [], [], 0
    for _ in range(parameters["repeats"] + 1):
        began = time.perf_counter()
        log = SparkLog(strict=True).read(log_lines(file))
        read = time.perf_counter()
        profile_trace(spark_trace(log), window=NS, each=in_threads)
        analysing.append(time.perf_counter() - read)
        reading.append(read - began)
        tasks = len(log.tasks)
    return {
        "bytes": file.stat().st_size,
        "tasks": tasks,
        "reading": reading[1:],
        "analysing": analysing[1:],
    }


def write_log_of(file: Path, parameters: Parameters) -> None:
    """Write an event log of stages of tasks on executors, with the fields that Spark 4 writes of each."""
    template = json.loads(Path(__file__).with_name("task_end.json").read_text())
    rng = np.random.default_rng(parameters["seed"])
    cores, tasks = parameters["cores"], parameters["tasks"]
    now, number = 1_700_000_000_000, 0

    def line(event: str, **fields: object) -> str:
        return (
            json.dumps({"Event": f"SparkListener{event}", **fields}, separators=(",", ":")) + "\n"
        )

    with file.open("w") as out:
        out.write(line("LogStart", **{"Spark Version": "4.3.0"}))
        out.write(
            line("ApplicationStart", **{"App Name": "made", "App ID": "app-1", "Timestamp": now})
        )
        for executor in range(cores // 4):
            info = {"Host": "h", "Total Cores": 4}
            out.write(
                line(
                    "ExecutorAdded",
                    **{"Timestamp": now, "Executor ID": str(executor), "Executor Info": info},
                )
            )
        for stage in range(tasks // (2 * cores)):
            stage_info = {
                "Stage ID": stage,
                "Stage Name": f"stage {stage % 3}",
                "RDD Info": [],
                "Parent IDs": [],
            }
            out.write(
                line(
                    "JobStart",
                    **{"Job ID": stage, "Submission Time": now, "Stage Infos": [stage_info]},
                )
            )
            free = np.full(cores, now + 5)
            for _ in range(2 * cores):
                core = int(free.argmin())
                run = int(rng.gamma(2, 20)) + 2
                launch, finish = int(free[core]), int(free[core]) + run + 4
                free[core] = finish + 1
                event = {**template, "Stage ID": stage}
                event["Task Info"] = {
                    **template["Task Info"],
                    "Task ID": number,
                    "Executor ID": str(core // 4),
                    "Launch Time": launch,
                    "Finish Time": finish,
                }
                event["Task Metrics"] = {**template["Task Metrics"], "Executor Run Time": run}
                out.write(json.dumps(event, separators=(",", ":")) + "\n")
                number += 1
            now = int(free.max()) + 5
            out.write(line("JobEnd", **{"Job ID": stage, "Completion Time": now}))
        out.write(line("ApplicationEnd", Timestamp=now))


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Measure both."""
    variants = [
        Variant(name=name, function=f"benchmarks.profile:run_{name}", parameters=parameters)
        for name in ("trace", "log")
    ]
    trials = run_trials(
        variants,
        bench,
        rounds=parameters["rounds"],
        timeout=parameters["timeout_seconds"],
        check=check,
    )
    metrics: list[Metric] = []
    ratios: dict[str, float] = {}
    for name in trials.variants:
        found = trials.of(name)
        reading = median(second for each in found for second in each["reading"])
        analysing = median(second for each in found for second in each["analysing"])
        metrics += [
            Metric(name="reading", value=reading, unit="s", variant=name),
            Metric(name="analysing", value=analysing, unit="s", variant=name),
        ]
        if name == "trace":
            rate = found[0]["events"] / (reading + analysing)
            window = (reading + analysing) / found[0]["windows"]
            metrics += [
                Metric(name="throughput", value=rate, unit="events/s", variant=name),
                Metric(name="per window", value=window, unit="s", variant=name),
            ]
            ratios = {"bound_throughput": rate / THROUGHPUT, "bound_window": LATENCY / window}
        else:
            size, tasks = found[0]["bytes"] / 1e6, found[0]["tasks"]
            metrics += [
                Metric(name="reading", value=size / reading, unit="MB/s", variant=name),
                Metric(name="reading", value=tasks / reading, unit="tasks/s", variant=name),
                Metric(name="analysing", value=tasks / analysing, unit="tasks/s", variant=name),
            ]
    return Result(
        parameters=parameters,
        metrics=(*metrics, *trials.memory()),
        ratios=ratios,
        picture=_picture(metrics),
        failures=trials.failures,
    )


def check(variant: Variant, made: Measurement) -> None:
    """Raise ValueError for a measurement without figures."""
    if not made.get("reading") or not made.get("analysing"):
        msg = f"{variant.name} measured nothing"
        raise ValueError(msg)


def _picture(metrics: list[Metric]) -> Picture:
    seconds = [each for each in metrics if each.unit == "s" and each.name != "per window"]
    return Picture(
        title="Critical participation: seconds to read and to analyse",
        x_label="0: a trace, 1: an event log of Spark",
        y_label="seconds",
        series=tuple(
            Series(
                label=name,
                x=tuple(float(i) for i, each in enumerate(m for m in seconds if m.name == name)),
                y=tuple(each.value for each in seconds if each.name == name),
            )
            for name in ("reading", "analysing")
        ),
    )


BENCHMARK = Benchmark(
    name="profile",
    purpose="critical participation of a trace of a million events and more, and of an event log of Spark",
    defaults={
        "workers": 48,
        "seconds": 100,
        "events_per_second": 30_000,
        "operators": 10,
        "tasks": 100_000,
        "cores": 64,
        "repeats": 5,
        "rounds": 3,
        "seed": 1,
        "timeout_seconds": 1_800,
    },
    quick={"seconds": 10, "tasks": 5_000, "repeats": 2, "rounds": 1},
    run=run,
    goals={"bound_throughput": 1.0, "bound_window": 1.0},
)
