"""SQL over the state of a running job."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.journal.state import JournalState, Version
from rechannel.engine.loop.housekeeping import sweep
from rechannel.engine.view import state_view
from rechannel.engine.view.pinned import Pinned
from rechannel.engine.view.sql import answer, named
from rechannel.errors import NotReadyError, RefusedError, UnknownOperatorError
from rechannel.job import InProcess
from rechannel.model.hashspace import Intervals
from rechannel.state.keys import segment_key
from rechannel.state.manifest import Manifest
from rechannel.state.run import Run
from rechannel.state.stores.memory import MemoryStore
from rechannel.testing import script

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SETTINGS = rc.Settings(durability=rc.Durability.PROCESS, tasks=2, bins=16, keep_versions=1)


def events(start, stop):
    numbers = range(start, stop)
    return pa.record_batch(
        {"user": [f"u{n % 50}" for n in numbers], "item": [n * 7 % 13 for n in numbers]}
    )


@pytest.fixture
def endless(tmp_path):
    """A job whose input never ends: two operators that count the same rows by something else."""
    rows = rc.read().generator(
        events, schema="user STRING, item BIGINT", per_timestep=20, name="events"
    )
    users = rows.key_by("user").aggregate(n=agg.count(), name="users")
    items = rows.key_by("item").aggregate(n=agg.count(), name="by.item-1")
    job = rc.Job("endless", [users, items], state=tmp_path / "state", settings=SETTINGS)
    running = job.start(in_process=InProcess())
    yield running
    running.stop()


def test_all_tables_are_of_one_timestep_while_the_stream_is_changed(endless):
    seen, failures, over = set(), [], threading.Event()
    both = (
        "SELECT 'users' AS side, sum(n) AS n FROM users"
        " UNION ALL SELECT 'items', sum(n) FROM `by.item-1`"
    )

    def ask():
        try:
            while not over.is_set():
                found = {r["side"]: r["n"] for r in endless.sql(both).to_pylist()}
                assert found["users"] == found["items"]
                seen.add(found["users"])
        except BaseException as error:
            failures.append(error)

    asking = [threading.Thread(target=ask) for _ in range(2)]
    for thread in asking:
        thread.start()
    try:
        for tasks in (4, 1, 3):
            change = [
                rc.changes.rescale("users", tasks),
                rc.changes.rescale("by.item-1", 5 - tasks),
            ]
            endless.reconfigure(change, rc.strategies.fluid(2)).wait(60)
    finally:
        over.set()
        for thread in asking:
            thread.join(60)
    assert failures == []
    assert len(seen) > 3


def run(segment):
    return Run(segment=segment, clip=Intervals.everything(), seq=0, level=0, rows=1, size=1, span=1)


def committed(last):
    """A journal that keeps one version, of one file."""
    key = segment_key(operator="op", timestep=last, task=0, attempt="a")
    version = Version(manifests={"op": Manifest((run(key),))})
    return JournalState(last_committed=last, versions={last: version}), key


def test_what_is_held_is_not_swept():
    (before, first), (now, second) = committed(1), committed(2)
    store, held = MemoryStore(), Pinned()
    for key in (first, second):
        store.put(key, b"x")

    def swept():
        return sweep(store, lambda: now, lambda: None, held=held.files)

    with held.hold(lambda: before), held.hold(lambda: before, 1):
        assert swept() == 0
    assert held.files() == frozenset()
    assert swept() == 1
    assert set(store.list("")) == {second}


def test_a_version_that_is_given_up_meanwhile_is_not_held():
    (before, _), (now, second) = committed(1), committed(2)
    states = iter([before, now, now, now])
    held = Pinned()
    assert held.hold(lambda: next(states)).state is now
    assert held.files() == {second}
    states = iter([before, now, now])
    with pytest.raises(NotReadyError, match="timestep 1 is not kept"):
        held.hold(lambda: next(states), 1)
    assert held.files() == {second}


def test_before_the_first_commit_tables_are_empty(tmp_path):
    rows = rc.read().memory(script("k STRING"), name="rows")
    counts = rows.key_by("k").aggregate(n=agg.count(), name="counts")
    running = rc.Job("new", counts, state=tmp_path / "state").start(in_process=InProcess())
    assert running.sql("SELECT k, n FROM counts").num_rows == 0
    running.stop()


@pytest.fixture
def shop(tmp_path):
    """A job with an operator of every family."""
    bids = script("auction BIGINT, price BIGINT, at TIMESTAMP")
    asks = script("auction BIGINT, item STRING, seen TIMESTAMP")
    bid = rc.read().memory(bids, name="bids").event_time("at", name="bid-times")
    ask = rc.read().memory(asks, name="asks").event_time("seen", name="ask-times")
    keyed = bid.key_by("auction")
    ends = [
        keyed.aggregate(n=agg.count(), mean=agg.mean("price"), name="totals"),
        keyed.window(rc.windows.tumbling("10 seconds")).aggregate(n=agg.count(), name="windows"),
        keyed.window(rc.windows.sessions("5 seconds")).aggregate(n=agg.count(), name="visits"),
        keyed.top(2, by="price", name="best"),
        bid.deduplicate("price", name="once"),
        bid.join(ask, "auction", name="joined"),
        keyed.track(lambda key, state, rows: len(rows), state="m BIGINT", name="tracked"),
    ]
    running = rc.Job("shop", ends, state=tmp_path / "state", settings=SETTINGS).start(
        in_process=InProcess()
    )
    times = [EPOCH + timedelta(seconds=second) for second in (1, 2, 8, 14)]
    bids.push([{"auction": i % 2, "price": i * 10, "at": at} for i, at in enumerate(times)])
    asks.push([{"auction": 1, "item": "lamp", "seen": EPOCH}])
    running.process_all_available(60)
    yield running
    running.stop()


def typed(table):
    return [(field.name, field.type) for field in table.schema]


@pytest.mark.parametrize(
    "name", ["totals", "windows", "visits", "best", "once", "joined", "tracked"]
)
def test_every_operator_is_a_table_as_its_state_is_shown(shop, name):
    shown = shop.state(name)
    found = shop.sql(f"SELECT * FROM {name}")
    assert typed(found) == typed(shown)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, shown.to_pylist()))
    assert found.num_rows > 0


def test_tables_meet_in_one_query(shop):
    found = shop.sql(
        "SELECT t.auction, t.n, b.price FROM totals t JOIN best b ON t.auction = b.auction"
        " WHERE b.rank = 1 ORDER BY t.auction"
    )
    assert found.to_pylist() == [
        {"auction": 0, "n": 2, "price": 20},
        {"auction": 1, "n": 2, "price": 30},
    ]
    assert typed(shop.sql("SELECT count(*) AS many FROM once")) == [("many", pa.int64())]


def test_only_tables_that_are_named_are_read(shop, monkeypatch):
    read = []
    real = state_view.finished

    def finished(program, task, clock):
        read.append(program.operator)
        return real(program, task, clock)

    monkeypatch.setattr(state_view, "finished", finished)
    shop.sql("SELECT 'window' AS best_of, n FROM totals")
    assert read == ["totals"]


def test_a_stopped_job_and_a_batch_answer_too(shop):
    shop.stop()
    assert shop.sql("SELECT sum(n) AS n FROM totals").to_pylist() == [{"n": 4}]
    source = rc.read().memory(script("k BIGINT"), name="rows")
    flow = source.key_by("k").aggregate(n=agg.count(), name="counts").write.memory("out")
    rows = pa.table({"k": [1, 1, 2]})
    with rc.run_batch(flow, inputs={"rows": rows}, in_process=InProcess()) as result:
        found = result.sql("SELECT k FROM counts WHERE n > 1")
    assert found.to_pylist() == [{"k": 1}]


def test_names_are_found_as_whole_words():
    operators = ["counts", "by.item-1", "item", "1"]
    assert named("SELECT counts_2 FROM `by.item-1`", operators) == ["by.item-1", "item", "1"]
    assert named("-- don't count\n(SELECT 'a\\'s' FROM COUNTS)", operators) == ["counts"]
    assert named('SELECT * FROM "counts"', operators) == ["counts"]


def test_all_tables_are_shown(shop):
    shown = shop.sql("SHOW TABLES").column(0).to_pylist()
    assert {"best", "joined", "once", "totals", "tracked", "visits", "windows"} <= set(shown)


@pytest.mark.parametrize(
    ("query", "error", "words"),
    [
        ("SELECT * FROM nothing", UnknownOperatorError, "no table nothing; .* `totals`, `windows`"),
        ("SELECT price FROM totals", RefusedError, "price"),
        ("SELECT (", RefusedError, "cannot be answered: .*The tables are `totals`"),
        ("DROP TABLE totals", RefusedError, "state is read-only: a query must begin with SELECT"),
        ("/* a */ -- b\n insert into totals", RefusedError, "not '/"),
        ("SELECT * FROM READ_CSV ('/etc/passwd')", RefusedError, "and no files: READ_CSV"),
        ("WITH a AS (SELECT * FROM scan_parquet('x')) SELECT * FROM a", RefusedError, "no files"),
        ("  ", RefusedError, "a query must be a string"),
        (7, RefusedError, "a query must be a string"),
    ],
)
def test_what_cannot_be_answered_is_told(shop, query, error, words):
    with pytest.raises(error, match=words):
        shop.sql(query)


def test_a_timestep_that_is_gone_is_told(shop):
    with pytest.raises(NotReadyError, match="timestep 99 is not kept"):
        shop.sql("SELECT * FROM totals", timestep=99)


def test_values_of_every_kind_come_back_as_they_are():
    table = pa.table(
        {
            "s": pa.array(["a", None]),
            "u": pa.array([2**64 - 1, None], pa.uint64()),
            "b": pa.array([b"x", None]),
            "l": pa.array([[1], None], pa.list_(pa.int64())),
            "d": pa.array([None, None], pa.decimal128(9, 2)),
            "t": pa.array([0, None], pa.timestamp("us", "UTC")),
            "r": pa.array([{"x": "y"}, None], pa.struct([("x", pa.string())])),
        }
    )
    found = answer("SELECT * FROM t", {"t": table}, ["t"])
    assert typed(found) == typed(table)
    assert found.to_pylist() == table.to_pylist()


def test_a_type_that_polars_does_not_have_is_told():
    table = pa.table({"d": pa.array([None], pa.decimal256(60, 2))})
    with pytest.raises(RefusedError, match="cannot be answered: polars does not support a type"):
        answer("SELECT * FROM t", {"t": table}, ["t"])
