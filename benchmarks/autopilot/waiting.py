"""What an event costs: its task waits for so long, as for a service. On an executor that is slow, longer.

So several executors' cores fit on few real ones, and a slow executor is slow whatever else the machine does. Which one
is slow, a file says. The directory of a worker is called as its executor.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from rechannel.operators.process.track_frame import KeyedFrame

SIGN = "slow-executor"
"""Name of the file with the id of the slow executor."""
STATE = "views BIGINT"
EXECUTORS = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Settings of both engines' executors: several of them start at once on few cores, so they compile less."""


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Counts events by campaign, and waits for each of them. Both engines' function."""

    seconds: float
    slower: float
    sign: str

    def wait(self, events: int) -> None:
        """Wait for some events."""
        place = Path(self.sign)
        slow = place.exists() and place.read_text(encoding="utf-8") == Path.cwd().name
        time.sleep(events * self.seconds * (self.slower if slow else 1.0))

    def __call__(self, frame: KeyedFrame) -> dict[str, Any]:
        """Rechannel's: all campaigns of a task at once."""
        views = frame.count()
        self.wait(int(sum(views)))
        return {"views": frame.previous("views", 0) + views}

    def per_key(
        self, key: tuple[str], frames: Iterator[pd.DataFrame], state: Any
    ) -> Iterator[pd.DataFrame]:
        """Structured Streaming's: one campaign at a time."""
        import pandas as pd

        (views,) = state.get if state.exists else (0,)
        for frame in frames:
            self.wait(len(frame))
            views += len(frame)
        state.update((views,))
        yield pd.DataFrame({"campaign_id": [key[0]], "views": [views]})


def waiting(parameters: Any) -> Waiting:
    """Return what the parameters describe."""
    sign = str(Path(parameters["scratch"]) / SIGN)
    return Waiting(seconds=parameters["seconds"], slower=parameters["slower"], sign=sign)
