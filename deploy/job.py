"""The job that the files beside this one run: a count per user of clicks that are made up."""

import os

import pyarrow as pa

import rechannel as rc
from rechannel import aggregates as agg

PLACE = os.environ.get("ORDERS_PLACE", "/state")


def clicks(start: int, stop: int) -> pa.RecordBatch:
    """Make the rows at these offsets: always the same ones, so that a replay reads them again."""
    return pa.record_batch({"user": [f"user-{n * 7919 % 1000}" for n in range(start, stop)]})


spark = rc.session(name="orders")
rows = rc.read(spark).generator(
    clicks, schema="user string", per_timestep=10_000, rows_per_second=5_000, name="clicks"
)
users = rows.key_by("user").aggregate(n=agg.count(), name="users")
job = rc.Job(
    "orders",
    users.write.parquet(f"{PLACE}/out/users"),
    state=f"{PLACE}/orders",
    settings=rc.Settings(interval_ms=1_000, cache=os.environ.get("ORDERS_CACHE")),
)
