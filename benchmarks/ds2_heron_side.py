"""The real run of `ds2-heron`: Heron's word count on Spark, with operators that wait instead of computing.

A task of FlatMap or Count waits for as long as an instance of Heron's would take for its rows, at `scale` times the
rates, so that 30 slots run on two cores. What a task costs beside that is the engine's own: 30 tasks are launched,
started and ended on two cores. It is measured first, by the same stream with operators that do not wait, and the
interval is so long that this is the share `fixed_share` of it. Operators wait for the rest: (1 - fixed_share) of the
time that their rows would take on Heron. So DS2 measures that 10 and 20 times (1 - fixed_share) instances are needed,
rounded up. The share has to stay below 5 %, or 19 would do.

From one task each, a timestep of a whole interval would take 20 intervals, and the change would hold only some of these
later. So timesteps are bounded to `first_sentences` until the change is there. Then the bound is what arrives in an
interval: the stream does not work off what has arrived meanwhile, as Heron's source does not, which stands still while
it is blocked.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import rechannel as rc
from benchmarks.ds2_heron_rates import COUNT, COUNTED, FLATMAP, LEAST, SENTENCES, SPLIT, WORDS
from benchmarks.harness import Measurement, Parameters
from benchmarks.rechannel_side import session
from benchmarks.variant import report
from rechannel.model.hashing import hash_columns
from rechannel.model.routing import even_starts
from rechannel.monitoring import TimestepProgress
from rechannel.operators.process.track_frame import KeyedFrame

BINS = 320
"""Of Count: 20 tasks own 16 each."""
SPLITS = 20
"""Of a timestep, which 10 tasks share evenly."""
EVEN = 80
"""Sentences of a timestep are a multiple of this: then all splits are equal, and so are all bins of Count."""
POLL_SECONDS = 0.2
FIRST_MEASURED = 6
"""Timesteps before that start workers."""
STOP_SECONDS = 600.0
SCALE = "scale"


@dataclass(frozen=True)
class Waiting:
    """Takes as long for its rows as an instance with this rate."""

    rows_per_second: float

    def __call__(self, rows: int) -> None:
        """Wait."""
        time.sleep(rows / self.rows_per_second)


@dataclass(frozen=True)
class Sentences:
    """Sentences whose words fall evenly into the bins of Count, as in Heron's shuffle of random words."""

    words: tuple[str, ...]
    """One of every bin."""

    def __call__(self, start: int, stop: int) -> pa.RecordBatch:
        """Return the sentences at these offsets."""
        number = np.arange(start, stop)[:, None] * WORDS + np.arange(WORDS)[None, :]
        texts = [" ".join(self.words[i] for i in row) for row in number % len(self.words)]
        return pa.record_batch({"sentence": pa.array(texts, pa.string())})


