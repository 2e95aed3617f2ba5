"""Join ads with the clicks on them within a minute; show ads without a click, and late rows.

Prints:

    ad 1 (shoes): clicked after 0:00:20
    ad 2 (books): not clicked
    late: click on ad 2 at 12:00:30
"""

import datetime as dt
import tempfile
from pathlib import Path

import rechannel as rc
from rechannel.testing import script

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def at(second: int) -> dt.datetime:
    """Tell a time after noon."""
    return NOON + dt.timedelta(seconds=second)


def main(folder: Path) -> None:
    """Feed three timesteps, and print pairs and late rows."""
    ads = script("ad BIGINT, about STRING, shown TIMESTAMP")
    clicks = script("ad BIGINT, clicked TIMESTAMP")
    shown = rc.read().memory(ads, name="ads").event_time("shown", delay="5 seconds")
    clicked = rc.read().memory(clicks, name="clicks").event_time("clicked", delay="5 seconds")
    # how="left" emits an ad without a click as soon as no click can match it any more.
    pairs = shown.join(clicked, "ad", how="left", within=rc.between(0, "1 minute"), name="pairs")
    flows = [pairs.write.memory("pairs"), pairs.late.write.memory("late")]
    job = rc.Job("ads", flows, state=folder / "state").start(in_process=rc.InProcess())

    ads.push(
        [{"ad": 1, "about": "shoes", "shown": at(0)}, {"ad": 2, "about": "books", "shown": at(5)}]
    )
    clicks.push([{"ad": 1, "clicked": at(20)}])
    ads.push([{"ad": 3, "about": "pens", "shown": at(90)}])
    clicks.push([{"ad": 3, "clicked": at(95)}])
    ads.push([])
    clicks.push([{"ad": 2, "clicked": at(30)}])
    job.process_all_available()

    for row in sorted(job.memory("pairs").to_pylist(), key=lambda row: int(row["ad"])):
        if row["clicked"] is None:
            print(f"ad {row['ad']} ({row['about']}): not clicked")
        elif row["ad"] < 3:
            print(f"ad {row['ad']} ({row['about']}): clicked after {row['clicked'] - row['shown']}")
    for row in job.memory("late").to_pylist():
        print(f"late: click on ad {row['ad']} at {row['clicked']:%H:%M:%S}")
    job.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
