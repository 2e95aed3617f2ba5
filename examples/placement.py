"""Tasks leave an executor that has become slow: the placement experiment of Trisk (SoCC'21, figure 8).

A model scores every card that has new transactions, in four tasks on two executors. Then a neighbour takes most of the
machine of executor 0 (here: scoring there takes eight times as long). A controller is installed, sees what tasks take
there, places them elsewhere, and makes sure that timesteps got shorter.

Prints, with figures of its own:

    calm:      {'0': 2, '1': 2} tasks by executor, <...> ms, <...> rows/s
    neighbour: {'0': 2, '1': 2} tasks by executor, <...> ms, <...> rows/s
    placed:    {<...>} tasks by executor, <...> ms, <...> rows/s
    controller 'placement': saves <...> of <...> ms of a timestep
"""

import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

import rechannel as rc
from rechannel import aggregates as agg

ROWS, CARDS, TASKS = 400, 200, 4
SECONDS_PER_CARD = 0.001
SLOWER = 8
WINDOW = 10
"""Timesteps of a figure."""


def transactions(start: int, stop: int) -> pa.RecordBatch:
    """Every card in turn."""
    number = np.arange(start, stop, dtype=np.int64)
    return pa.record_batch({"card": number % CARDS, "cents": number * 7_919 % 10_000})


class Model:
    """Scores cards; it takes longer on executor 0 from when the file `neighbour` is there."""

    def __init__(self, neighbour: Path) -> None:
        self.neighbour = neighbour

    def __call__(self, cards: pa.RecordBatch) -> pa.RecordBatch:
        """Score the cards of a task. A worker's directory is called as its executor."""
        shared = Path.cwd().name == "0" and self.neighbour.exists()
        time.sleep(cards.num_rows * SECONDS_PER_CARD * (SLOWER if shared else 1))
        return cards


def figures(job: rc.RunningJob, name: str, after: int) -> str:
    """Wait for some timesteps after one, and say how long they took."""
    while job.status.timestep < after + WINDOW:
        time.sleep(0.05)
    seen = [p for p in job.recent_progress if p.timestep > after]
    ms = median(p.duration_ms for p in seen)
    at = Counter(where(job).values())
    tasks = dict(sorted(at.items())) or {"0": TASKS // 2, "1": TASKS // 2}
    rate = 1e3 * sum(p.rows_in for p in seen) / sum(p.duration_ms for p in seen)
    return f"{name:<10} {tasks} tasks by executor, {ms:.0f} ms, {rate:,.0f} rows/s"


def where(job: rc.RunningJob) -> dict[int, str]:
    """Return the executors of tasks that were placed on request; Rechannel spreads the others evenly."""
    return dict(job.configuration.operators["cards"].placement)


def main(folder: Path) -> None:
    """Run it on two executors of one core."""
    # Tasks wait for their executor, also when it is slow; by default they give up after half a second.
    spark = rc.session(
        "local-cluster[2,1,1024]", spark__executor__memory="512m", spark__locality__wait="10s"
    )
    rows = rc.read(spark).generator(
        transactions, schema="card BIGINT, cents BIGINT", per_timestep=ROWS, name="transactions"
    )
    cards = rows.key_by("card").aggregate(n=agg.count(), total=agg.sum("cents"), name="cards")
    program = rc.Job(
        "fraud",
        cards.map_batches(Model(folder / "neighbour"), name="model").write.noop(),
        state=folder / "state",
        settings=rc.Settings(tasks=TASKS),
    )
    job = program.start()
    print(figures(job, "calm:", after=2 * WINDOW))
    (folder / "neighbour").touch()
    print(figures(job, "neighbour:", after=job.status.timestep + 1))
    placement = job.control(rc.control.library.Placement(operators=["cards"], samples=3))
    while not any("saves" in line for line in placement.status.log):
        time.sleep(0.05)
    print(figures(job, "placed:", after=job.status.timestep))
    print(job.history()[-1].cause)
    job.stop()
    spark.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