@dataclass(frozen=True)
class FlatMap:
    """Splits sentences into words."""

    waiting: Waiting

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the words, later."""
        self.waiting(batch.num_rows)
        words = pc.list_flatten(pc.split_pattern(batch.column("sentence"), " "))
        return pa.record_batch({"word": words})


@dataclass(frozen=True)
class Count:
    """Counts words."""

    waiting: Waiting

    def __call__(self, frame: KeyedFrame) -> dict[str, Any]:
        """Return the new counts, later."""
        self.waiting(int(frame.sizes.sum()))
        return {"n": frame.previous("n", 0) + frame.sizes}


def words_of(bins: int) -> tuple[str, ...]:
    """Return a word that falls into each bin."""
    texts = [f"word{number}" for number in range(bins * 30)]
    hashes = hash_columns([pa.array(texts, pa.string())])
    starts = np.array(even_starts(bins), dtype=np.uint64)
    found = np.searchsorted(starts, hashes.astype(np.uint64), side="right") - 1
    by_bin = dict(zip(found.tolist(), texts, strict=True))
    return tuple(by_bin[number] for number in range(bins))


def run(parameters: Parameters) -> Measurement:
    """Measure what tasks cost, then run the word count from one task each under AutoScale."""
    spark = session(parameters)
    fixed_s = _fixed_s(spark, parameters)
    interval_s = interval_for(fixed_s, parameters)
    report(f"{1e3 * fixed_s:.0f} ms for 30 tasks: an interval of {interval_s:.1f} s")
    return {"fixed_s": fixed_s, "interval_s": interval_s, **_scaled(spark, parameters, interval_s)}


def interval_for(fixed_s: float, parameters: Parameters) -> float:
    """Return the interval of which a time is the wanted share, within bounds, and that has even timesteps."""
    least, most = map(float, parameters["interval_s"])
    each = EVEN / (SENTENCES * float(parameters["scale"]))
    wanted = min(max(fixed_s / float(parameters["fixed_share"]), least), most)
    return each * math.ceil(wanted / each - 1e-9)


def word_count(
    spark: Any,
    parameters: Parameters,
    name: str,
    *,
    share: float,
    per_timestep: int,
    tasks: tuple[int, int],
    interval_s: float,
    controllers: Sequence[Any] = (),
) -> rc.RunningJob:
    """Start the stream. share: of the time that rows take on Heron, for which operators wait. tasks: FlatMap, Count."""
    scale = parameters["scale"] / share if share else math.inf
    words = (
        rc.read(spark)
        .generator(
            Sentences(words_of(BINS)),
            schema="sentence STRING",
            rows_per_second=SENTENCES * parameters["scale"] if share else None,
            per_timestep=per_timestep,
            partitions=SPLITS,
            tasks=tasks[0],
            name=FLATMAP,
        )
        .map_batches(FlatMap(Waiting(SPLIT * scale)), schema="word STRING", name="split")
    )
    count = Count(Waiting(COUNTED * scale))
    counts = words.key_by("word").track_batches(
        count, state="n BIGINT", name=COUNT, tasks=tasks[1], bins=BINS
    )
    return rc.Job(
        name,
        counts.write.noop(),
        state=Path(parameters["scratch"]) / name,
        settings=rc.Settings(
            interval_ms=round(1e3 * interval_s),
            in_flight=3,
            durability=rc.Durability(parameters["durability"]),
        ),
        controllers=list(controllers),
    ).start()


def _fixed_s(spark: Any, parameters: Parameters) -> float:
    """Return the seconds between timesteps of 10 and 20 tasks that do not wait."""
    report("what tasks cost")
    job = word_count(
        spark,
        parameters,
        "fixed",
        share=0.0,
        per_timestep=10 * EVEN,
        tasks=(LEAST[FLATMAP], LEAST[COUNT]),
        interval_s=0,
    )
    watch = Watch(job=job)
    watch.until(lambda: watch.last >= FIRST_MEASURED + parameters["measured_timesteps"])
    job.stop(STOP_SECONDS)
    found = watch.found.values()
    took = np.diff([each.committed_ms for each in found if each.timestep > FIRST_MEASURED])
    return float(np.median(took)) / 1e3


def _scaled(spark: Any, parameters: Parameters, interval_s: float) -> dict[str, Any]:
    rate = SENTENCES * parameters["scale"]
    scale = rc.control.library.AutoScale(
        policy="ds2",
        target_utilisation=1.0,
        steering={"interval_s": 0.9 * interval_s, "warm_up_s": interval_s},
        bins=BINS,
    )
    job = word_count(
        spark,
        parameters,
        "heron",
        share=1 - parameters["fixed_share"],
        per_timestep=parameters["first_sentences"],
        tasks=(1, 1),
        interval_s=interval_s,
        controllers=[rc.control.install(scale, name=SCALE)],
    )
    watch = Watch(job=job)
    watch.until(lambda: job.configuration.operators[COUNT].tasks > 1)
    every = round(rate * interval_s)
    job.reconfigure(rc.changes.set_bound(FLATMAP, every))
    watch.until(lambda: watch.of(every) >= parameters["timesteps"])
    history = [(str(each.change), each.cause) for each in job.history()]
    decisions = job.controllers[SCALE].state["decisions"]
    tasks = {name: each.tasks for name, each in job.configuration.operators.items()}
    job.stop(STOP_SECONDS)
    return {
        "decisions": [
            {
                "outcome": each["outcome"],
                "why": each["why"],
                "at_ms": each["at_ms"],
                "timestep": each["timestep"],
                "parallelism": each["parallelism"],
                "exact": {name: of["exact"] for name, of in each["evidence"].items()},
            }
            for each in decisions
        ],
        "history": history,
        "tasks": tasks,
        "rate": rate,
        "every": every,
        "timesteps": [
            [p.timestep, p.now_ms, p.committed_ms, p.rows_in, p.duration_ms]
            for p in watch.found.values()
        ],
    }


@dataclass
class Watch:
    """Collects the timesteps of a job as they are committed."""

    job: rc.RunningJob
    found: dict[int, TimestepProgress] = field(default_factory=dict)

    @property
    def last(self) -> int:
        """The latest timestep; 0 before the first."""
        return max(self.found, default=0)

    def of(self, rows: int) -> int:
        """Return how many timesteps have read that number of rows."""
        return sum(each.rows_in == rows for each in self.found.values())

    def until(self, reached: Callable[[], bool]) -> None:
        """Wait for something. Raises RuntimeError if the job ends."""
        while not reached():
            if self.job.await_termination(POLL_SECONDS):
                raise RuntimeError("the job has ended")
            for each in self.job.recent_progress:
                if each.timestep not in self.found:
                    self.found[each.timestep] = each
                    took = f"{each.duration_ms / 1e3:.1f} s"
                    report(f"timestep {each.timestep}: {each.rows_in} sentences, {took}")
