"""Channel ids: known by name, or read from the address."""

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.query import Query, Tables
from rechannel import computed
from rechannel.dataflow.streams.stream import Stream

SQL = """
SELECT * FROM (
  SELECT auction, bidder, price, channel,
         CASE WHEN lower(channel) = 'apple' THEN '0' WHEN lower(channel) = 'google' THEN '1'
              WHEN lower(channel) = 'facebook' THEN '2' WHEN lower(channel) = 'baidu' THEN '3'
              ELSE nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '') END AS channel_id
  FROM bid
) WHERE channel_id IS NOT NULL
"""
KNOWN = pa.array(["apple", "google", "facebook", "baidu"])


def channel_id(channel: pa.Array, url: pa.Array) -> pa.Array:
    """0 to 3, what the address says, or null."""
    number = pc.index_in(pc.utf8_lower(channel), KNOWN)
    found = pc.extract_regex(url, r"(?:&|^)channel_id=(?P<id>[^&]*)")
    return pc.coalesce(number.cast(pa.string()), pc.struct_field(found, "id"))


def has_id(channel_id: pa.Array) -> pa.Array:
    """Rows of which it is known."""
    return channel_id.is_valid()


def build(t: Tables) -> Stream:
    """A function and a filter."""
    rows = t.bid.select(
        "auction", "bidder", "price", "channel", channel_id=computed(channel_id, "channel", "url")
    )
    return rows.filter(computed(has_id, "channel_id"))


QUERY = Query(name="q21", sql=SQL, build=build, reads=("bid",), stateful=False)
