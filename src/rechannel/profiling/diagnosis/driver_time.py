"""The driver's time without tasks, by what the driver does then.

While a task runs, the driver need not be waited for; in the rest of the time it alone is on the
critical path, so a second less of it makes the application a second shorter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rechannel.profiling.diagnosis.capacity import Capacity
from rechannel.profiling.diagnosis.case import Case, worth
from rechannel.profiling.diagnosis.driver_spans import DriverSpan
from rechannel.profiling.model.finding import Certainty, Evidence, Finding, Place
from rechannel.profiling.spark.application import Application
from rechannel.profiling.spark.busy import Busy, Floats, busy
from rechannel.profiling.spark.rows import leaving

LARGE = 4 << 20
"""Bytes of the results of a job that are worth mentioning."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DriverTime:
    """What the driver did, and for how long no task ran then."""

    app: Application
    spans: Sequence[DriverSpan]
    on_core: Busy
    """When a task was on its core, or on its way to it."""
    alone: Floats
    """ms of each span in which no task is on a core."""
    fetching: Floats
    """ms of these in which results of tasks are outstanding."""
    executions: Sequence[tuple[int, int]]
    """Start and number of all executions, sorted."""
    results: Mapping[int, int]
    """Bytes of large results of jobs."""
    capacity: Capacity
    length: float
    """`Case.run_ms`."""

    @classmethod
    def of(cls, case: Case) -> DriverTime:
        """Cut up the driver's time."""
        app, spans = case.app, case.spans
        tasks = app.tasks.close()
        on_core = busy(tasks.each(), lambda rows: (rows["launch"], leaving(rows)))
        delivered = busy(tasks.each(), lambda rows: (rows["launch"], rows["finish"]))
        starts = np.array([span.start for span in spans], dtype=np.float64)
        ends = np.array([span.end for span in spans], dtype=np.float64)
        used = on_core.within(starts, ends)
        return cls(
            app=app,
            spans=spans,
            on_core=on_core,
            alone=ends - starts - used,
            executions=sorted((one.start, one.number) for one in app.executions.values()),
            results=job_results(app),
            capacity=case.observed.capacity,
            length=case.run_ms,
            fetching=np.maximum(0.0, delivered.within(starts, ends) - used),
        )

    def of_kind(self, *kinds: str) -> list[tuple[DriverSpan, float]]:
        """Return the spans of some kinds, with the ms in which no task runs."""
        return [(span, ms) for span, ms, _ in self.measured() if span.kind in kinds and ms > 0]

    def measured(self) -> Iterator[tuple[DriverSpan, float, float]]:
        """Iterate over the spans, each with its ms in `alone` and in `fetching`."""
        return zip(self.spans, self.alone.tolist(), self.fetching.tolist(), strict=True)

    def between_batches(self) -> Iterator[tuple[DriverSpan, float, float]]:
        """Iterate over the spans that belong to no batch of a stream: what a batch spends its time on
        is found for its stream.
        """
        return (each for each in self.measured() if each[0].batch is None)

    def by_execution(self, kind: str) -> dict[int, float]:
        """Return the ms of a kind in which no task runs, by execution; those of batches left out."""
        found: dict[int, float] = {}
        for span, ms, _ in self.between_batches():
            if span.kind == kind and span.execution is not None and ms > 0:
                found[span.execution] = found.get(span.execution, 0.0) + ms
        return found

    def worth(self, ms: float) -> bool:
        """Return whether a duration is to be reported."""
        return worth(ms, self.length)

    def finding(
        self,
        cause: str,
        ms: float,
        text: str,
        advice: str,
        *,
        certainty: Certainty = Certainty.LIKELY,
        place: Place = Place(),  # noqa: B008 - frozen
        evidence: tuple[Evidence, ...] = (),
    ) -> Finding:
        """Return a finding that gains some ms of the run."""
        share = min(1.0, ms / self.length)
        return Finding(
            cause=cause,
            text=text,
            advice=advice,
            gain=share,
            seconds=ms / 1_000,
            certainty=certainty,
            place=place,
            evidence=evidence,
            share=share,
        )


def result_bytes(app: Application) -> Mapping[int, int]:
    """Return the bytes of the results of stages."""
    found: dict[int, int] = {}
    for rows in app.tasks.close().each():
        large = rows[rows["result"] > 0]
        stages, place = np.unique(large["stage"], return_inverse=True)
        sums = np.bincount(place, weights=large["result"], minlength=len(stages))
        for stage, count in zip(stages.tolist(), sums.tolist(), strict=True):
            found[stage] = found.get(stage, 0) + int(count)
    return found


def job_results(app: Application) -> Mapping[int, int]:
    """Return the bytes that jobs with large results brought to the driver; broadcasts left out."""
    of = result_bytes(app)
    sums = {
        job.number: sum(of.get(stage, 0) for stage in job.stages)
        for job in app.jobs.values()
        if not job.broadcast
    }
    return {number: count for number, count in sums.items() if count >= LARGE}
