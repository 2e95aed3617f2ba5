"""The query: JSON texts to counts of views per campaign and window, as a dataflow and as the SQL that says the same."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

import rechannel as rc
from benchmarks.yahoo.events import COLUMN, VIEW, ads_of
from rechannel import aggregates as agg
from rechannel.dataflow.streams.stream import Stream

OPERATOR = "counts"
TIME = pa.timestamp("us", "UTC")
PARSED = "ad_id STRING, event_time TIMESTAMP"
JOINED = "campaign_id STRING, event_time TIMESTAMP"
_READ = pa.schema([(name, pa.string()) for name in ("ad_id", "event_type", "event_time")])

SQL = f"""
SELECT campaign_id, window(event_time, '{{seconds}} seconds').start AS window_start, count(*) AS count
FROM (
  SELECT e.ad_id, timestamp_millis(CAST(e.event_time AS BIGINT)) AS event_time
  FROM (SELECT from_json({COLUMN}, 'ad_id STRING, event_type STRING, event_time STRING') AS e FROM events)
  WHERE e.event_type = '{VIEW}'
) JOIN ads USING (ad_id)
GROUP BY campaign_id, window(event_time, '{{seconds}} seconds')
"""
"""Over the views `events` and `ads` (ad_id, campaign_id). ``{seconds}``: length of a window."""


def counts(
    lines: Stream,
    *,
    campaigns: int,
    ads: int,
    seconds: int,
    delay_ms: int = 0,
    tasks: int | None = None,
) -> Stream:
    """Every count that changes, in every timestep. delay_ms: how far events may lag behind the latest one."""
    parsed = lines.map_batches(parse_views, PARSED, name="views")
    joined = parsed.map_batches(Campaigns(campaigns=campaigns, ads=ads), JOINED, name="campaigns")
    timed = joined.event_time("event_time", delay_ms, name="timed")
    windows = timed.key_by("campaign_id").window(
        rc.windows.tumbling(f"{seconds} seconds"), emit="on_update"
    )
    return windows.aggregate(count=agg.count(), name=OPERATOR, tasks=tasks)


def parse_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Advertisement and event time of the rows that are views. A text that is no JSON object raises."""
    found = parsed(batch.column(0))
    found = found.filter(pc.equal(found["event_type"], VIEW))
    times = found["event_time"].cast(pa.int64()).cast(pa.timestamp("ms", "UTC")).cast(TIME)
    return _batch(ad_id=found["ad_id"], event_time=times)


def parsed(texts: pa.Array) -> pa.Table:
    """The three fields that the query needs, of every JSON object. No text has a line break; null is left out."""
    lines = texts.drop_null()
    if not len(lines):
        return _READ.empty_table()
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    text = pc.binary_join(whole, "\n")[0].as_buffer()
    return pj.read_json(
        pa.BufferReader(text),
        # One block, in this thread: a task has one core.
        read_options=pj.ReadOptions(use_threads=False, block_size=text.size + 1),
        parse_options=pj.ParseOptions(explicit_schema=_READ, unexpected_field_behavior="ignore"),
    )


@dataclass(frozen=True, kw_only=True)
class Campaigns:
    """The join with the table of advertisements, which is in every worker. Rows of others are left out."""

    campaigns: int
    ads: int

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The campaign in place of the advertisement."""
        known, campaign = _table(self.campaigns, self.ads)
        place = pc.index_in(batch["ad_id"], value_set=known)
        joined = _batch(campaign_id=campaign.take(place), event_time=batch["event_time"])
        return joined.filter(place.is_valid()) if place.null_count else joined


@cache
def _table(campaigns: int, ads: int) -> tuple[pa.Array, pa.Array]:
    """Advertisements, and their campaigns."""
    known, campaign = zip(*ads_of(campaigns, ads), strict=True)
    return pa.array(known), pa.array(campaign)


def _batch(**columns: Any) -> pa.RecordBatch:
    whole = [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns.values()]
    return pa.RecordBatch.from_arrays(whole, names=list(columns))
