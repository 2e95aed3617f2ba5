"""Findings about streams: what batches spend their time on, and whether they keep up.

Gains are shares of the run. They are what batches would be shorter, so a stream that waits between
its batches gains capacity rather than time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from rechannel.profiling.diagnosis.driver_time import DriverTime
from rechannel.profiling.diagnosis.stream_facts import StreamFacts, stream_facts
from rechannel.profiling.diagnosis.stream_pace import BUSY
from rechannel.profiling.diagnosis.stream_state import grows_for_ever, slow_state, too_late
from rechannel.profiling.diagnosis.words import duration, short, stream_name
from rechannel.profiling.model.finding import Certainty, Evidence, Finding, Place
from rechannel.profiling.model.words import capitalised, counted, percent
from rechannel.profiling.spark.application import Batch, Stage
from rechannel.profiling.spark.busy import Floats

SMALL = 0.4
"""Share of batches' time without tasks from which batches are too small."""
LARGER = 10
"""How many times as large batches are assumed to become."""
USUAL = 300
"""ms per batch that are usual for a sink, and for a source that says what is new."""
SLOW = 0.25
"""Share of batches' time from which a sink, or a source that lists, is slow."""
SKEWED = 0.15
"""Share of batches' time that skew must cost."""
ABOVE = 1.2
"""How many times as many rows come in as are worked off, from which the rate is too high."""
RISING = 1.3
"""How many times as large as the one before batches become if the rate is too high."""
LEAST_BACKLOGS = 3
"""Batches with a known backlog from which its growth is judged."""
FULL = 0.6
"""Share of the last batch in which tasks run, if capacity is what lacks."""
UNEVEN = 5.0
"""How many times as many rows as the median the largest of uneven batches has."""
LASTING = ("rate-above-capacity", "watermark")
"""Causes that are reported whatever they have cost up to now."""
FEW = 4
"""Batches below which nothing is known of their usual size."""
MANY = 10
"""Batches from which their sizes are compared."""


def on_streams(time: DriverTime) -> Iterator[Finding]:
    """Find what makes batches of streams slow."""
    for facts in stream_facts(time):
        settled = facts.settled()
        rules = [*((rule, facts) for rule in _OF_ALL), *((rule, settled) for rule in _OF_SETTLED)]
        for rule, known in rules:
            # What has a gain is worth it, or says that the stream will not last.
            yield from (
                finding
                for finding in rule(time, known)
                if finding.gain is None
                or finding.cause in LASTING
                or time.worth(1_000 * (finding.seconds or 0.0))
            )


def small_batches(time: DriverTime, facts: StreamFacts) -> Iterator[Finding]:
    """Find batches in which planning and committing outweigh the work of tasks."""
    slow = _slow_sink(facts) + _slow_listing(facts)
    other = np.maximum(0.0, facts.lasted - facts.on_core - slow)
    share = float(other.sum() / facts.lasted.sum())
    if share < SMALL or facts.back_to_back < BUSY or len(facts.batches) < FEW:
        return
    saved = float(other.sum()) * (1 - 1 / LARGER)
    rows = sum(batch.rows for batch in facts.batches) / len(facts.batches)
    yield time.finding(
        "small-batches",
        saved,
        f"Batches of {_named(facts)} are small: {counted(len(facts.batches), 'batch', 'batches')}"
        f" of {rows:,.0f} rows take {duration(float(facts.lasted.mean()))} each, and in"
        f" {percent(share)} of that time no task runs, because the driver plans and commits."
        f" Batches {LARGER} times as large would make the run {duration(saved)}"
        f" ({percent(saved / time.length)}) shorter.",
        "Put more rows into a batch: raise the source's `maxFilesPerTrigger` or"
        " `maxOffsetsPerTrigger`, or set a longer trigger interval"
        " (`trigger(processingTime=...)`). Lower `spark.sql.shuffle.partitions` if stages have far"
        " more tasks than cores.",
        place=_longest(facts),
        evidence=(
            Evidence(name="rows per batch", value=rows, unit="rows"),
            Evidence(name="batch", value=float(facts.lasted.mean()) / 1_000, unit="s"),
            Evidence(name="time without tasks", value=100 * share, unit="%"),
        ),
    )


