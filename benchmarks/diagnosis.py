"""Streams that are slow for a known reason, run for real, and what their profile says.

Each is a Structured Streaming query that makes its rows itself, one batch after the other, whose event log is profiled
afterwards, without the seconds in which it warmed up:

- `scheduling`: batches of a few rows through many partitions;
- `processing`: a Python function that takes its time over every row;
- `straggler`: a word count, most of whose words are the same;
- `communication`: wide rows through a shuffle between two executors whose line is slow. The loopback device of a
  network namespace of its own is throttled for it; if that is not permitted, the case is reported as not run.

Skew and operators with too few tasks, as SnailTrail has measured them, are in `skew.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import which
from statistics import median
from typing import TYPE_CHECKING, Any

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
from benchmarks.session import session
from benchmarks.trials import Trials, run_trials

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

CAUSES = ("scheduling", "processing", "straggler", "communication")
HOT = 80
"""Percent of the words that are the same."""
NAMESPACE = ("unshare", "--user", "--map-root-user", "--net")


def run_case(parameters: Parameters) -> Measurement:
    """Run a query for `seconds`, profile its log; the first cause, and how far the hottest worker stands out."""
    if parameters["case"] == "communication" and not os.environ.get("THROTTLED"):
        return throttled(parameters)
    logs = Path(parameters["scratch"]) / "events"
    logs.mkdir(parents=True)
    spark = session(
        {**parameters, "cores": parameters["workers"], "tasks": parameters["workers"]},
        {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": str(logs),
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
            **(SLOW_LINE if parameters["case"] == "communication" else {}),
        },
    )
    try:
        query = (
            made(spark, parameters)
            .writeStream.format("noop")
            .outputMode("update")
            .option("checkpointLocation", str(Path(parameters["scratch"]) / "checkpoint"))
            .start()
        )
        time.sleep(parameters["warmup"] + parameters["seconds"])
        query.stop()
    finally:
        spark.stop()
    (log,) = logs.iterdir()
    return diagnosed(log, parameters)


SLOW_LINE = {
    "spark.master": "local-cluster[2,2,1024]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Both executors are on one host: they would read each other's files.
    "spark.shuffle.readHostLocalDisk": "false",
    "spark.shuffle.compress": "false",
}


def throttled(parameters: Parameters) -> Measurement:
    """The case in a network namespace whose loopback device is slow."""
    needed = [tool for tool in ("unshare", "ip", "tc") if which(tool) is None]
    if needed:
        return {"case": parameters["case"], "not_run": f"there is no {needed[0]!r}"}
    slow = f"ip link set lo up && tc qdisc add dev lo root tbf rate {parameters['line']} burst 128kb latency 400ms"
    tried = subprocess.run(
        [*NAMESPACE, "sh", "-c", slow], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        return {"case": parameters["case"], "not_run": tried.stderr.strip()}
    program = "import sys; from benchmarks.diagnosis import tell; tell(sys.argv[1])"
    command = f'{slow} && exec "$0" -c "$1" "$2"'
    done = subprocess.run(
        [*NAMESPACE, "sh", "-c", command, sys.executable, program, json.dumps(dict(parameters))],
        env={**os.environ, "THROTTLED": "1", "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: Measurement = json.loads(done.stdout.splitlines()[-1])
    return found


def tell(parameters: str) -> None:
    """Run a case in this process, and print what was found."""
    print(json.dumps(run_case(json.loads(parameters))))


def made(spark: SparkSession, parameters: Parameters) -> DataFrame:
    """The query of a case."""
    from pyspark.sql import functions as f

    case, workers = parameters["case"], parameters["workers"]
    value = f.col("value")
    if case == "scheduling":
        return lines(spark, parameters["few"], workers).repartition(40).select(value + 1)
    if case == "communication":
        wide = lines(spark, parameters["wide"], workers).select("value", padded(value))
        return wide.repartition(workers, "value").select(f.length("text"))
    if case.startswith("instances"):
        before, middle, behind = parameters["instances"]
        text = f.concat_ws(" ", *((value % n).cast("string") for n in (1_000, 997))).alias("text")
        rows = lines(spark, parameters["lines"], before).select(text).repartition(middle)
        words = rows.mapInPandas(waiting(parameters["us"], split), "word string")
        keyed = words.repartition(behind, "word")
        return keyed.mapInPandas(waiting(parameters["us"] / 2, counted), "word string, n long")
    rows = parameters["words"]
    share = int(parameters.get("share", 0))
    # Words that are spread over all tasks, and one that has a share of them all besides.
    word = f.when(value % 100 < share, f.lit("the")).otherwise(
        f.concat(f.lit("w"), (value % 997).cast("string"))
    )
    words = lines(spark, rows, workers).select(word.alias("word")).repartition(workers, "word")
    return words.mapInPandas(spelled, "word string, n long")


def lines(spark: SparkSession, rows: int, partitions: int) -> DataFrame:
    """That many rows a batch, one batch after the other."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
    return source.option("numPartitions", partitions).load()


def padded(value: Any) -> Any:
    """A text of 2 KB."""
    from pyspark.sql import functions as f

    return f.lpad(value.cast("string"), 2_000, "x").alias("text")


