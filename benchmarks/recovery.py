"""A stream whose hosts fail: D-Streams' figures 10 to 13 and Chi's 10b, next to Structured Streaming.

Executors are killed, hosts lose power or are cut off, or one host becomes slow. Both sides read the same lines, due
by the clock, at the same interval, on the same cluster with the same settings of Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
from benchmarks.measurements import latencies_ms
from benchmarks.trials import Trials, run_trials

RECHANNEL, PEER = "rechannel", "structured_streaming"
SIDES = {RECHANNEL: "benchmarks.recovery:run_rechannel", PEER: "benchmarks.peers.recovery:run"}
BACK = 1.5
"""A batch is as before if it takes at most this multiple of the median before the fault."""
NS = 1e9
BOUNDS = {"executor": 3.0, "host": 15.0}
"""Seconds without a commit, at most."""


def run_rechannel(parameters: Parameters) -> Measurement:
    """Rechannel's side, imported only in the process that measures it."""
    from benchmarks.recovery_side import run as run_side

    return run_side(parameters)


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Run every workload with every fault on both sides; the slow host with copies of slow tasks and without."""
    trials = run_trials(
        variants_of(parameters),
        bench,
        rounds=parameters["rounds"],
        timeout=parameters["timeout_seconds"],
        check=check,
    )
    found = {
        name: [Recovery.of(each, parameters) for each in trials.of(name)]
        for name in trials.variants
    }
    return Result(
        parameters=parameters,
        metrics=tuple(metric for name in found for metric in metrics_of(name, found[name])),
        ratios=ratios_of(found),
        picture=picture_of(trials),
        failures=trials.failures,
    )


def variants_of(parameters: Parameters) -> list[Variant]:
    """Name: workload, fault and side."""
    out = []
    for workload in parameters["workloads"]:
        for fault in parameters["faults"]:
            for side, function in SIDES.items():
                for speculation in (True, False) if fault == "slow" else (True,):
                    copies = "" if speculation else ", no copies"
                    more = {"workload": workload, "fault": fault, "speculation": speculation}
                    out.append(
                        Variant(
                            name=f"{workload}, {fault}{copies}, {side}",
                            function=function,
                            parameters={**parameters, **more},
                        )
                    )
    return out


def check(variant: Variant, run: Measurement) -> None:
    """Refuse a run that did not commit every line once, or in which nothing was seen before the fault."""
    parameters = variant.parameters
    seconds = sum(parameters[f"{part}_seconds"] for part in ("warmup", "before", "after"))
    latencies_ms(run, rate=parameters["rate"], first_row=0, end_row=seconds * parameters["rate"])
    Recovery.of(run, parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What a fault did to one run. Times are seconds."""

    before: float
    """Median time of a batch before the fault."""
    known: float | None
    """From the fault until Spark's driver takes the executors for lost; None if it never did."""
    silence: float
    """Longest time between two commits, from the fault on."""
    usual: float
    """Longest time between two commits before it."""
    at_failure: float
    """The batch under way when the loss was known (the slowest one, if none was): how long it still took."""
    back: int
    """Batches that ended after that until three in a row are as before."""
    after: float
    """Median time of the last ten batches."""

    @classmethod
    def of(cls, run: Measurement, parameters: Parameters) -> Recovery:
        """Fold a run. Raises ValueError if it has no batch before the fault."""
        commits = np.asarray([at for _, _, at in run["commits"]], dtype=np.float64) / NS
        began = np.asarray(run["began_ns"], dtype=np.float64) / NS
        failed = run["failed_ns"] / NS
        first = failed - parameters["before_seconds"]
        took = commits - began
        steady = (began >= first) & (commits < failed)
        if not steady.any():
            raise ValueError("no batch before the fault")
        usual = float(np.median(took[steady]))
        gaps, ends = np.diff(commits), commits[1:]
        known = run["known_ns"] / NS if run["known_ns"] is not None else None
        later = took[commits > (known or failed)]
        under_way = (began <= (known or failed)) & (commits > (known or failed))
        rest = commits[under_way] - (known or failed)
        slow = later > BACK * usual
        calm = [place for place in range(len(slow)) if not slow[place : place + 3].any()]
        return cls(
            before=usual,
            known=None if known is None else known - failed,
            silence=float(gaps[ends > failed].max(initial=0.0)),
            usual=float(gaps[(ends >= first) & (ends <= failed)].max(initial=0.0)),
            at_failure=float(rest.max()) if len(rest) else float(later.max(initial=0.0)),
            back=calm[0] if calm else len(slow),
            after=float(np.median(took[-10:])),
        )


