"""A job whose rows and totals go to tables while its drivers are killed."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.journal.reading import read_only
from rechannel.engine.journal.state import JournalState
from rechannel.state.store import Store
from tests.spark.programs import until

USERS = 1_000


def numbers(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return a key and a value for each number."""
    number = rows.column("value").to_numpy()
    return pa.record_batch({"user": number * 7919 % USERS, "n": number})


def rate(first: int, last: int) -> pa.RecordBatch:
    """Return numbers."""
    return pa.record_batch({"value": pa.array(range(first, last), pa.int64())})


def flows(total: int, totals: Callable[[Any], Any], copies: Callable[[Any], Any]) -> list[Any]:
    """Numbers of users, by themselves and summed. totals, copies: end a stream in a sink."""
    events = rc.read().generator(rate, schema="value bigint", rows=total, per_timestep=1_000)
    events = events.map_batches(numbers, schema="user bigint, n bigint", name="events")
    summed = events.key_by("user").aggregate(count=agg.count(), sum=agg.sum("n"), name="totals")
    copied = events.select("user", "n", name="copies")
    again: Any = {"then": "stop", "attempts": 60, "pause_ms": 200}
    return [totals(summed.write.on_failure(**again)), copies(copied.write.on_failure(**again))]


def expected(total: int) -> dict[int, tuple[int, int]]:
    """Return count and sum per user."""
    found = {user: [0, 0] for user in range(USERS)}
    for number in range(total):
        of = found[number * 7919 % USERS]
        of[0] += 1
        of[1] += number
    return {user: (count, total) for user, (count, total) in found.items()}


def kill_drivers(
    child: Any,
    drive: Callable[..., int],
    given: Mapping[str, Any],
    store: Store,
    *,
    kills: int,
    between: Callable[[int, random.Random], None] = lambda _number, _choose: None,
) -> int:
    """Kill a driver some time after it committed, again and again; then let one come to the end, and return its result.

    store: of the job's state. between: called before each kill, with its number.
    """
    choose, interrupted = random.Random(kills), 0
    for number in range(kills):
        before = read_only(store)
        driver = child(drive, **given)

        def committed(before: JournalState = before, driver: Any = driver) -> bool:
            assert driver.running, driver.errors()
            known = read_only(store)
            return known.epoch > before.epoch and known.last_committed != before.last_committed

        until(committed, "a driver commits")
        time.sleep(choose.uniform(0, 1.0))
        between(number, choose)
        assert driver.running, driver.errors()
        assert driver.kill() == -signal.SIGKILL
        after = read_only(store)
        assert not after.closed, "the driver had ended of its own will"
        interrupted += bool(after.open_intents or after.unpublished)
    assert after.epoch == kills
    assert interrupted, "every kill happened to hit between two timesteps"
    return int(child(drive, **given).result())