def _slow_sink(facts: StreamFacts) -> Floats:
    """Return the ms of the sink beyond what is usual, by batch, if it is slow; else 0."""
    return _unusual(facts, facts.sink)


def _slow_listing(facts: StreamFacts) -> Floats:
    """Return the ms of the source beyond what is usual, by batch, if it is slow; else 0."""
    return _unusual(facts, _listing(facts))


def _listing(facts: StreamFacts) -> Floats:
    """Return the ms that the source takes to say what is new, by batch."""
    return facts.phase("latestOffset", "getOffset", "getBatch")


def _unusual(facts: StreamFacts, ms: Floats) -> Floats:
    """Return the part of the driver's ms in batches that is not usual; 0 if that is a small share."""
    slow = np.maximum(0.0, ms - USUAL)
    return slow if float(slow.sum()) >= SLOW * float(facts.lasted.sum()) else 0.0 * slow


def slow_sink(time: DriverTime, facts: StreamFacts) -> Iterator[Finding]:
    """Find a sink that takes long after its tasks."""
    slow = _slow_sink(facts)
    saved = float(slow.sum())
    if not saved:
        return
    share = float(facts.sink.sum() / facts.lasted.sum())
    yield time.finding(
        "slow-sink",
        saved,
        f"The sink of {_named(facts)} is slow: after the last task of a batch the driver spends"
        f" {duration(float(facts.sink.mean()))} in it, {percent(share)} of a batch. A sink that"
        f" takes {duration(USUAL)} would make the run {duration(saved)}"
        f" ({percent(saved / time.length)}) shorter.",
        "Look at what the function of `foreachBatch`, or the commit of the sink, does on the"
        " driver: write from the executors, in fewer and larger requests, without sleeping or"
        " counting rows again (`persist` the batch if it is used twice). Larger batches pay for it"
        " less often.",
        place=_longest(facts),
        evidence=(Evidence(name="sink", value=float(facts.sink.mean()) / 1_000, unit="s"),),
    )


def slow_source(time: DriverTime, facts: StreamFacts) -> Iterator[Finding]:
    """Find a source that takes long to say what is new."""
    listing, saved = _listing(facts), float(_slow_listing(facts).sum())
    if not saved:
        return
    share = float(listing.sum() / facts.lasted.sum())
    yield time.finding(
        "file-listing",
        saved,
        f"The source of {_named(facts)} needs {duration(float(listing.mean()))} per batch to find out"
        f" what is new, {percent(share)} of a batch.",
        "For files: move or delete those that were read (`cleanSource`), set `maxFileAge`, or use"
        " a source that is notified of new files. For Kafka: look at the latency of the brokers.",
        place=_longest(facts),
        evidence=(Evidence(name="listing", value=float(listing.mean()) / 1_000, unit="s"),),
    )


def skew(time: DriverTime, facts: StreamFacts) -> Iterator[Finding]:
    """Find batches that wait for one task with most of the rows."""
    known = [each for each in facts.excess if each is not None]
    saved = sum(each.ms for each in known)
    if not known or saved < SKEWED * float(facts.lasted.sum()):
        return
    if 2 * len(known) < len(facts.excess):
        return
    times = float(np.median([each.times for each in known]))
    worst = max(known, key=lambda each: each.ms)
    yield time.finding(
        "stream-skew",
        saved,
        f"In {len(known)} of {len(facts.excess)} batches of {_named(facts)} all tasks wait for"
        f" one, which reads {times:.1f} times as many rows as the median task{_in(worst.stage)}."
        f" Tasks of equal size would make the run {duration(saved)}"
        f" ({percent(saved / time.length)}) shorter.",
        "A key is hot: aggregate in two steps with a salted key, filter the key out, or treat it"
        " apart. `spark.sql.adaptive.skewJoin.enabled` does not apply to stateful streams.",
        place=Place(
            stage=worst.stage.number, attempt=worst.stage.attempt, execution=worst.stage.execution
        ),
        evidence=(
            Evidence(name="largest task against the median", value=times, unit="x"),
            Evidence(name="batches with skew", value=len(known)),
        ),
    )


