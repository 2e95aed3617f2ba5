"""Findings about results that the driver collects.

The log knows the size of results and when the driver had received them. It does not say when a
Python program has decoded them: the stretch of the program's own code after a job with large
results is counted, too, unless it is much longer than decoding takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rechannel.profiling.diagnosis.driver_spans import DriverSpan
from rechannel.profiling.diagnosis.driver_time import DriverTime
from rechannel.profiling.diagnosis.words import duration, job_of
from rechannel.profiling.model.finding import Certainty, Evidence, Finding, Place
from rechannel.profiling.model.words import percent, size
from rechannel.profiling.spark.driver import COLLECTING, PROGRAM, SCHEDULING

SLOWEST = 1 << 20
"""Bytes per second at which a program decodes rows at least; if it takes longer, it does something
else, too."""
ARROW = "spark.sql.execution.arrow.pyspark.enabled"


def decodes(span: DriverSpan, ms: float, results: Mapping[int, int]) -> bool:
    """Return whether the program decodes the results of the job before, as far as can be known."""
    count = results.get(-1 if span.job is None else span.job, 0)
    return span.batch is None and count > 0 and ms <= 1_000 * count / SLOWEST


def collected(time: DriverTime) -> Iterator[Finding]:
    """Find results that take the driver long to collect.

    Silent: in batches of a stream; if results are smaller than `LARGE`.
    """
    results = time.results
    of: dict[int, float] = {}
    for span, alone, fetching in time.between_batches():
        if span.job is None or span.job not in results:
            continue
        if span.kind == SCHEDULING:
            of[span.job] = of.get(span.job, 0.0) + fetching
        elif span.kind == COLLECTING or (span.kind == PROGRAM and decodes(span, alone, results)):
            of[span.job] = of.get(span.job, 0.0) + alone
    total = sum(of.values())
    if not of or not time.worth(total):
        return
    longest = max(of, key=lambda number: of[number])
    many = "" if len(of) == 1 else f" and {len(of) - 1} more"
    arrow = "" if time.app.settings.get(ARROW) == "true" else f" For pandas, set `{ARROW}=true`."
    yield time.finding(
        "collecting-results",
        total,
        f"The driver spends {duration(total)} ({percent(total / time.length)} of the run) on collecting"
        f" {size(results[longest])} of rows of {job_of(time.app, longest)}{many} and on decoding them,"
        " while executors wait. That includes what the program does right after it has the rows.",
        "Aggregate, filter or `limit` before `collect`, `toPandas` or `toLocalIterator`, or write"
        f" the rows from the executors (`df.write`).{arrow}",
        certainty=Certainty.LIKELY,
        place=Place(job=longest, execution=time.app.jobs[longest].execution),
        evidence=(
            Evidence(name="results", value=results[longest], unit="B"),
            Evidence(name="time of the driver", value=of[longest] / 1_000, unit="s"),
        ),
    )
