"""What an operator knows stays with it when a source is renamed, also if its own name begins with the source's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import TooManyBadRowsError
from rechannel.testing import Harness, MemoryStore, script


def inverse(row):
    return 1 // row.v >= 0


def test_counts_of_a_bound_on_bad_rows():
    numbers, store = script("v BIGINT", [[{"v": 0}, {"v": 0}, {"v": 1}]]), MemoryStore()

    def bench(source):
        rows = rc.read().memory(numbers, name=source)
        bound = rc.at_most(rows=2, timesteps=100)
        good = rows.filter(inverse, name="orders.parse", on_error=bound)
        bad = rc.dead_letters(good.write.memory("good", name="good")).write.memory(
            "bad", name="bad"
        )
        return Harness([bad, good.write.memory("out", name="out")], store=store)

    before = bench("orders")
    before.start().run()
    before.process.stop()
    numbers.push([{"v": 0}])
    after = bench("sales")
    process = after.start(upgrade=True, renamed={"orders": "sales"})
    assert list(after.journal_state().bad_rows) == ["orders.parse"]
    with pytest.raises(TooManyBadRowsError, match="3 of 4 rows"):
        process.run()


@pytest.mark.parametrize("name", ["orders.time", None])
def test_the_event_time_that_was_seen(name):
    began = datetime(2026, 1, 1, tzinfo=UTC)
    times, store = script("k STRING, t TIMESTAMP"), MemoryStore()

    def bench(source):
        rows = rc.read().memory(times, name=source).event_time("t", name=name)
        windows = rows.key_by("k").window(rc.windows.tumbling("10 seconds"))
        counted = windows.aggregate(n=agg.count(), name="windows")
        return Harness(counted.write.memory("out", name="out"), store=store)

    before = bench("orders")
    process = before.start()
    for seconds in (100, 101):
        times.push([{"k": "a", "t": began + timedelta(seconds=seconds)}])
        process.run()
    (known,) = before.journal_state().latest.times["windows"].marks.items()
    process.stop()
    after = bench("sales")
    after.start(upgrade=True, renamed={"orders": "sales"})
    now = {name or known[0].replace("orders", "sales", 1): known[1]}
    assert dict(after.journal_state().latest.times["windows"].marks) == now
