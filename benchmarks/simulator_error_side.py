"""Records a stream on Spark whose load and tasks change from phase to phase: what every task received and took."""

from __future__ import annotations

import time
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Measurement, Parameters
from benchmarks.variant import report

if TYPE_CHECKING:
    from rechannel.operators.process.track_frame import KeyedFrame

COUNT = "counts"
KEYS = 1_024
PUSH_S = 0.05
PATIENCE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Waits:
    """Counts rows, and takes some time for each, and for itself: a service that is asked."""

    fixed_s: float
    row_s: float

    def __call__(self, frame: KeyedFrame) -> dict[str, Any]:
        """Return the new counts, later."""
        sizes = frame.count()
        time.sleep(self.fixed_s + self.row_s * int(sum(sizes)))
        return {"n": frame.previous("n", 0) + sizes}


def run(parameters: Parameters) -> Measurement:
    """Run all phases, and return what the telemetry has of them."""
    import pyarrow as pa

    import rechannel as rc
    from benchmarks.rechannel_side import session

    spark = session(parameters)
    rows = rc.sources.MemoryConnector(schema=pa.schema({"key": pa.int64()}))
    waits = Waits(fixed_s=parameters["fixed_ms"] / 1e3, row_s=parameters["row_ms"] / 1e3)
    keyed = rc.read(spark).memory(rows, name="in").key_by("key")
    counts = keyed.track_batches(waits, state="n BIGINT", name=COUNT, bins=parameters["bins"])
    state = Path(parameters["scratch"]) / "state"
    settings = rc.Settings(
        interval_ms=parameters["interval_ms"],
        tasks=1,
        durability=rc.Durability(parameters["durability"]),
    )
    job = rc.Job("recorded", counts.write.noop(), state=state, settings=settings).start()
    begins, key = list[int](), 0
    for rate, tasks in (parameters["phases"][0], *parameters["phases"]):  # the first one warms up
        job.reconfigure(rc.changes.rescale(COUNT, tasks)).wait(PATIENCE_S)
        begins.append(job.status.timestep + 1)
        began, pushed = time.monotonic(), 0
        while (passed := time.monotonic() - began) < parameters["phase_s"]:
            due = int(passed * rate) - pushed
            rows.push([{"key": (key + each) % KEYS} for each in range(due)])
            key, pushed = key + due, pushed + due
            report(f"{rate} rows per second, {tasks} tasks: {passed:.0f} s")
            time.sleep(PUSH_S)
    job.stop()
    return {"interval_ms": parameters["interval_ms"], "timesteps": told(state, begins)}


def told(state: Path, begins: list[int]) -> list[dict[str, Any]]:
    """Return timesteps with their tasks. begins: the first timestep of the warm-up, and of every phase."""
    from rechannel.telemetry.progress import fold
    from rechannel.telemetry.reading import read_events
    from rechannel.telemetry.recent_tasks import recent_tasks

    events = list(read_events(state / "telemetry"))
    facts = {each.timestep: each for each in fold(events, keep=1_000).recent_progress}
    return [
        {
            "phase": bisect_right(begins, each.timestep) - 2,
            "now_ms": facts[each.timestep].now_ms,
            "took_ms": round(each.duration_ms, 2),
            "turns_ms": round(each.turns_ms, 2),
            "launch_ms": each.launch_ms,
            "operators": {
                name: {"rows": of.rows.astype(int).tolist(), "ms": of.core_ms.round(2).tolist()}
                for name, of in each.operators.items()
            },
        }
        for each in recent_tasks(events)
        if each.timestep >= begins[1]
    ]
