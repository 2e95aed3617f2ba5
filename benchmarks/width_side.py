"""The driver of a wide job in this process, with tasks that do no work."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.harness import Measurement, Parameters


def measure(parameters: Parameters) -> Measurement:
    """Run timesteps of `operators` operators with `tasks` tasks each.

    Returns the driver's processor time of each in milliseconds, and how many runs a task with state has at the end.
    """
    harness, made = wide(parameters)
    process = harness.start()
    (simulated,) = made
    took_ms = list[float]()
    began, pretended = time.process_time(), 0.0
    committed = process.journal.state.last_committed
    while process.step():
        if process.journal.state.last_committed == committed:
            continue
        committed, now = process.journal.state.last_committed, time.process_time()
        took_ms.append(1e3 * (now - began - (simulated.pretended_s - pretended)))
        began, pretended = time.process_time(), simulated.pretended_s
    manifests = process.journal.state.latest.manifests.values()
    tasks = parameters["tasks"] * len(manifests)
    return {"took_ms": took_ms, "runs_per_task": sum(len(m.runs) for m in manifests) / tasks}


def wide(parameters: Parameters) -> tuple[Any, list[Any]]:
    """Return a harness of a row of operators, and where its tasks will be, once it is started."""
    import rechannel as rc
    from benchmarks.simulated_tasks import SimulatedTasks
    from rechannel import aggregates
    from rechannel.settings import Settings
    from rechannel.telemetry.driver_hub import open_hub
    from rechannel.testing import Harness, script

    tasks = parameters["tasks"]
    rows = [[{"key": 1, "value": 1}]] * parameters["timesteps"]
    stream = rc.read().memory(script("key bigint, value bigint", rows), name="rows")
    for number in range(1, parameters["operators"]):
        totals = aggregates.sum("value")
        stream = stream.key_by("key").aggregate(value=totals, name=f"totals{number}")
    made: list[Any] = []

    class Wide(Harness):
        def _engine(self, current: Any, task_faults: Any) -> Any:
            _, rows_of = super()._engine(current, task_faults)
            made.append(SimulatedTasks(current.plan, parameters["rows"], parameters["stored"]))
            return made[-1], rows_of

        def _hub(self, configuration: Any, timestep: int, settings: Any) -> Any:
            return open_hub(
                "wide",
                spark=None,
                root=Path(parameters["scratch"]),
                clock=self.clock,
                timestep=timestep,
                tasks={name: op.tasks for name, op in configuration.operators.items()},
                backlog=settings.publish_backlog,
            )

    def everywhere(configuration: Any) -> Any:
        operators = {n: replace(op, tasks=tasks) for n, op in configuration.operators.items()}
        return replace(configuration, operators=operators)

    harness = Wide(
        stream.write.memory("out"),
        settings=Settings(tasks=tasks, bins=tasks * 4),
        clock=lambda: time.time() * 1e3,
        configure=everywhere,
    )
    return harness, made
