"""What happens to the stream: phases of load, with a hot campaign or a slow executor.

Rows are a function of their number. The texts are those of the Yahoo benchmark; a row of a hot phase is an event of the
first campaign for a share of them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from benchmarks.clock_source import ClockReader
from benchmarks.draws import Numbers, below
from benchmarks.harness import Parameters
from benchmarks.stepped_source import Stepped
from benchmarks.yahoo.events import (
    KINDS,
    PAGES,
    SCHEMA,
    USERS,
    line_middles,
    line_openings,
)

SECOND = 1_000_000_000
PERCENT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A part of the run."""

    name: str
    share: float
    """Of the run's length."""
    load: int = 1
    """Times the first load."""
    hot: int = 0
    """Percent of the events that are of one campaign."""
    slow: bool = False
    """Whether one executor is slow."""


PHASES = (
    Phase(name="calm", share=0.10),
    Phase(name="load x3", share=0.20, load=3),
    Phase(name="back", share=0.15),
    Phase(name="hot key", share=0.15, hot=60),
    Phase(name="back", share=0.05),
    Phase(name="slow executor", share=0.20, slow=True),
    Phase(name="back", share=0.15),
)


def seconds_of(minutes: float) -> tuple[int, ...]:
    """Return the length of each phase in whole seconds."""
    return tuple(max(1, round(phase.share * minutes * 60)) for phase in PHASES)


def edges_of(parameters: Parameters) -> tuple[int, ...]:
    """Return when each phase begins, and when the last one ends, in seconds from the first row on.

    Before the first phase, rows come for ``warmup_seconds`` that count nowhere.
    """
    lengths = np.cumsum(seconds_of(parameters["minutes"]))
    return tuple((parameters["warmup_seconds"] + np.concatenate(([0], lengths))).tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasedAds(Stepped):
    """Events whose rate and hot campaign change by phase. hot: percent of the first campaign, by phase."""

    hot: tuple[int, ...]
    ads: int
    """Of each campaign; there are `keys` campaigns."""
    most: int
    """Rows that a timestep, or a batch, reads at most."""

    def phase(self, rows: Numbers) -> Numbers:
        """The phase in which each row comes into being."""
        found = np.searchsorted(self.edges, rows, side="right") - 1
        return np.clip(found, 0, len(self.rates) - 1).astype(np.int64)

    def drawn(self, rows: Numbers) -> Numbers:
        """The number of each row's advertisement, with its type and that of the event."""
        kind = below(rows, 2, self.keys * self.ads * KINDS)
        percent = np.asarray(self.hot)[self.phase(rows)]
        hot = below(rows, 6, PERCENT) < percent
        return np.where(hot, kind % (self.ads * KINDS), kind)

    def batch(self, first: int, end: int) -> pa.RecordBatch:
        """The rows ``first <= row < end`` as JSON texts."""
        rows = np.arange(first, end, dtype=np.int64)
        texts = pc.binary_join_element_wise(
            line_openings().take(pa.array(below(rows, 1, USERS * PAGES))),
            line_middles(self.keys, self.ads).take(pa.array(self.drawn(rows))),
            pa.array(self.created(rows) // 1_000_000).cast(pa.string()),
            '", "ip_address": "1.2.3.4"}',
            "",
        )
        return pa.RecordBatch.from_arrays([texts], names=["value"])

    def campaigns(self, end: int) -> list[int]:
        """Events of each campaign among the first `end` rows: what every engine must find."""
        campaign = self.drawn(np.arange(end, dtype=np.int64)) // KINDS // self.ads
        found: list[int] = np.bincount(campaign, minlength=self.keys).tolist()
        return found


class PhasedReader(ClockReader):
    """Reads no more than a bound at once, so that what is late does not make a timestep long; says what is left."""

    def __init__(self, events: PhasedAds) -> None:
        super().__init__(events)
        self.most = events.most

    def latestOffset(  # noqa: N802
        self, start: dict[str, int], limit: ReadLimit
    ) -> dict[str, int]:
        """Every row that exists now, as far as the bound allows."""
        found = super().latestOffset(start, limit)
        return {"rows": min(found["rows"], start["rows"] + self.most)}

    def backlog(self, offset: dict[str, int]) -> int:
        """Rows that exist and are not read by an offset."""
        return max(0, self.schedule.due(time.time_ns()) - offset["rows"])


class PhasedSource(DataSource):
    """Options: the fields of `PhasedAds`, as JSON."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` is given."""
        return "phased-ads"

    def schema(self) -> str:
        """One column of JSON texts."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> PhasedReader:  # noqa: N802
        """The reader of these options."""
        return PhasedReader(events_from(self.options))


def events_from(options: Any) -> PhasedAds:
    """Return the events that options describe."""
    found: dict[str, Any] = {name: json.loads(text) for name, text in options.items()}
    for name in ("rates", "seconds", "hot"):
        found[name] = tuple(found[name])
    return PhasedAds(**found)


def options_of(parameters: Parameters, start_ns: int) -> dict[str, str]:
    """Return the events of a run as options of the source."""
    fields: dict[str, int | Sequence[int]] = {
        "start_ns": start_ns,
        "rate": 0,
        "partitions": parameters["partitions"],
        "rates": [phase.load * parameters["rate"] for phase in (PHASES[0], *PHASES)],
        "seconds": (parameters["warmup_seconds"], *seconds_of(parameters["minutes"])),
        "hot": [phase.hot for phase in (PHASES[0], *PHASES)],
        "keys": parameters["campaigns"],
        "ads": parameters["ads"],
        "most": parameters["most_rows"],
    }
    return {name: json.dumps(value) for name, value in fields.items()}
