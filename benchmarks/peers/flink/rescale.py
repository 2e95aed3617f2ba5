"""Flink's side of `rescale-peer`: its adaptive scheduler is asked over REST to run the count wider.

That is Flink's own best way: it waits for the next checkpoint, cancels the tasks, and restores them
at the new parallelism in the processes that are there. Stopping with a savepoint and submitting the
job again takes longer.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.harness import Parameters
from benchmarks.outputs import OutputMeasurement, sampled
from benchmarks.peers.flink.cluster import Cluster, cluster, heap_settings, submitted
from benchmarks.peers.flink.environment import home, python
from benchmarks.variant import report

Longs = npt.NDArray[np.int64]
CATCH_UP_SECONDS = 60.0


def run(parameters: Parameters) -> OutputMeasurement:
    """Start a cluster and the job, rescale it, run on."""
    scratch, where = Path(parameters["scratch"]), home(parameters["flink"]["version"])
    samples = scratch / "samples"
    samples.mkdir()
    with cluster(where, scratch, cluster_settings(parameters)) as made:
        version = made.ask("/config")["flink-version"]
        since_ms = int(time.time() * 1e3)
        job = submit(made, where, parameters, since_ms)
        count = running(made, job, parameters["tasks"][0])
        begin = time.time()
        pause(begin + parameters["warmup_seconds"] + parameters["before_seconds"])
        report("now")
        asked = time.time()
        widen(made, job, count, parameters["tasks"][1])
        running(made, job, parameters["tasks"][1])
        done = time.time()
        report(f"rescaled after {done - asked:.2f} s")
        end_ms = (asked + parameters["during_seconds"] + parameters["after_seconds"]) * 1e3
        pause(end_ms / 1e3)
        catch_up(samples, end_ms, parameters, since_ms)
        made.ask(f"/jobs/{job}?mode=cancel", "PATCH")
        made.wait("the end of the job", f"/jobs/{job}", lambda told: told["state"] == "CANCELED")
    rows, out_ms, again = first_outputs(read_samples(samples))
    due_ms = since_ms + rows * (1e3 / parameters["rate"])
    kept = due_ms < end_ms
    return {
        "due_ms": due_ms[kept].tolist(),
        "out_ms": out_ms[kept].tolist(),
        "every": sampled(parameters["rate"]),
        "rate": parameters["rate"],
        "asked_ms": asked * 1e3,
        "done_ms": done * 1e3,
        "end_ms": end_ms,
        "repeated": again * sampled(parameters["rate"]),
        "version": f"{parameters['flink']['package']} {version}",
    }


def cluster_settings(parameters: Parameters) -> dict[str, str]:
    """As many slots as the other side has cores; no waiting where the scheduler would by default."""
    chosen: dict[str, str] = {
        "jobmanager.scheduler": "adaptive",
        **heap_settings(parameters),
        **parameters["flink"]["settings"],
    }
    return chosen


def submit(made: Cluster, where: Path, parameters: Parameters, since_ms: int) -> str:
    """The id of the job, which is under way."""
    scratch = Path(parameters["scratch"])
    given = {
        "rate": parameters["rate"],
        "keys": parameters["keys"],
        "since_ms": since_ms,
        "every": sampled(parameters["rate"]),
        "samples": str(scratch / "samples"),
        "settings": {
            **made.settings,
            **parameters["flink"]["settings"],
            "parallelism.default": str(parameters["tasks"][0]),
        },
    }
    script = Path(__file__).with_name("job.py")
    return submitted(where, scratch, python=python(), script=script, given=given)


def running(made: Cluster, job: str, tasks: int) -> str:
    """Wait until the count runs with `tasks` tasks; its id. It is the vertex without a source."""

    def ready(told: Any) -> bool:
        if told["state"] in ("FAILED", "CANCELED", "FINISHED"):
            raise RuntimeError(f"the job is {told['state']}")
        vertex = counting(told)
        every = all(each["tasks"]["RUNNING"] == each["parallelism"] for each in told["vertices"])
        return every and vertex["parallelism"] == tasks

    told = made.wait(f"running with {tasks} tasks", f"/jobs/{job}", ready)
    return str(counting(told)["id"])


def counting(told: Any) -> Any:
    """The vertex of a job that holds the count."""
    (vertex,) = (each for each in told["vertices"] if "Aggregate" in each["name"])
    return vertex


def widen(made: Cluster, job: str, vertex: str, tasks: int) -> None:
    """Ask for `tasks` tasks of one vertex; the others stay unchanged."""
    wanted = made.ask(f"/jobs/{job}/resource-requirements")
    wanted[vertex] = {"parallelism": {"lowerBound": tasks, "upperBound": tasks}}
    made.ask(f"/jobs/{job}/resource-requirements", "PUT", wanted)


def pause(until: float) -> None:
    """Sleep until a time (seconds since 1970)."""
    time.sleep(max(0.0, until - time.time()))


def catch_up(samples: Path, end_ms: float, parameters: Parameters, since_ms: int) -> None:
    """Wait until the last rows that are due before `end_ms` are out, and some more."""
    last = (end_ms - since_ms) * parameters["rate"] / 1e3
    give_up = time.monotonic() + CATCH_UP_SECONDS
    while read_samples(samples)[:, 0].max(initial=0) < last + parameters["rate"]:
        if time.monotonic() > give_up:
            raise RuntimeError("the job did not catch up with its input")
        time.sleep(1.0)


def read_samples(samples: Path) -> Longs:
    """What `Functions.Seen` wrote: (row, ms since 1970), shape (samples, 2). Torn ends are left out."""
    parts = []
    for file in samples.glob("*.bin"):
        data = file.read_bytes()
        parts.append(np.frombuffer(data[: len(data) // 16 * 16], dtype=">i8").reshape(-1, 2))
    return np.concatenate([np.empty((0, 2), np.int64), *parts]).astype(np.int64)


def first_outputs(found: Longs) -> tuple[Longs, Longs, int]:
    """Rows in order, when each came out first, and how many came out again after that."""
    ordered = found[np.lexsort((found[:, 1], found[:, 0]))]
    rows, first = np.unique(ordered[:, 0], return_index=True)
    return rows, ordered[first, 1], len(ordered) - len(rows)
