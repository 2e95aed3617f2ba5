"""The events of the Yahoo streaming benchmark: rows are a function of their number, and of nothing else.

After the public generator (github.com/yahoo/streaming-benchmarks, ``data/src/setup/core.clj``): JSON text with the same
fields in the same order, 100 users, 100 pages, five types of advertisements, three types of events, all drawn evenly;
`event_time` is a text of ms since 1970, the moment at which the event was due. With skew it is up to 49 ms earlier or
50 ms later, as there, and of one event in `late_every` up to `late_ms` earlier. What differs:

- Random numbers come from a hash of the event's number. So any part of the stream can be made on its own, and a whole
  column at a time. Ids are made from names, so they are the same in every run.
- A row is put together out of two texts that are made ahead (user and page; advertisement, its type and the event's).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from benchmarks.clock_source import Clocked, ClockReader
from benchmarks.draws import Numbers, below
from benchmarks.measurements import creation_ns

USERS = PAGES = 100
AD_TYPES = ("banner", "modal", "sponsored-search", "mail", "mobile")
EVENT_TYPES = ("view", "click", "purchase")
VIEW = "view"
KINDS = len(AD_TYPES) * len(EVENT_TYPES)
SKEW_MS = 100
COLUMN = "value"
SCHEMA = f"{COLUMN} STRING"
_END = '", "ip_address": "1.2.3.4"}'
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AdEvents(Clocked):
    """The stream. campaigns: how many, each with `ads` advertisements.

    skewed: event times are not in order. late_every: one event in so many is late as well; 0 = none.
    """

    campaigns: int = 100
    ads: int = 10
    skewed: bool = False
    late_every: int = 0
    late_ms: int = 60_000

    def batch(self, first: int, end: int) -> pa.RecordBatch:
        """The rows ``first <= row < end`` as JSON texts."""
        rows = np.arange(first, end, dtype=np.int64)
        middles = line_middles(self.campaigns, self.ads)
        lines = pc.binary_join_element_wise(
            line_openings().take(pa.array(below(rows, 1, USERS * PAGES))),
            middles.take(pa.array(below(rows, 2, len(middles)))),
            pa.array(self.times_ms(rows)).cast(pa.string()),
            _END,
            "",
        )
        return pa.RecordBatch.from_arrays([lines], names=[COLUMN])

    def times_ms(self, rows: Numbers) -> Numbers:
        """Event times, ms since 1970."""
        due = creation_ns(rows, start_ns=self.start_ns, rate=self.rate) // 1_000_000
        if self.skewed:
            due = due + SKEW_MS // 2 - below(rows, 3, SKEW_MS)
        if self.late_every:
            late = below(rows, 4, self.late_every) == 0
            due = due - late * below(rows, 5, self.late_ms)
        return due

    def views(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        """Of the rows that are views: the number of the campaign, and the event time in ms."""
        drawn = below(rows, 2, self.campaigns * self.ads * KINDS)
        seen = drawn % len(EVENT_TYPES) == EVENT_TYPES.index(VIEW)
        return drawn[seen] // KINDS // self.ads, self.times_ms(rows[seen])

    def counts(self, end: int, window_ms: int) -> dict[tuple[str, int], int]:
        """Views per campaign and window (its start, in ms) of the first `end` rows: what every engine must find."""
        found: dict[tuple[str, int], int] = {}
        names = campaign_ids(self.campaigns)
        for first in range(0, end, _CHUNK):
            campaign, at = self.views(np.arange(first, min(first + _CHUNK, end), dtype=np.int64))
            pairs, rows = np.unique(at // window_ms * self.campaigns + campaign, return_counts=True)
            for pair, count in zip(pairs.tolist(), rows.tolist(), strict=True):
                window, number = divmod(pair, self.campaigns)
                key = names[number], window * window_ms
                found[key] = found.get(key, 0) + count
        return found


class AdSource(DataSource):
    """Options: the fields of `AdEvents`, as texts."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` is given."""
        return "ad-events"

    def schema(self) -> str:
        """One column of JSON texts."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> ClockReader:  # noqa: N802
        """The reader of these options."""
        options: dict[str, Any] = {name: int(text) for name, text in self.options.items()}
        return ClockReader(AdEvents(**options))


def campaign_ids(campaigns: int) -> list[str]:
    """Names of the campaigns."""
    return list(_ids("campaign", campaigns))


def ads_of(campaigns: int, ads: int) -> Iterator[tuple[str, str]]:
    """The table that the stream is joined with: (advertisement, its campaign)."""
    names = campaign_ids(campaigns)
    for number, ad in enumerate(_ids("ad", campaigns * ads)):
        yield ad, names[number // ads]


@cache
def _ids(kind: str, count: int) -> tuple[str, ...]:
    return tuple(str(uuid.uuid5(uuid.NAMESPACE_OID, f"{kind} {i}")) for i in range(count))


@cache
def line_openings() -> pa.Array:
    """Text up to the advertisement, of every user and page."""
    return pa.array(
        f'{{"user_id": "{user}", "page_id": "{page}", '
        for user in _ids("user", USERS)
        for page in _ids("page", PAGES)
    )


@cache
def line_middles(campaigns: int, ads: int) -> pa.Array:
    """Text from there to the event time, of every advertisement, its type and the event's."""
    return pa.array(
        f'"ad_id": "{ad}", "ad_type": "{kind}", "event_type": "{event}", "event_time": "'
        for ad in _ids("ad", campaigns * ads)
        for kind in AD_TYPES
        for event in EVENT_TYPES
    )
