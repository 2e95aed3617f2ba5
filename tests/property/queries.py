"""The queries of benchmarks as programs for schedules of faults: few events, cut into timesteps once and for all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import rechannel as rc
from benchmarks.nexmark.events import PER_EPOCH, SCHEMAS, Events
from benchmarks.nexmark.query import NAMES, Tables, query
from benchmarks.yahoo.events import SCHEMA, AdEvents
from benchmarks.yahoo.query import counts
from rechannel.dataflow.evolution.evolution import stream_of
from rechannel.dataflow.streams.stream import dataflow_of
from rechannel.testing import script
from tests.property.programs import Program

YAHOO = "yahoo"
QUERIES = (*(name for name in NAMES if query(name).stateful), YAHOO)
WINDOWS = {"q5": "counts", "q7": "highest", "q8": "new", "q11": "sessions", YAHOO: "counts"}
"""Queries whose late rows are looked at too, and the operator that tells them."""
RATE = 20
"""Events per second of event time: those of a schedule last for some windows."""
ADS_PER_EPOCH = 20
"""Rows of the Yahoo benchmark to one round of 50 events."""


@dataclass(frozen=True, kw_only=True)
class Asked(Program):
    """A query over its events. cuts: rounds of events that are read before each timestep, and after the last one.

    jitter_ms: how far events are out of order. delay_ms: how far they may be; where that is less, rows are late.
    """

    query: str
    cuts: tuple[int, ...]
    jitter_ms: int
    delay_ms: int
    partitions: int

    @property
    def sources(self) -> list[str]:
        return [YAHOO] if self.query == YAHOO else list(query(self.query).reads)

    def flows(self) -> list[Any]:
        shown = self._yahoo() if self.query == YAHOO else self._nexmark()
        ends = [shown.write.memory("out", name="out")]
        if self.query in WINDOWS:
            late = stream_of(dataflow_of(shown), WINDOWS[self.query]).late
            ends.append(late.write.memory("late", name="late"))
        return ends

    def _nexmark(self) -> Any:
        return query(self.query).build(Tables(**{kind: self._kind(kind) for kind in SCHEMAS}))

    def _kind(self, kind: str) -> Any:
        rows = Events(rate=RATE, jitter_ms=self.jitter_ms).source(kind)
        made = self._read(kind, SCHEMAS[kind], rows, PER_EPOCH[kind])
        return made.event_time("dateTime", self.delay_ms, name=f"{kind}-time")

    def _yahoo(self) -> Any:
        skewed = self.jitter_ms > 0
        events = AdEvents(
            start_ns=1_700_000_003 * 10**9,
            rate=RATE // 2,
            partitions=1,
            campaigns=5,
            ads=2,
            skewed=skewed,
            late_every=3 if skewed else 0,
            late_ms=max(self.jitter_ms, 1),
        )
        lines = self._read(YAHOO, SCHEMA, events.batch, ADS_PER_EPOCH)
        return counts(lines, campaigns=5, ads=2, seconds=10, delay_ms=self.delay_ms)

    def _read(self, name: str, schema: str, rows: Any, per_epoch: int) -> Any:
        batches = [rows(a * per_epoch, b * per_epoch) for a, b in pairwise(self.cuts)]
        return rc.read().memory(script(schema, batches, partitions=self.partitions), name=name)


@cache
def asked(name: str, shape: int) -> Asked:
    """A query over one of a few inputs."""
    rng = Random(shape)
    cuts = [0]
    for _ in range(rng.choice((4, 6, 9))):
        cuts.append(cuts[-1] + rng.choice((1, 2, 3, 5)))
    jitter_ms = rng.choice((0, 3_000, 20_000))
    return Asked(
        ends={},
        times=[1_700_000_000_000 + 4_000 * number for number in range(1, len(cuts))],
        query=name,
        cuts=tuple(cuts),
        jitter_ms=jitter_ms,
        delay_ms=rng.choice((jitter_ms, jitter_ms // 5)),
        partitions=rng.randint(1, 3),
    )