def metrics_of(variant: str, runs: list[Recovery]) -> list[Metric]:
    """Medians over the runs."""
    out = []
    for name, unit, value in (
        ("batch before", "s", lambda each: each.before),
        ("known to Spark after", "s", lambda each: each.known),
        ("longest without a commit", "s", lambda each: each.silence),
        ("longest without a commit, before", "s", lambda each: each.usual),
        ("batch at the failure, from then", "s", lambda each: each.at_failure),
        ("batches until as before", "batches", lambda each: float(each.back)),
        ("batch after", "s", lambda each: each.after),
    ):
        values = [value(each) for each in runs if value(each) is not None]
        if values:
            out.append(Metric(name=name, value=median(values), unit=unit, variant=variant))
    return out


def ratios_of(found: Mapping[str, list[Recovery]]) -> dict[str, float]:
    """Peer over Rechannel, and what was promised over what was measured."""
    out = {}
    for name, runs in found.items():
        what, _, side = name.rpartition(", ")
        if side != RECHANNEL:
            continue
        silence = median(each.silence for each in runs)
        if (bound := BOUNDS.get(what.split(", ")[1])) is not None:
            out[f"bound_silence {what}"] = bound / silence
            ratio = median(each.at_failure / each.before for each in runs)
            out[f"bound_at_failure {what}"] = 3.0 / ratio
        if (peer := found.get(f"{what}, {PEER}")) is not None:
            out[f"silence {what}"] = median(each.silence for each in peer) / silence
    return out


def picture_of(trials: Trials) -> Picture:
    """Time of every batch of the first run of each variant, by when it was committed."""
    series = []
    for name in trials.variants:
        run = trials.of(name)[0]
        at = [(commit - run["failed_ns"]) / NS for _, _, commit in run["commits"]]
        took = [
            (commit - began) / NS
            for (_, _, commit), began in zip(run["commits"], run["began_ns"], strict=True)
        ]
        shown = [(x, y) for x, y in zip(at, took, strict=True) if x > -20]
        series.append(
            Series(label=name, x=tuple(x for x, _ in shown), y=tuple(y for _, y in shown))
        )
    return Picture(
        title="Time of batches; a fault at 0 s",
        x_label="seconds since the fault",
        y_label="seconds",
        series=tuple(series),
        log_y=True,
        panels=True,
    )


BENCHMARK = Benchmark(
    name="recovery",
    purpose="time without a commit, and of batches, when executors and hosts fail",
    defaults={
        "workloads": ["words", "grep"],
        "faults": ["executor", "host", "cut", "slow"],
        "hosts": 2,
        "failures": 1,
        "recovery": "fast",
        "rate": 5_000,
        "words": 10_000,
        "partitions": 4,
        "tasks": 4,
        "interval_ms": 1_000,
        "warmup_seconds": 25,
        "before_seconds": 15,
        "after_seconds": 50,
        "cut_seconds": 30,
        "rounds": 1,
        "host_memory_mb": 1_000,
        "driver_memory": "2g",
        "durability": "process",
        "timeout_seconds": 400,
    },
    quick={
        "workloads": ["words"],
        "faults": ["executor"],
        "warmup_seconds": 10,
        "after_seconds": 15,
    },
    run=run,
)
