"""Rechannel's side of `ds2-nexmark` and `ds2-flink`: streams over slots that wait, which scale themselves."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rechannel as rc
from benchmarks.harness import Measurement, Parameters
from benchmarks.slots import SlotJob
from benchmarks.variant import report

if TYPE_CHECKING:
    from rechannel.dataflow.streams.stream import Stream

POLL_S = 0.25
CONTENT = ("enough", "hysteresis", "delay", "cap", "failed", "price")
"""Outcomes of decisions that looked at the load and change nothing."""
MOST_BINS = 100_000
"""That may move at once: the state of these runs is small."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One run."""

    stream: Stream
    seconds: Mapping[str, float]
    """What a row costs, by operator with state."""
    tasks: Mapping[str, int]
    """To begin with, by stage."""
    main: str
    """The stage whose tasks are shown as progress."""
    quiet: int | None
    """Timesteps under one plan, without a decision to change it, after which the run ends; None = when time is up."""
    most_s: float
    in_flight: int


def session_of(parameters: Parameters) -> Any:
    """A session with many slots, whose Python workers have been started."""
    from benchmarks.rechannel_side import session

    spark = session(parameters)
    slots = int(parameters["cores"])
    spark.range(0, slots, 1, slots).mapInArrow(_awake, "id long").collect()
    return spark


def _awake(batches: Any) -> Any:
    time.sleep(1.0)
    yield from batches


def run_trial(trial: Trial, parameters: Parameters, name: str) -> dict[str, Any]:
    """Run a stream until it is quiet, or time is up; returns its timesteps and decisions as JSON."""
    controllers = []
    if parameters["scaled"]:
        controllers = [rc.control.install(_scale(parameters), name="scale")]
    job = SlotJob(
        name,
        trial.stream.write.noop(),
        state=Path(parameters["scratch"]) / name,
        settings=rc.Settings(
            tasks=1,
            bins=parameters["bins"],
            interval_ms=parameters["interval_ms"],
            in_flight=trial.in_flight,
            durability=rc.Durability(parameters["durability"]),
        ),
        controllers=controllers,
    )
    running = job.with_slots(trial.seconds, trial.tasks).start()
    seen: dict[int, dict[str, Any]] = {}
    began = time.monotonic()
    try:
        while time.monotonic() - began < trial.most_s and not _quiet(running, seen, trial):
            if running.await_termination(POLL_S):
                raise RuntimeError(f"{name} has ended: {running.status.message}")
            _see(running, seen)
            tasks = running.configuration.operators[trial.main].tasks
            report(f"{name}: timestep {running.status.timestep}, {tasks} tasks")
        decisions = running.controllers["scale"].state["decisions"] if controllers else []
    finally:
        running.stop()
    return {"timesteps": [seen[number] for number in sorted(seen)], "decisions": list(decisions)}


def _scale(parameters: Parameters) -> Any:
    return rc.control.library.AutoScale(
        policy=parameters["policy"],
        target_utilisation=1 - parameters["own"],
        max=parameters["cores"],
        cores_per_executor=parameters["cores"],
        steering=parameters["steering"],
        bins=MOST_BINS,
    )


def _see(running: Any, seen: dict[int, dict[str, Any]]) -> None:
    for each in running.recent_progress:
        if each.timestep not in seen and each.committed_ms is not None:
            seen[each.timestep] = {
                "number": each.timestep,
                "looked_ms": each.now_ms,
                "done_ms": each.committed_ms,
                "took_ms": each.duration_ms,
                "rows": sum(each.operators[name].rows_in for name in each.sources),
                "tasks": {name: of.tasks for name, of in each.operators.items()},
            }


def _quiet(running: Any, seen: Mapping[int, Mapping[str, Any]], trial: Trial) -> bool:
    """Whether enough timesteps ran under one plan, and the controller was content with the first of them."""
    if trial.quiet is None:
        return False
    last = [seen[number] for number in sorted(seen)][-trial.quiet :]
    if len(last) < trial.quiet or any(each["tasks"] != last[0]["tasks"] for each in last):
        return False
    if "scale" not in running.controllers:
        return True
    state = running.controllers["scale"].state
    decisions = state["decisions"]
    if state["requested"] is not None or not decisions or decisions[-1]["outcome"] not in CONTENT:
        return False
    return int(decisions[-1]["timestep"]) >= int(last[0]["number"])


def run_query(parameters: Parameters) -> Measurement:
    """One query of NEXMark from every start, in one session, after a run in which all workers have had every task."""
    from benchmarks.ds2_loads import LOADS, stream_of

    load = LOADS[parameters["query"]]
    scale = load.scale * parameters["scale"]
    slot_rate = load.slot_rate(scale, parameters["short"])
    row_s = (1 - parameters["own"]) / slot_rate
    spark = session_of(parameters)
    runs = {}
    for start in (None, *parameters["starts"]):
        stream = stream_of(
            load,
            scale=scale,
            interval_ms=parameters["interval_ms"],
            seconds=row_s,
            slack=parameters["slack"],
            spark=spark,
        )
        trial = Trial(
            stream=stream,
            seconds={} if load.main in load.rates else {load.main: row_s},
            tasks={load.main: start or parameters["cores"] - 4},
            main=load.main,
            quiet=parameters["quiet"] if start else parameters["warm"],
            most_s=parameters["most_seconds"],
            in_flight=load.in_flight,
        )
        own = {**parameters, "scaled": parameters["scaled"] and start is not None}
        made = run_trial(trial, own, f"{parameters['query']}-{start or 'warm'}")
        if start is not None:
            runs[str(start)] = made
    return {
        "runs": runs,
        "offered": scale * sum(load.rates.values()),
        "target": load.target(scale),
        "slot_rate": slot_rate,
    }