def spelled(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Count words, letter by letter: what a plain Python function over rows costs."""
    import pandas as pd

    for batch in batches:
        found: Counter[str] = Counter()
        for word in batch["word"]:
            found["".join(letter.upper() for letter in word)] += 1
        yield pd.DataFrame({"word": list(found), "n": list(found.values())})


def split(batch: pd.DataFrame) -> pd.DataFrame:
    """Words of lines."""
    return batch["text"].str.split(" ").explode().to_frame("word")


def counted(batch: pd.DataFrame) -> pd.DataFrame:
    """Counts of words."""
    return batch.groupby("word", as_index=False).agg(n=("word", "size"))


def waiting(us: float, work: Any) -> Any:
    """Do that to batches, and wait that many microseconds per row."""

    def waited(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            time.sleep(us * len(batch) / 1e6)
            yield work(batch)

    waited.__name__ = work.__name__
    return waited


def diagnosed(log: Path, parameters: Parameters) -> Measurement:
    """What the trace alone says of the time after the warm-up."""
    from dataclasses import replace

    import polars as pl

    from rechannel.profiling.model.analysis import ProfileOptions, analyse
    from rechannel.profiling.model.batches import choose_batches
    from rechannel.profiling.reading import open_file
    from rechannel.profiling.threads import in_threads

    trace = open_file(log, strict=True)
    batches = choose_batches(trace.batches, None, trace.title)
    begin = trace.source.span[0] / 1e9
    warm = [b for b in batches if b.start >= batches[0].start + 1_000 * parameters["warmup"]]
    if not warm:
        msg = f"no batch began after the warm-up of {parameters['warmup']} s: give it more seconds"
        raise ValueError(msg)
    asked = ProfileOptions(
        window=parameters["window"],
        since=warm[0].start / 1e3 - begin,
        until=batches[-1].end / 1e3 - begin,
    )
    found = analyse(replace(trace, diagnosis=None), asked, in_threads)
    workers = found.profile.over_time("worker", "message").filter(
        ~pl.col("message") & (pl.col("worker") != "driver")
    )
    ratios = {
        of: [
            shares[0] / shares[1]
            for (shares,) in workers.group_by("window")
            .agg(pl.col(of).sort(descending=True))
            .select(of)
            .iter_rows()
            if len(shares) > 1 and shares[1] > 0
        ]
        for of in ("critical", "profile")
    }
    operators = found.profile.by_operator().filter(pl.col("operator").str.contains("MapInPandas"))
    return {
        "case": parameters["case"],
        "causes": [each.cause for each in found.findings],
        "shares": [each.share for each in found.findings],
        "text": [each.text for each in found.findings],
        "operators": operators.select("operator", "critical", "profile", "workers").rows(),
        "windows": len(found.profile.windows),
        "batches": len(warm),
        "separation": median(ratios["critical"]) if ratios["critical"] else 0.0,
        "usual": median(ratios["profile"]) if ratios["profile"] else 0.0,
    }


def run_cases(parameters: Parameters, bench: Workbench, cases: Mapping[str, Parameters]) -> Trials:
    """Run cases, with what each has of its own."""
    variants = [
        Variant(
            name=name,
            function="benchmarks.diagnosis:run_case",
            parameters={**parameters, **own, "case": name},
        )
        for name, own in cases.items()
    ]
    return run_trials(
        variants,
        bench,
        rounds=parameters["rounds"],
        timeout=parameters["timeout_seconds"],
        check=check,
    )


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Run all cases."""
    cases = {name: {"share": HOT if name == "straggler" else 0} for name in CAUSES}
    trials = run_cases(parameters, bench, cases)
    metrics: list[Metric] = []
    ratios: dict[str, float] = {}
    for name in trials.variants:
        found = trials.of(name)
        if "not_run" in found[0]:
            bench.progress.step(f"{name}: not run: {found[0]['not_run']}")
            continue
        for text in found[0]["text"][:2]:
            bench.progress.step(f"{name}: {text}")
        metrics.append(
            Metric(
                name="CP of the first cause",
                value=median(each["shares"][0] for each in found),
                unit="",
                variant=name,
            )
        )
        right = sum(each["causes"][0] == name for each in found)
        ratios[f"bound_{name}"] = right / len(found)
    return Result(
        parameters=parameters,
        metrics=tuple(metrics),
        ratios=ratios,
        picture=picture(metrics),
        failures=trials.failures,
    )


def picture(metrics: list[Metric]) -> Picture:
    """How much of the critical path the first cause is, by case."""
    return Picture(
        title="The share of the first cause",
        x_label=", ".join(f"{i}: {each.variant}" for i, each in enumerate(metrics)),
        y_label="share of the critical path",
        series=(
            Series(
                label="CP",
                x=tuple(float(i) for i in range(len(metrics))),
                y=tuple(each.value for each in metrics),
            ),
        ),
    )


def check(variant: Variant, made: Measurement) -> None:
    """Raise ValueError for a run whose profile found nothing."""
    if "not_run" not in made and not made["causes"]:
        msg = f"nothing stands out in {made['windows']} windows of {variant.name}"
        raise ValueError(msg)


DEFAULTS: Parameters = {
    "workers": 4,
    "warmup": 15,
    "seconds": 45,
    "words": 300_000,
    "lines": 8_000,
    "few": 20,
    "wide": 20_000,
    "line": "40mbit",
    "us": 200,
    "window": 5.0,
    "rounds": 1,
    "driver_memory": "1g",
    "timeout_seconds": 600,
}
BENCHMARK = Benchmark(
    name="diagnosis",
    purpose="streams that are slow for a known reason, and what their profile says",
    defaults=DEFAULTS,
    quick={"seconds": 15, "warmup": 10},
    run=run,
    goals={f"bound_{name}": 1.0 for name in CAUSES},
)