def above_capacity(time: DriverTime, facts: StreamFacts) -> Iterator[Finding]:
    """Find a stream into which more rows come than it works off."""
    last = facts.batches[-1]
    grown = [
        after.rows >= RISING * before.rows and after.end - after.start >= before.end - before.start
        for before, after in zip(facts.batches[:-1], facts.batches[1:], strict=True)
    ]
    rate = max(batch.process_rate for batch in facts.batches)
    comes = arriving(facts.batches)
    behind = comes is not None  # The backlog of a source that limits batches grows.
    if comes is None:
        if not (grown[-1] and 2 * sum(grown) >= len(grown)):
            return
        comes = float(np.median([batch.input_rate for batch in facts.batches]))
    if rate <= 0 or comes < ABOVE * rate:
        return
    if facts.on_core[-1] < FULL * facts.lasted[-1] or facts.back_to_back < BUSY:
        return
    share = 1 - rate / comes
    saved = share * float(facts.lasted.sum())
    how = (
        f"the source holds {last.source_backlog:,} rows that no batch has read"
        if behind
        else f"batches grow from {facts.batches[0].rows:,} to {last.rows:,} rows"
    )
    yield time.finding(
        "rate-above-capacity",
        saved,
        f"{capitalised(_named(facts))} receives {comes:,.0f} rows a second and"
        f" processes at most {rate:,.0f}: {how}. It needs {comes / rate:.1f} times its capacity to keep"
        " up.",
        "Give the stream more cores, and as many partitions; or make the slowest stage cheaper."
        " `maxOffsetsPerTrigger` keeps batches small, but does not raise the capacity.",
        certainty=Certainty.LIKELY,
        place=_longest(facts),
        evidence=(
            Evidence(name="rows that come in", value=comes, unit="rows/s"),
            Evidence(name="rows that are worked off", value=rate, unit="rows/s"),
        ),
    )


def arriving(batches: Sequence[Batch]) -> float | None:
    """Return how many rows a second come to a source whose backlog grows; None if it does not grow,
    or if the source does not say.

    A backlog is what a batch leaves when it has chosen its rows. From one batch to a later one, what
    came in is what the batches after the first have read, and what the backlog has grown by.
    """
    known = [(batch, batch.source_backlog) for batch in batches if batch.source_backlog is not None]
    if len(known) < LEAST_BACKLOGS or known[-1][0] is not batches[-1]:
        return None
    (first, before), (last, after) = known[0], known[-1]
    largest = max(backlog for _, backlog in known)
    if after <= max(ABOVE * before, last.rows) or ABOVE * after < largest:
        return None
    read = sum(batch.rows for batch in batches if batch.start > first.start)
    return (read + after - before) / max(1.0, (last.start - first.start) / 1_000)


def uneven(time: DriverTime, facts: StreamFacts) -> Iterator[Finding]:
    """Mention batches of very different sizes; that has no gain."""
    rows = np.array([batch.rows for batch in facts.batches], dtype=np.float64)
    if len(rows) < MANY or rows.max() < UNEVEN * np.median(rows):
        return
    place = int(np.argmax(rows))
    if facts.lasted[place] < UNEVEN * np.median(facts.lasted):
        return
    batch = facts.batches[place]
    yield Finding(
        cause="uneven-batches",
        text=f"Batches of {_named(facts)} are uneven: batch {batch.number} has {batch.rows:,} rows"
        f" and takes {duration(float(facts.lasted[place]))}, the median one has"
        f" {np.median(rows):,.0f} rows and takes {duration(float(np.median(facts.lasted)))}.",
        advice="Limit batches with the source's `maxOffsetsPerTrigger` or `maxFilesPerTrigger`.",
        gain=None,
        certainty=Certainty.CERTAIN,
        place=Place(batch=batch.number),
        evidence=(Evidence(name="rows of the largest batch", value=batch.rows, unit="rows"),),
    )


def _named(facts: StreamFacts) -> str:
    return stream_name(facts.query)


def _in(stage: Stage) -> str:
    return f" of stage {stage.number} ({short(stage.name)})" if stage.name else ""


def _longest(facts: StreamFacts) -> Place:
    return Place(batch=facts.batches[int(np.argmax(facts.lasted))].number)


_Rule = Callable[[DriverTime, StreamFacts], Iterable[Finding]]
_OF_ALL: tuple[_Rule, ...] = (skew, slow_state, too_late)
_OF_SETTLED: tuple[_Rule, ...] = (
    above_capacity,
    slow_sink,
    slow_source,
    small_batches,
    grows_for_ever,
    uneven,
)
