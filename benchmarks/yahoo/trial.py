"""One run of either side: start, wait for the last window, read what was written. And the search by such runs.

A search begins a new query, with a new state, for every rate, in one process: the JVM is warm from the second one on.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from benchmarks.harness import Parameters
from benchmarks.measurements import creation_ns
from benchmarks.variant import report
from benchmarks.yahoo.events import SKEW_MS, AdEvents
from benchmarks.yahoo.figures import MS, Span, WindowMeasurement, next_rate, span_of, sustained
from benchmarks.yahoo.store import last_updates, visible

POLL_SECONDS = 0.1
AHEAD_NS = 2_000_000_000
"""Rows begin so long after the start is asked for: the time that starting takes is not backlog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """What an engine tells when it has stopped. commits: by number of the batch or timestep (first row, row after the
    last, time of the commit in ns since 1970). phases: as in `benchmarks.measurements`.
    """

    commits: dict[int, tuple[int, int, int]]
    phases: dict[str, list[float]]


class Running(Protocol):
    """A stream under way."""

    def rows(self) -> int:
        """How many rows are committed. Raises what it failed with."""

    def stop(self) -> Batches:
        """End it; what was committed is visible then."""


class Engine(Protocol):
    """Starts the query."""

    def start(self, events: AdEvents, directory: Path, out: Path) -> Running:
        """Over a stream of events. directory: for its own files. out: of a `Store`."""


def events_of(parameters: Parameters, *, start_ns: int, rate: int) -> AdEvents:
    """The stream that the parameters say."""
    return AdEvents(
        start_ns=start_ns,
        rate=rate,
        partitions=parameters["partitions"],
        campaigns=parameters["campaigns"],
        ads=parameters["ads"],
        skewed=parameters["skewed"],
    )


def measure(engine: Engine, parameters: Parameters) -> WindowMeasurement:
    """Run at ``rate``; if that is 0, search the highest sustainable one, and run at ``search.share`` of it."""
    scratch, rate = Path(parameters["scratch"]), parameters["rate"]
    tried: list[tuple[int, bool]] = []
    if not rate:
        tried = search(engine, parameters, scratch)
        highest = max((each for each, well in tried if well), default=0)
        rate = int(highest * parameters["search"]["share"])
        if not rate:
            raise RuntimeError(f"no rate was sustained: {tried}")
    measured = run(
        engine,
        parameters,
        scratch / "measured",
        rate=rate,
        warmup_ms=parameters["warmup_seconds"] * 1_000,
        length_ms=parameters["seconds"] * 1_000,
        border_ms=parameters["window_seconds"] * 1_000,
    )
    return {**measured, "tried": tried} if tried else measured


def search(engine: Engine, parameters: Parameters, scratch: Path) -> list[tuple[int, bool]]:
    """(rate, whether it was sustained) of short runs. One that was not is run again, ``tries`` times in all."""
    asked, tried, number = parameters["search"], list[tuple[int, bool]](), 0
    while rate := next_rate(tried, first=asked["first"], ratio=asked["ratio"]):
        well = False
        for _ in range(asked["tries"]):
            number += 1
            report(f"trial {number}: {rate:,} events/s")
            found = run(
                engine,
                parameters,
                scratch / f"trial-{number}",
                rate=rate,
                warmup_ms=asked["warmup_seconds"] * 1_000,
                length_ms=asked["seconds"] * 1_000,
                border_ms=1_000,
                give_up_ms=asked["bearable_ms"],
            )
            well = sustained(found, growth=asked["growth"], bearable_ms=asked["bearable_ms"])
            if well:
                break
        tried.append((rate, well))
    return tried


def run(
    engine: Engine,
    parameters: Parameters,
    directory: Path,
    *,
    rate: int,
    warmup_ms: int,
    length_ms: int,
    border_ms: int,
    give_up_ms: float | None = None,
) -> WindowMeasurement:
    """One run. `border_ms`: the measured span begins and ends at multiples of it.

    give_up_ms: how long a row that is not committed may have waited after the warm-up; None = for ever.
    """
    start_ns = time.time_ns() + AHEAD_NS
    span = span_of(
        start_ns=start_ns,
        rate=rate,
        window_ms=border_ms,
        warmup_ms=warmup_ms,
        length_ms=length_ms,
        slack_ms=SKEW_MS if parameters["skewed"] else 0,
    )
    out = directory / "out"
    out.mkdir(parents=True)
    events = events_of(parameters, start_ns=start_ns, rate=rate)
    running = engine.start(events, directory, out)
    while (done := running.rows()) < span.rows:
        if give_up_ms is not None and overdue(events, span, done) > give_up_ms:
            break
        report(f"{done:,} of {span.rows:,} events at {rate:,} events/s")
        time.sleep(POLL_SECONDS)
    return measurement(events, span, running.stop(), out)


def overdue(events: AdEvents, span: Span, done: int) -> float:
    """How long the oldest row that is not committed has waited, in ms; 0 during the warm-up."""
    now = time.time_ns()
    oldest = creation_ns(np.array([done]), start_ns=events.start_ns, rate=events.rate)
    return float(now - oldest[0]) / MS if now >= span.first_ms * MS else 0.0


def measurement(events: AdEvents, span: Span, batches: Batches, out: Path) -> WindowMeasurement:
    """What was written, with when it was committed."""
    commits, last = batches.commits, last_updates(out).to_pydict()
    seen = visible(out)
    return {
        "rate": events.rate,
        "start_ns": events.start_ns,
        "first_ms": span.first_ms,
        "end_ms": span.end_ms,
        "rows": span.rows,
        "campaign": last["campaign_id"],
        "window_ms": last["window_ms"],
        "count": last["count"],
        "updates": last["updates"],
        "updated_ms": [at / MS for at in last["visible_ns"]],
        "committed_ms": [commits[n][2] / MS if n in commits else 0.0 for n in last["number"]],
        "batches": [
            (*commits[number], seen[number]) for number in sorted(commits.keys() & seen.keys())
        ],
        "phases": batches.phases,
    }
