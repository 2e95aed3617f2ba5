"""Find out what a job waits for: profile its telemetry.

Nine of ten rows have one key, and its function takes a millisecond per row.

Prints:

    totals task 1 is more critical than totals task 0: split its bins, or move them
"""

import tempfile
import time
from pathlib import Path

import rechannel as rc
from rechannel.testing import script


def slowly(_carrier: str, total: int | None, rows: rc.frames.Rows) -> int:
    """Add up delays, a millisecond each."""
    time.sleep(0.001 * len(rows))
    delays: list[int] = rows["delay"]
    return (total or 0) + sum(delays)


def main(folder: Path) -> None:
    """Run five timesteps, then read the state directory's telemetry."""
    flights = script("carrier STRING, delay BIGINT")
    delays = rc.read().memory(flights, name="flights").key_by("carrier")
    totals = delays.track(slowly, state="total BIGINT", name="totals", tasks=2)
    job = rc.Job("flights", totals.write.memory("out"), state=folder / "state")
    running = job.start(in_process=rc.InProcess())
    for _ in range(5):
        flights.push([{"carrier": "UA" if n % 10 else "AA", "delay": n} for n in range(100)])
        running.process_all_available()
    running.stop()

    found = rc.profile(folder / "state")
    workers = found.profile.by_worker()["worker"].to_list()
    hot, cold = (worker for worker in workers if worker.startswith("totals"))
    print(f"{hot} is more critical than {cold}: split its bins, or move them")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
