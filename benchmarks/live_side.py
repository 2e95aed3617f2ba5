"""Rechannel's side of `reconfigure`: a job on two hosts is changed, or stopped and started again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import rechannel as rc
from benchmarks.harness import Measurement, Parameters
from benchmarks.live_program import (
    NO_ROWS,
    OPERATOR,
    SOURCE,
    changes,
    first_changes,
    first_places,
    journal,
    start,
)
from benchmarks.rechannel_side import commits
from benchmarks.timeline import LiveMeasurement
from benchmarks.two_hosts import cluster, session
from benchmarks.variant import report
from rechannel.reconfigure import strategies
from rechannel.state.keys import SEGMENTS
from rechannel.telemetry.reading import read_events
from rechannel.telemetry.task_finished import TaskFinished

POLL_SECONDS = 0.05
PATIENCE_SECONDS = 600.0


def load(parameters: Parameters) -> Measurement:
    """Make the state directory that every run begins with a copy of."""
    began = time.perf_counter()
    with cluster(parameters) as made:
        spark = session(made.url, parameters)
        job = start(spark, {**parameters, "rate": NO_ROWS})
        set_out(job, parameters)
        job.stop()
        spark.stop()
    state = Path(parameters["scratch"]) / "state"
    size = sum(file.stat().st_size for file in state.rglob("*") if file.is_file())
    shutil.move(state, parameters["template"])
    return {"seconds": time.perf_counter() - began, "bytes": size}


def set_out(job: rc.RunningJob, parameters: Parameters) -> None:
    """Put bins and tasks where they are before the change that is measured."""
    at_once(job, first_changes(parameters))


def at_once(job: rc.RunningJob, changes: list[Any]) -> None:
    """Make changes, if there are any."""
    if changes:
        job.reconfigure(changes, rc.strategies.all_at_once(prepare=False)).wait(PATIENCE_SECONDS)


def started(spark: Any, parameters: Parameters) -> rc.RunningJob:
    """The job on its first state. Loaded state says which task has which bins, but knows nothing of these executors."""
    job = start(spark, parameters)
    if parameters["load"]:
        at_once(job, first_places(parameters))
    else:
        set_out(job, parameters)
    return job


def capacity(parameters: Parameters) -> Measurement:
    """Rows per second when every timestep takes ``rows`` rows: the median after the warm-up."""
    take_template(parameters)
    with cluster(parameters) as made:
        spark = session(made.url, parameters)
        job = started(spark, {**parameters, "rate": None, "load": True})
        # The interval is state: the loaded job's holds until it is changed.
        job.reconfigure(rc.changes.set_interval(0))
        until(job, time.time() + parameters["capacity_seconds"])
        job.stop()
        spark.stop()
    known = commits(parameters, SOURCE)
    began = known[0][2] + parameters["capacity_seconds"] * 500_000_000
    late = [at for at in known if at[2] >= began]
    took = [(b[2] - a[2]) / 1e9 for a, b in pairwise(late)]
    return {"rows_per_second": parameters["rows"] / median(took), "timesteps": len(took)}


def take_template(parameters: Parameters) -> None:
    """A copy of the loaded state, of which no host's cache knows anything; nothing where every run loads its own.

    Segments are never written to again, so that the copy has other names for the same ones.
    """
    if not parameters["load"]:
        return

    def copy(source: str, target: str) -> str:
        name = Path(source).relative_to(parameters["template"]).as_posix()
        if not name.startswith(SEGMENTS):
            return shutil.copy2(source, target)
        os.link(source, target)
        return target

    shutil.copytree(
        parameters["template"], Path(parameters["scratch"]) / "state", copy_function=copy
    )


def until(job: rc.RunningJob, when: float) -> None:
    """Let the job run until a time (seconds since 1970)."""
    while (left := when - time.time()) > 0:
        if job.await_termination(min(left, 0.5)):
            raise RuntimeError("the job ended by itself")


def finish(job: rc.RunningJob, parameters: Parameters) -> None:
    """Let the job commit every row that is due now, and stop."""
    since = job.committed_offset(SOURCE)["since_ms"]
    due = (time.time() * 1e3 - since) * parameters["rate"] / 1e3
    give_up = time.time() + PATIENCE_SECONDS
    while job.committed_offset(SOURCE)["rows"] < due:
        if job.await_termination(POLL_SECONDS) or time.time() > give_up:
            raise RuntimeError("the job did not catch up with its input")
    job.stop()


def live(parameters: Parameters) -> LiveMeasurement:
    """Run, change while it runs (or not, without a ``strategy``), run on."""
    take_template(parameters)
    with cluster(parameters) as made:
        spark = session(made.url, parameters)
        job = started(spark, parameters)
        asked = wait_for_change(job, parameters)
        if parameters["strategy"] is None:
            done = asked + parameters["control_seconds"]
            handles: list[Any] = []
        else:
            handles = change(job, parameters)
            done = time.time()
        until(job, done + parameters["settle_seconds"] + parameters["after_seconds"])
        finish(job, parameters)
        told = [handle.summary().to_dict() for handle in handles]
        spark.stop()
    return measurement(parameters, asked, done, told)


def wait_for_change(job: rc.RunningJob, parameters: Parameters) -> float:
    """Run through warm-up and what is compared with; now is when a change is asked for."""
    report("warming up")
    give_up = time.time() + PATIENCE_SECONDS
    while not job.committed_offset(SOURCE):
        if job.await_termination(POLL_SECONDS) or time.time() > give_up:
            raise RuntimeError("the job committed nothing")
    until(job, time.time() + parameters["warmup_seconds"] + parameters["before_seconds"])
    report("now")
    return time.time()


def change(job: rc.RunningJob, parameters: Parameters) -> list[rc.Reconfiguration]:
    """Ask for the changes, one after the other, and wait for each."""
    strategy = strategies.from_json(parameters["strategy"])
    handles = []
    for wanted in changes(parameters):
        handles.append(job.reconfigure(wanted, strategy))
        handles[-1].wait(PATIENCE_SECONDS)
        report(f"{handles[-1].id} is {handles[-1].phase}")
    return handles


def restart_in_session(parameters: Parameters) -> LiveMeasurement:
    """Stop the job and start it again, changed, in the same session."""
    take_template(parameters)
    with cluster(parameters) as made:
        spark = session(made.url, parameters)
        job = started(spark, parameters)
        asked = wait_for_change(job, parameters)
        job.stop()
        job, told = started_again(spark, parameters)
        done = time.time()
        until(job, done + parameters["settle_seconds"] + parameters["after_seconds"])
        finish(job, parameters)
        spark.stop()
    return measurement(parameters, asked, done, told)


def started_again(spark: Any, parameters: Parameters) -> tuple[rc.RunningJob, list[Any]]:
    """The job, with the change made."""
    if parameters["change"] == "logic":
        job = start(spark, parameters, new=True)
        before = job.status.timestep
        while job.status.timestep == before:
            job.await_termination(POLL_SECONDS)
        return job, []
    job = start(spark, parameters)
    return job, [handle.summary().to_dict() for handle in change(job, parameters)]


def restart_in_process(parameters: Parameters) -> LiveMeasurement:
    """Stop the job, end its process, and start both again, changed. The cluster stays."""
    take_template(parameters)
    with cluster(parameters) as made:
        first = run_driver("first", made.url, parameters)
        second = run_driver("second", made.url, parameters)
    return measurement(parameters, first["asked"], second["done"], second["told"])


def run_driver(part: str, url: str, parameters: Parameters) -> Mapping[str, Any]:
    """One of `DRIVERS` in a process of its own; what it tells."""
    out = Path(parameters["scratch"]) / f"{part}.json"
    command = [sys.executable, "-m", "benchmarks.live_side", part, url, json.dumps(parameters)]
    subprocess.run([*command, str(out)], check=True, stdin=subprocess.DEVNULL)
    told: Mapping[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return told


def first_driver(url: str, parameters: Parameters) -> dict[str, Any]:
    """The job until it is stopped."""
    spark = session(url, parameters)
    job = started(spark, parameters)
    asked = wait_for_change(job, parameters)
    job.stop()
    spark.stop()
    return {"asked": asked}


def second_driver(url: str, parameters: Parameters) -> dict[str, Any]:
    """The job from then on."""
    spark = session(url, parameters)
    job, told = started_again(spark, parameters)
    done = time.time()
    until(job, done + parameters["settle_seconds"] + parameters["after_seconds"])
    finish(job, parameters)
    spark.stop()
    return {"done": done, "told": told}


DRIVERS = {"first": first_driver, "second": second_driver}


def measurement(
    parameters: Parameters, asked: float, done: float, told: Sequence[Mapping[str, Any]]
) -> LiveMeasurement:
    """What the run left behind. asked, done: seconds since 1970. told: of every reconfiguration."""
    files = sorted(journal(parameters).glob("*.json"))
    bodies = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    last = [b["body"] for b in bodies if b["kind"] == "committed" and b["body"]["timestep"]][-1]
    began = {
        body["body"]["timestep"]: file.stat().st_ctime_ns / 1e6
        for file, body in zip(files, bodies, strict=True)
        if body["kind"] == "intent" and body["body"]["timestep"]
    }
    known = commits(parameters, SOURCE)
    fetched = [0] * (len(known) + 1)
    for event in read_events(Path(parameters["scratch"]) / "state" / "telemetry"):
        if isinstance(event, TaskFinished) and event.operator == OPERATOR:
            fetched[event.timestep] += event.bytes_fetched
    names = ("prepare", "synchronize", "update")
    return {
        "rate": parameters["rate"],
        "since_ms": last["offsets"][SOURCE]["since_ms"],
        "commits": [*known],
        "began_ms": [began[timestep + 1] for timestep in range(len(known))],
        "asked_ms": asked * 1e3,
        "done_ms": done * 1e3,
        "settle_ms": parameters["settle_seconds"] * 1e3,
        "before_ms": parameters["before_seconds"] * 1e3,
        "fetched": fetched[1:],
        "prefetched": sum(one["prepared"].get("bytes_fetched", 0) for one in told),
        "pieces": sum(one["prepared"].get("pieces", 0) for one in told),
        "steps": sum(one["steps"]["made"] for one in told),
        "bins": sum(one["bins"] for one in told),
        "phase_ms": {
            name: [one["phases_ms"][name] for one in told if one["phases_ms"][name] is not None]
            for name in names
        },
    }


def main(argv: Sequence[str]) -> None:
    """A driver in a process of its own; see `run_driver`."""
    part, url, parameters, out = argv
    told = DRIVERS[part](url, json.loads(parameters))
    Path(out).write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
