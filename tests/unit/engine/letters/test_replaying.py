"""Dead letters that are tried once more: exactly once, after the function was mended, whatever crashes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec import structs

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.journal.reading import read_only
from rechannel.engine.letters.choosing import Asked
from rechannel.engine.letters.kept import keeper_of
from rechannel.engine.letters.replaying import Letters
from rechannel.engine.program.unread import end_logs
from rechannel.engine.reconfigure.cluster_preparer import ClusterPreparer
from rechannel.errors import (
    DataflowError,
    NotReadyError,
    OtherDataflowError,
    RefusedError,
    TooManyBadRowsError,
    UnknownOperatorError,
)
from rechannel.sources.replayed.log import ReplayLog
from rechannel.sources.replayed.reader import ReplayedReader
from rechannel.testing import Crash, FaultKind, script

ROWS = "topic STRING, partition INT, offset BIGINT, value STRING"
PRICED = "shop STRING, price DOUBLE"


def parsed(row: Any) -> Any:
    order = json.loads(row.value)
    return order["shop"], float(order["price"])


def mended(row: Any) -> Any:
    order = json.loads(row.value)
    return order["shop"], float(order.get("price", 0))


def record(n: int, value: str) -> dict[str, Any]:
    return {"topic": "orders", "partition": 0, "offset": n, "value": value}


class Shop:
    """A job whose dead letters go to files. on_error: of the operator."""

    def __init__(self, place: Path, on_error: Any = "dead_letter") -> None:
        self.place, self.on_error = place, on_error
        self.orders = script(ROWS)
        self.number = count()

    def job(self, function: Any = parsed, *, replays: bool = True) -> rc.Job:
        rows = rc.read().memory(self.orders, name="orders")
        rows = rows.with_replays("parse") if replays else rows
        priced = rows.map(function, PRICED, name="parse", on_error=self.on_error)
        shops = priced.key_by("shop").aggregate(n=agg.count(), sum=agg.sum("price"), name="shops")
        good = shops.write.memory("good", name="good")
        bad = rc.dead_letters(good).write.parquet(self.place / "bad", name="bad")
        return rc.Job("shop", [good, bad], state=self.place / "state")

    def run(self, job: rc.Job, *values: str, **said: Any) -> dict[str, tuple[int, float]]:
        """Run a job over values and to its end; return its state."""
        if values:
            self.orders.push([record(next(self.number), value) for value in values])
        running = job.start(in_process=rc.InProcess(), **said)
        try:
            running.process_all_available()
            rows = running.state("shops").to_pylist()
        finally:
            running.stop()
        return {row["shop"]: (row["n"], row["sum"]) for row in rows}

    def letters(self) -> list[dict[str, Any]]:
        files = sorted((self.place / "bad").glob("timestep=*/*.parquet"))
        return [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]


GOOD, LACKS, NONE = '{"shop": "a", "price": 3}', '{"shop": "b"}', "price: 7"


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_a_mended_function_tries_the_rows_again_and_what_fails_again_counts_its_attempts(shop):
    assert shop.run(shop.job(), GOOD, LACKS, NONE) == {"a": (1, 3.0)}
    again = shop.job(mended)
    shop.run(again)
    planned = again.replay_dead_letters(plan=True)
    assert (planned.rows, planned.done) == (2, False)
    assert again.replay_dead_letters().rows == 2
    assert shop.run(again) == {"a": (1, 3.0), "b": (1, 0.0)}
    assert [one["at_timestep"] for one in shop.letters()] == [1, 1, 2]
    last = shop.letters()[-1]
    assert (last["source"], json.loads(last["row"])["value"]) == ("parse_replays", NONE)
    assert json.loads(last["offset"]) == {
        "topic": "orders",
        "partition": 0,
        "offset": 2,
        "attempts": 2,
    }

    assert again.replay_dead_letters().rows == 1
    shop.run(again)
    assert json.loads(shop.letters()[-1]["offset"])["attempts"] == 3


def test_a_second_call_takes_only_what_none_has_taken(shop):
    shop.run(shop.job(), LACKS)
    job = shop.job(mended)
    shop.run(job)
    assert job.replay_dead_letters().rows == 1
    (second,) = job.replay_dead_letters().operators
    assert (second.rows, second.before) == (0, 1)
    assert shop.run(job, LACKS, NONE) == {"b": (2, 0.0)}
    (third,) = job.replay_dead_letters().operators
    assert (third.rows, third.before) == (1, 1)


def test_rows_that_are_equal_count_as_often_as_they_are(shop):
    shop.orders.push([record(7, LACKS)] * 3)
    shop.run(shop.job())
    shop.run(shop.job(mended))
    assert shop.job(mended).replay_dead_letters().rows == 3
    assert shop.run(shop.job(mended)) == {"b": (3, 0.0)}
    assert shop.job(mended).replay_dead_letters().rows == 0


def test_a_running_job_takes_them_after_a_deploy(shop):
    shop.orders.push([record(0, LACKS)])
    running = shop.job(replays=False).start(in_process=rc.InProcess())
    running.process_all_available()
    with pytest.raises(RefusedError, match=r"put \.with_replays\('parse'\) directly before it"):
        running.replay_dead_letters("parse")
    running.deploy(shop.job(mended)).wait()
    running.process_all_available()
    assert running.replay_dead_letters("parse", cause="mended").rows == 1
    running.process_all_available()
    assert running.state("shops").to_pylist() == [{"shop": "b", "n": 1, "sum": 0.0}]
    assert not running.replay_dead_letters().rows
    running.stop()


def test_what_is_asked_for_by_error_and_timestep(shop):
    shop.run(shop.job(), LACKS, NONE)
    shop.run(shop.job(), LACKS)
    job = shop.job(mended)
    shop.run(job)

    def planned(**asked: Any) -> dict[str, int]:
        (one,) = job.replay_dead_letters("parse", plan=True, **asked).operators
        return dict(one.errors)

    missing = "KeyError: 'price'"
    assert planned(error="KeyError") == {missing: 2}
    assert planned(since=2) == {missing: 1}
    assert planned(until=1, error="JSONDecode").keys() == {
        "JSONDecodeError: Expecting value: line 1 column 1 (char 0)"
    }
    assert planned(since=3) == {}
    with pytest.raises(RefusedError, match="give the first one before the last"):
        planned(since=2, until=1)


class Faulty:
    """A store of which one creation fails: before it, or after it."""

    def __init__(self, store: Any, kind: FaultKind) -> None:
        self.store, self.kind = store, kind

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def create(self, key: str, data: bytes) -> bool:
        if self.kind is FaultKind.BEFORE:
            raise Crash
        self.store.create(key, data)
        raise Crash


@pytest.mark.parametrize("kind", [FaultKind.BEFORE, FaultKind.AFTER])
def test_a_call_that_dies_at_its_write_is_made_again(shop, kind):
    shop.run(shop.job(), LACKS)
    job = shop.job(mended)
    shop.run(job)
    state = read_only(job._store)
    letters = Letters(dataflow=job.dataflow, store=Faulty(job._store, kind), state=state)
    with pytest.raises(Crash):
        letters.replay(Asked(), 0)
    job.replay_dead_letters()
    assert shop.run(job) == {"b": (1, 0.0)}


def test_two_calls_at_a_time_take_each_row_once(shop, monkeypatch):
    shop.run(shop.job(), LACKS)
    job, other = shop.job(mended), shop.job(mended)
    shop.run(job)
    create, asked = ReplayLog.create, [True]

    def slower(log: Any, *given: Any) -> bool:
        if asked.pop() if asked else False:
            assert other.replay_dead_letters().rows == 1
        return create(log, *given)

    monkeypatch.setattr(ReplayLog, "create", slower)
    (one,) = job.replay_dead_letters().operators
    assert (one.rows, one.before) == (0, 1)
    assert shop.run(job) == {"b": (1, 0.0)}


def test_bounds_on_bad_rows_hold_for_them(tmp_path):
    shop = Shop(tmp_path, rc.at_most(rows=1))
    for _ in range(2):
        shop.run(shop.job(), NONE)
    job = shop.job()
    job.replay_dead_letters()
    with pytest.raises(TooManyBadRowsError):
        shop.run(job)
    fixed = shop.job(lambda row: ("c", 1.0))
    assert shop.run(fixed, replan=True) == {"c": (2, 2.0)}


def test_a_program_that_is_not_the_one_of_the_state_directory_is_refused(shop):
    shop.run(shop.job(), LACKS)

    def other(row: Any) -> Any:
        return row.value, 1.0

    rows = rc.read().memory(shop.orders, name="orders")
    op = rows.with_replays("parse", name="another").map(
        other, PRICED, name="parse", on_error="dead_letter"
    )
    good = op.write.memory("good", name="good")
    bad = rc.dead_letters(good).write.parquet(shop.place / "bad", name="bad")
    with pytest.raises(RefusedError, match="start or deploy this program first"):
        rc.Job("shop", [good, bad], state=shop.place / "state").replay_dead_letters()


def test_an_operator_that_is_gone_and_a_job_that_has_not_run(shop):
    with pytest.raises(NotReadyError, match="no timestep is committed yet"):
        shop.job().replay_dead_letters()
    shop.run(shop.job(), LACKS)
    with pytest.raises(UnknownOperatorError, match=r"no operator 'pars'.*parse"):
        shop.job().replay_dead_letters("pars")


def flows(place: Path, rows: Any, sink: Any, **said: Any) -> list[Any]:
    made = rows.map(parsed, PRICED, name="parse", on_error="dead_letter")
    good = made.write.memory("good", name="good")
    return [good, sink(rc.dead_letters(good).write)]


def test_dead_letters_that_cannot_be_read_back_are_refused(shop):
    rows = rc.read().memory(shop.orders, name="orders").with_replays("parse")
    ends = flows(shop.place, rows, lambda write: write.memory("bad"))
    job = rc.Job("shop", ends, state=shop.place / "state")
    running = job.start(in_process=rc.InProcess())
    shop.orders.push([record(0, LACKS)])
    running.process_all_available()
    with pytest.raises(RefusedError, match=r"go to memory bad, where they cannot be read back"):
        running.replay_dead_letters()
    running.stop()


@pytest.mark.parametrize("sink", ["dataset", "json"])
def test_they_are_read_from_datasets_and_json_too(shop, sink):
    rows = rc.read().memory(shop.orders, name="orders").with_replays("parse")
    ends = flows(shop.place, rows, lambda write: getattr(write, sink)(shop.place / "bad"))
    running = rc.Job("shop", ends, state=shop.place / "state").start(in_process=rc.InProcess())
    running.process_all_available()
    for n in range(3):
        shop.orders.push([record(n, NONE)])
        running.process_all_available()
    assert running.replay_dead_letters(since=3).rows == 2
    running.process_all_available()
    (one,) = running.replay_dead_letters(plan=True).operators
    assert (one.rows, one.before) == (3, 2)
    running.stop()


def test_a_source_that_has_not_begun_is_refused_and_one_that_comes_again_reads_nothing_twice(shop):
    shop.run(shop.job(replays=False), LACKS)
    job = shop.job(mended)
    running = job.start(in_process=rc.InProcess(), upgrade=True)
    running.process_all_available()
    assert running.replay_dead_letters().rows == 1
    running.process_all_available()
    running.stop()
    shop.run(shop.job(mended, replays=False), upgrade=True, without=["parse_replays"])
    assert shop.run(job, upgrade=True) == {"b": (1, 0.0)}
    assert not job.replay_dead_letters().rows

    state = structs.replace(read_only(job._store), offsets={})
    letters = Letters(dataflow=job.dataflow, store=job._store, state=state)
    with pytest.raises(NotReadyError, match="source 'parse_replays' has not begun"):
        letters.replay(Asked(), 0)


@pytest.mark.parametrize("upgrade", [False, True])
def test_taken_dead_letters_that_are_not_read_yet_are_lost_only_if_that_is_said(shop, upgrade):
    shop.run(shop.job(), LACKS, NONE)
    job = shop.job(mended)
    shop.run(job)
    assert job.replay_dead_letters().rows == 2
    without = shop.job(mended, replays=False)
    lost = r"2 dead letters that were taken for a replay, and not read yet, would be lost: start the program"
    with pytest.raises(OtherDataflowError, match=lost):
        shop.run(without, upgrade=upgrade)
    if upgrade:
        with pytest.raises(OtherDataflowError, match=lost):
            without.plan_upgrade(in_process=rc.InProcess())
    shop.run(without, upgrade=upgrade, without=["parse_replays"])
    assert shop.run(job, upgrade=upgrade, fresh=["parse_replays"]) == {}
    assert job.replay_dead_letters().rows == 2, "what was given up is not taken any more"
    shop.run(job)
    assert len(shop.letters()) == 3, "one failed again"


def test_their_source_cannot_be_reset_since_taken_ones_would_be_lost(shop):
    shop.run(shop.job(), LACKS)
    job = shop.job(mended)
    shop.run(job)
    assert job.replay_dead_letters().rows == 1
    refused = "replayed dead letters of 'parse' cannot be reset: .* replay them again"
    with pytest.raises(RefusedError, match=refused):
        job.reset("parse_replays", accept_repeats_and_gaps=True, in_process=rc.InProcess())
    assert shop.run(job) == {"b": (1, 0.0)}


def test_a_live_change_waits_until_taken_dead_letters_are_read(shop, monkeypatch):
    shop.run(shop.job(), LACKS)
    job = shop.job(mended)
    running = job.start(in_process=rc.InProcess())
    running.process_all_available()
    monkeypatch.setattr(ReplayedReader, "latest", lambda self, start, *_: start)
    assert running.replay_dead_letters().rows == 1
    later = shop.job(mended, replays=False)
    with pytest.raises(OtherDataflowError, match="would be lost: wait for its next timestep"):
        running.deploy(later)
    monkeypatch.undo()
    running.process_all_available()
    running.stop()


def test_dead_letters_taken_when_their_source_is_about_to_go_keep_it(shop):
    shop.run(shop.job(), LACKS)
    job = shop.job(mended)
    shop.run(job)
    state = read_only(job._store)
    assert job.replay_dead_letters().rows == 1
    for _ in range(2):
        with pytest.raises(OtherDataflowError, match="would be lost: wait for its next timestep"):
            end_logs(job._store, state, ["orders"], live=True)
    assert [file.num_rows for file in ReplayLog(job._store, "parse_replays").files()] == [1, 0]
    assert shop.run(job) == {"b": (1, 0.0)}
    shop.run(shop.job(), LACKS, LACKS)
    shop.run(job)
    assert job.replay_dead_letters().rows == 2, "the source stayed, and its log goes on"
    assert shop.run(job) == {"b": (3, 0.0)}


def test_no_dead_letter_is_taken_once_its_source_is_about_to_go(shop):
    shop.run(shop.job(), LACKS)
    job = shop.job(mended)
    shop.run(job)
    state, store = read_only(job._store), job._store
    running = job.start(in_process=rc.InProcess())
    running.deploy(shop.job(mended, replays=False), without=["parse_replays"]).wait()
    running.stop()
    with pytest.raises(NotReadyError, match="removes source 'parse_replays', or was about to"):
        Letters(dataflow=job.dataflow, store=store, state=state).replay(Asked(), 0)
    shop.run(job, revert=True, fresh=["parse_replays"])
    assert job.replay_dead_letters().rows == 1
    assert shop.run(job) == {"b": (1, 0.0)}


def test_dead_letters_taken_at_the_last_moment_and_given_up_are_not_taken(shop, monkeypatch):
    shop.run(shop.job(), LACKS)
    job = shop.job(mended)
    running = job.start(in_process=rc.InProcess())
    running.process_all_available()
    taken: list[int] = []
    check = ClusterPreparer.check_at_boundary

    def late(self: Any, *given: Any) -> str | None:
        taken.append(job.replay_dead_letters().rows)
        return check(self, *given)

    monkeypatch.setattr(ClusterPreparer, "check_at_boundary", late)
    running.deploy(shop.job(mended, replays=False), without=["parse_replays"]).wait()
    running.stop()
    monkeypatch.undo()
    assert taken == [1]
    assert shop.run(job, revert=True, fresh=["parse_replays"]) == {}
    assert job.replay_dead_letters().rows == 1
    assert shop.run(job) == {"b": (1, 0.0)}


def test_the_log_of_a_source_stays_with_its_name(shop):
    shop.run(shop.job(), LACKS)
    shop.run(shop.job(mended))
    rows = rc.read().memory(shop.orders, name="orders").with_replays("parse", name="again")
    priced = rows.map(mended, PRICED, name="parse", on_error="dead_letter")
    shops = priced.key_by("shop").aggregate(n=agg.count(), sum=agg.sum("price"), name="shops")
    good = shops.write.memory("good", name="good")
    bad = rc.dead_letters(good).write.parquet(shop.place / "bad", name="bad")
    named = {"parse_replays": "again"}
    job = rc.Job("shop", [good, bad], state=shop.place / "state", renamed=named)
    with pytest.raises(OtherDataflowError, match=r"its log stays with its name: take it out of"):
        shop.run(job, upgrade=True)


def test_dead_letters_that_an_other_program_cannot_read_are_not_taken_any_more(shop):
    def job(kind: str) -> rc.Job:
        def checked(row: Any) -> Any:
            return json.loads(row.value)["shop"], 1.0

        given = rc.read().memory(shop.orders, name="orders")
        named = given.map(
            lambda row: (row.offset if kind == "BIGINT" else str(row.offset), row.value),
            f"offset {kind}, value STRING",
            name="named",
        ).with_replays("parse")
        priced = named.map(checked, PRICED, name="parse", on_error="dead_letter")
        good = priced.write.memory("good", name="good")
        bad = rc.dead_letters(good).write.parquet(shop.place / "bad", name="bad")
        return rc.Job("shop", [good, bad], state=shop.place / "state")

    def run(made: rc.Job, *values: str) -> None:
        shop.orders.push([record(n, value) for n, value in enumerate(values)])
        running = made.start(in_process=rc.InProcess())
        running.process_all_available()
        running.stop()

    run(job("BIGINT"), "{}", "{}")
    assert job("BIGINT").replay_dead_letters().rows == 2
    run(job("STRING"), '{"shop": "a"}')
    (one,) = job("STRING").replay_dead_letters(plan=True).operators
    assert (one.rows, one.before) == (0, 0)
    assert list(one.refused.values()) == [2]
    run(job("BIGINT"))
    assert job("BIGINT").replay_dead_letters().rows == 2


def test_replayed_rows_may_go_only_to_their_operator(shop):
    rows = rc.read().memory(shop.orders, name="orders").with_replays("parse")
    ends = flows(shop.place, rows, lambda write: write.memory("bad"))
    with pytest.raises(DataflowError, match=r"its rows would go to .*raw.*, which has had them"):
        rc.Job("shop", [*ends, rows.write.memory("raw", name="raw")], state=shop.place / "s")
    between = rows.filter(lambda row: True, name="some")
    ends = flows(shop.place, between, lambda write: write.memory("bad"))
    with pytest.raises(DataflowError, match=r"its rows would go to .*some.*, which has had them"):
        rc.Job("shop", ends, state=shop.place / "s")
    misspelt = rc.read().memory(shop.orders, name="orders").with_replays("pars")
    ends = flows(shop.place, misspelt, lambda write: write.memory("bad"))
    with pytest.raises(UnknownOperatorError, match="the dataflow has no operator 'pars'"):
        rc.Job("shop", ends, state=shop.place / "s")


def test_the_other_rows_of_a_batch_run_are_what_they_are_without(shop):
    shop.orders.push([record(0, GOOD), record(1, LACKS)])
    rows = rc.read().memory(shop.orders, name="orders").with_replays("parse")
    ends = flows(shop.place, rows, lambda write: write.memory("bad", name="bad"))
    with rc.run_batch(ends, in_process=rc.InProcess()) as result:
        assert result.output("good").to_pylist() == [{"shop": "a", "price": 3.0}]
        assert result.output("bad").num_rows == 1


def summed(key: str, state: Any, rows: Any) -> Any:
    if "bad" in rows["v"]:
        raise ValueError("bad")
    return (state or 0) + len(rows["v"])


def lenient(key: str, state: Any, rows: Any) -> Any:
    return (state or 0) + sum(value != "worse" for value in rows["v"])


def test_rows_of_an_operator_with_state_count_their_attempts_in_the_log(tmp_path):
    source = script("k STRING, v STRING")

    def job(function: Any) -> rc.Job:
        rows = rc.read().memory(source, name="in").with_replays("op")
        op = rows.key_by("k").track(function, state="n BIGINT", name="op", on_error="dead_letter")
        good = op.write.memory("good", name="good")
        bad = rc.dead_letters(good).write.parquet(tmp_path / "bad", name="bad")
        return rc.Job("tracked", [good, bad], state=tmp_path / "state")

    running = job(summed).start(in_process=rc.InProcess())
    source.push([{"k": "a", "v": "bad"}, {"k": "b", "v": "fine"}])
    for attempts in (1, 2):
        running.process_all_available()
        assert running.replay_dead_letters().rows == 1
        taken = ReplayLog(running._parts.opener.store, "op_replays").read(attempts)
        assert taken.column("attempts").to_pylist() == [attempts]
    running.process_all_available()
    running.deploy(job(lenient)).wait()
    running.replay_dead_letters()
    running.process_all_available()
    found = {row["k"]: row["n"] for row in running.state("op").to_pylist()}
    assert found == {"a": 1, "b": 1}
    running.stop()


def test_records_that_were_cut_are_refused(shop):
    rows = rc.read().memory(shop.orders, name="orders").with_replays("read")
    made = rows.decode(
        rc.formats.json("shop STRING, price DOUBLE"), name="read", on_error="dead_letter"
    )
    good = made.write.memory("good", name="good")
    bad = rc.dead_letters(good).write.parquet(shop.place / "bad", name="bad")
    job = rc.Job("shop", [good, bad], state=shop.place / "state")
    shop.orders.push([record(0, "x" * 70_000), record(1, "price: 7")])
    running = job.start(in_process=rc.InProcess())
    running.process_all_available()
    (one,) = running.replay_dead_letters().operators
    assert (one.rows, one.refused) == (1, {"only the beginning of the record was kept": 1})
    running.process_all_available()
    assert json.loads(shop.letters()[-1]["offset"])["attempts"] == 2
    running.stop()


def stamped(row: Any) -> Any:
    minute = int(row.value)
    return datetime(2026, 1, 1, 0, minute, tzinfo=UTC)


def test_replayed_rows_hold_no_watermark_back(shop):
    rows = rc.read().memory(shop.orders, name="orders").with_replays("at")
    at = rows.map(stamped, "t TIMESTAMP", name="at", on_error="dead_letter").event_time("t")
    counts = at.window(rc.windows.tumbling("1 minute")).aggregate(n=agg.count(), name="counts")
    good = counts.write.memory("good", name="good")
    bad = rc.dead_letters(good).write.parquet(shop.place / "bad", name="bad")
    running = rc.Job("shop", [good, bad], state=shop.place / "state").start(
        in_process=rc.InProcess()
    )
    for n, value in enumerate(("1", "1", "one", "2", "3")):
        shop.orders.push([record(n, value)])
    running.process_all_available()
    assert [row["n"] for row in running.memory("good").to_pylist()] == [2, 1]
    running.stop()


def test_a_fork_at_a_savepoint_has_no_replays_of_after_it(shop, tmp_path):
    shop.run(shop.job(), LACKS)
    again = shop.job(mended)
    running = again.start(in_process=rc.InProcess())
    running.process_all_available()
    running.savepoint("before", cause="a test")
    running.stop()
    assert again.replay_dead_letters().rows == 1
    pending, before = tmp_path / "pending", tmp_path / "before"
    again.fork(pending)
    again.fork(before, at="before")
    files = {place: len(list(place.rglob("replays/*"))) for place in (pending, before)}
    assert files == {pending: 1, before: 0}


def test_an_operator_that_is_named_twice_is_replayed_once(shop):
    shop.run(shop.job(), LACKS)
    job = shop.job(mended)
    shop.run(job)
    assert job.replay_dead_letters("parse", "parse").rows == 1


def test_compressed_json_is_not_read_back(shop):
    rows = rc.read().memory(shop.orders, name="orders").with_replays("parse")
    ends = flows(shop.place, rows, lambda write: write.json(shop.place / "bad", compression="gzip"))
    with pytest.raises(RefusedError, match=r"uncompressed JSON"):
        keeper_of(rc.Job("shop", ends, state=shop.place / "state").dataflow, "parse")
