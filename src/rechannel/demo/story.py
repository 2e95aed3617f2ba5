"""The demo from beginning to end. It prints nothing: it reports its progress to an audience."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

import rechannel as rc
from rechannel.dataflow.streams.stream import Stream
from rechannel.dataflow.streams.writer import Flow
from rechannel.demo.data import Input, carrier_names, read_flights, write_input
from rechannel.demo.dataflow import KEYS, dataflow
from rechannel.demo.findings import Findings, findings
from rechannel.demo.picture import draw
from rechannel.demo.plain_spark import plain_spark
from rechannel.demo.proof import Comparison, compare
from rechannel.errors import NotReadyError, RechannelError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rechannel.running import RunningJob

ONE_BATCH, PLAIN_SPARK = "one batch", "plain Spark SQL"
"""With what the stream is compared."""

_POLL_SECONDS = 0.2
_MOST_TASKS = 4
"""A week of flights does not keep more cores than that busy."""


class Audience(Protocol):
    """Those who watch the demo."""

    def step(self, text: str) -> None:
        """Something new begins."""

    def drawn(self, picture: str) -> None:
        """This is the dataflow, in box characters."""

    def replayed(self, rows: int, total: int, until: datetime) -> None:
        """This many flights of the total are committed: all before the given moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is replayed.

    timestep_hours: hours of flights in a timestep. days: from the beginning; None = the whole year.
    """

    timestep_hours: int = 7 * 24
    days: int | None = None


FAST = Size(timestep_hours=48, days=28)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of it. seconds: of the replay alone. picture, svg: files."""

    flights: int
    timesteps: int
    seconds: float
    findings: Findings
    comparisons: tuple[Comparison, ...]
    picture: Path
    svg: Path

    @property
    def equal(self) -> bool:
        """Whether every result of the stream equals the same result from elsewhere."""
        return all(comparison.equal for comparison in self.comparisons)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """One run. work: an empty directory for input, state and output. out: for the pictures."""

    spark: SparkSession
    work: Path
    out: Path
    size: Size
    audience: Audience

    def run(self) -> Outcome:
        """Replay, draw, prove. Raises what a job raises, and SetUpError without the extra."""
        self.audience.step("writing the flights as files in the order of their hour")
        flights = _first(read_flights(), self.size.days)
        written = write_input(flights, self.work / "input", hours=self.size.timestep_hours)
        job = self._job(written)
        svg, picture = self.out / "dataflow.svg", self.out / "delays.png"
        svg.write_text(job.svg(), encoding="utf-8")
        self.audience.drawn(job.picture())
        self.audience.step("replaying them as a stream")
        began = time.monotonic()
        streamed = self._stream(job, written)
        seconds = time.monotonic() - began
        draw(streamed["hours"], picture)
        return Outcome(
            flights=written.rows[-1],
            timesteps=len(written.rows),
            seconds=seconds,
            findings=findings(streamed, carrier_names()),
            comparisons=tuple(self._compare(streamed, written)),
            picture=picture,
            svg=svg,
        )

    def _flows(self, written: Input) -> list[Flow | Stream]:
        files = rc.read(self.spark).files(written.files, per_timestep=1, name="flights")
        return dataflow(files, self.work / "legs")

    def _settings(self) -> rc.Settings:
        return rc.Settings(tasks=min(_MOST_TASKS, os.cpu_count() or 1), in_flight=2)

    def _job(self, written: Input) -> rc.Job:
        return rc.Job(
            "flights", self._flows(written), state=self.work / "state", settings=self._settings()
        )

    def _stream(self, job: rc.Job, written: Input) -> dict[str, pa.Table]:
        """Run the job until it has read everything; its results."""
        running = job.start()
        try:
            while not _idle(running):
                self._tell(running, written)
            self._tell(running, written)
            results = _results(running, self.spark.read.parquet(str(self.work / "legs")))
        except BaseException:
            with suppress(RechannelError):  # what went wrong first is what counts
                running.stop()
            raise
        running.stop()
        return results

    def _tell(self, running: RunningJob, written: Input) -> None:
        done = running.status.timestep
        if done:
            rows, until = written.rows[done - 1], written.ends[done - 1]
            self.audience.replayed(rows, written.rows[-1], until)

    def _compare(self, streamed: dict[str, pa.Table], written: Input) -> list[Comparison]:
        self.audience.step("running the same dataflow as one batch")
        place = str(self.work / "batch")
        flows, settings = self._flows(written), self._settings()
        with rc.run_batch(flows, spark=self.spark, settings=settings, directory=place) as batch:
            batched = _results(batch, batch.output())
        self.audience.step("computing the same in plain Spark SQL")
        frames = plain_spark(self.spark, self.work / "input")
        plain = {name: frame.toArrow() for name, frame in frames.items()}
        return [
            compare(name, streamed[name], other, tables[name], keys)
            for name, keys in KEYS.items()
            for other, tables in ((ONE_BATCH, batched), (PLAIN_SPARK, plain))
        ]


def _results(source: Any, legs: Any) -> dict[str, pa.Table]:
    """Every result by its name. source: has the operators' state. legs: rows of the sink."""
    frames = {name: source.state(name) for name in KEYS if name != "legs"}
    # Which flights came in the last timestep is the one thing that depends on the cuts.
    frames["aircraft"] = frames["aircraft"].drop("legs")
    frames["legs"] = legs.drop("timestep")
    return {name: frame.toArrow() for name, frame in frames.items()}


def _idle(running: RunningJob) -> bool:
    try:
        running.process_all_available(timeout=_POLL_SECONDS)
    except NotReadyError:
        return False
    return True


def _first(flights: pa.Table, days: int | None) -> pa.Table:
    """The flights of the first days."""
    if days is None:
        return flights
    hours = flights["scheduled"].to_numpy().astype("datetime64[h]").astype(int)
    return flights.slice(0, int((hours < hours[0] + days * 24).sum()))
