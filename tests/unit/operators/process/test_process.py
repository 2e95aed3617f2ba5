"""`process`: rows of any columns, states, timers and side outputs, through the engine, as a stream and as a batch."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.errors import DataflowError, RefusedError, UserFunctionError
from rechannel.job import InProcess
from rechannel.operators.process import process as module
from rechannel.testing import Harness, MemoryStore, script

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COLUMNS = "user STRING, v BIGINT, at TIMESTAMP"


def moment(ms):
    return EPOCH + timedelta(milliseconds=ms)


class Bench:
    """Rows (user, v, ms) through one `process`; `now` is the machine's time, ms."""

    def __init__(self, function, *, event=False, delay=0, tasks=2, more=(), **options):
        self.rows, self.now = script(COLUMNS), 1_000
        stream = rc.read().memory(self.rows, name="rows")
        if event or options.get("time_column"):
            stream = stream.event_time("at", delay)
        given = {"schema": "what STRING, v BIGINT", "name": "process"} | options
        self.made = stream.key_by("user").process(function, **given)
        flows = [self.made.write.memory("out", name="out")]
        flows += [
            read(self.made).write.memory(name, name=name) for name, read in dict(more).items()
        ]
        self.harness = Harness(
            flows, settings=rc.Settings(tasks=tasks, bins=4), clock=lambda: self.now
        )
        self.harness.start()

    def step(self, *rows, now=None):
        """What is emitted by one timestep with some rows, or by the passing of time without any."""
        self.now = self.now if now is None else now
        before = len(self.harness.outputs("out"))
        if rows:
            self.rows.push([{"user": u, "v": v, "at": moment(ms)} for u, v, ms in rows])
        self.harness.process.run()
        shown = self.harness.outputs("out")
        return [row for t in sorted(shown)[before:] for row in plain(shown[t])]

    def read(self, sink):
        return [row for table in self.harness.outputs(sink).values() for row in plain(table)]

    def state(self, name):
        """What a state holds, by user; of a list or a map in order."""
        found: dict[str, list[Any]] = {}
        for row in self.harness.state("process").to_pylist():
            if row["_state"] == name:
                value = row[name] if row["_entry"] is None else (row["_entry"], row[name])
                found.setdefault(row["user"], []).append(value)
        return found


def plain(table):
    return sorted(tuple(row.values()) for row in table.to_pylist())


# Rows and the value state -----------------------------------------------------------------------------------


def double(user, rows, context):
    n = context.value("n")
    for row in rows:
        n.set(n.get(0) + 1)
        yield "row", row.v
        if row.v > 5:
            yield {"v": n.get(), "what": "large"}
    if n.get() == 3:
        n.clear()


COUNT = {"n": rc.states.value_state("n BIGINT")}


def test_a_call_emits_any_number_of_rows_of_columns_of_their_own():
    bench = Bench(double, states=COUNT)

    assert bench.step(("ann", 1, 0), ("bob", 9, 0)) == [
        ("ann", "row", 1),
        ("bob", "large", 1),
        ("bob", "row", 9),
    ]
    assert bench.state("n") == {"ann": [{"n": 1}], "bob": [{"n": 1}]}
    assert bench.step(("ann", 7, 0), ("ann", 2, 0)) == [
        ("ann", "large", 2),
        ("ann", "row", 2),
        ("ann", "row", 7),
    ]
    assert bench.state("n") == {"bob": [{"n": 1}]}
    assert bench.made.schema == pa.schema(
        [("user", pa.string()), ("what", pa.string()), ("v", pa.int64())]
    )


def test_one_column_needs_no_tuples_and_a_function_may_emit_nothing():
    def keep(user, rows, context):
        context.value("last").set(rows["v"][-1])
        return None if user == "ann" else rows["v"]

    bench = Bench(keep, schema="v BIGINT", states={"last": rc.states.value_state("v BIGINT")})

    assert bench.step(("ann", 1, 0), ("bob", 2, 0), ("bob", 3, 0)) == [("bob", 2), ("bob", 3)]
    assert bench.state("last") == {"ann": [{"v": 1}], "bob": [{"v": 3}]}


def test_a_value_of_several_columns_is_a_named_tuple_also_when_it_was_just_set():
    seen = []

    def follow(user, rows, context):
        total = context.value("total")
        before = total.get((0, 0))
        total.set((before[0] + len(rows), sum(rows["v"])))
        seen.append((total.get().n, total.get().sum))

    bench = Bench(follow, states={"total": rc.states.value_state("n BIGINT, sum BIGINT")}, tasks=1)
    bench.step(("ann", 4, 0))
    bench.step(("ann", 6, 0), ("ann", 1, 0))

    assert seen == [(1, 4), (3, 7)]


def test_a_list_that_is_emitted_may_be_used_again():
    rows: list[Any] = []

    def twice(user, came, context):
        rows.clear()
        rows.extend([(user, value) for value in came["v"]])
        return rows

    assert Bench(twice, tasks=1).step(("ann", 1, 0), ("bob", 2, 0), ("bob", 3, 0)) == [
        ("ann", "ann", 1),
        ("bob", "bob", 2),
        ("bob", "bob", 3),
    ]


def test_values_that_are_set_left_and_cleared_in_one_timestep_are_told_apart():
    def follow(user, rows, context):
        n, total = context.value("n"), context.value("total")
        for v in rows["v"]:
            if v == 0:
                n.clear()
            elif v > 0:
                n.set((v, v))
                total.set((v, v))
        return [(user, v) for v in rows["v"]]

    pair = rc.states.value_state("a BIGINT, b BIGINT")
    bench = Bench(follow, states={"n": pair, "total": pair}, tasks=1)
    bench.step(("ann", 1, 0), ("bob", 2, 0), ("cid", 3, 0), ("dan", 0, 0), ("eve", 5, 0))
    bench.step(
        ("ann", 0, 0), ("bob", -1, 0), ("cid", 4, 0), ("dan", 6, 0), ("eve", 7, 0), ("eve", 0, 0)
    )

    assert bench.state("n") == {
        "bob": [{"a": 2, "b": 2}],
        "cid": [{"a": 4, "b": 4}],
        "dan": [{"a": 6, "b": 6}],
    }
    assert {user: value["a"] for user, (value,) in bench.state("total").items()} == {
        "ann": 1,
        "bob": 2,
        "cid": 4,
        "dan": 6,
        "eve": 7,
    }


@pytest.mark.parametrize("kept", ["a BIGINT, b BIGINT", "a DOUBLE, b STRING"])
def test_what_is_emitted_may_be_kept_as_well(kept):
    def both(user, rows, context):
        made = len(rows), None
        context.value("last").set(made)
        return [made]

    state = {"last": rc.states.value_state(kept)}
    bench = Bench(both, schema="n BIGINT, v BIGINT", states=state, tasks=1)
    assert bench.step(("ann", 1, 0), ("bob", 2, 0), ("bob", 3, 0)) == [
        ("ann", 1, None),
        ("bob", 2, None),
    ]
    assert bench.state("last") == {"ann": [{"a": 1, "b": None}], "bob": [{"a": 2, "b": None}]}


def test_a_dict_is_emitted_but_not_kept():
    def both(user, rows, context):
        made = {"what": user, "v": 1}
        context.value("last").set(made)
        return [made]

    state = {"last": rc.states.value_state("what STRING, v BIGINT")}
    with pytest.raises(UserFunctionError, match="expected a tuple of 2 values"):
        Bench(both, states=state).step(("ann", 1, 0))


def test_after_a_key_that_fails_the_others_are_called():
    def fail(user, rows, context):
        context.value("n").set(1)
        if user in {"ann", "cid"}:
            raise StopIteration
        return [("row", 1)]

    bench = Bench(
        fail,
        states=COUNT,
        on_error="dead_letter",
        tasks=1,
        more={"dead": lambda made: made.dead_letters},
    )
    users = ("ann", "bob", "cid", "dan")
    assert bench.step(*((user, 1, 0) for user in users)) == [("bob", "row", 1), ("dan", "row", 1)]
    assert sorted(bench.state("n")) == ["bob", "dan"]
    assert len(bench.read("dead")) == 2


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ([("x", "y")], r"a row that .* emitted for key 'ann': field 'v' is declared bigint"),
        ([("x",)], r"expected a tuple of 2 values \(what, v\), got 1 values"),
        ("text", r"key 'ann' raised TypeError: it returned 'text': yield rows, or return a list"),
        (7, r"it returned 7: yield rows"),
        ([{"what": "x"}], r"its columns are what, v"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_key(made, message):
    bench = Bench(lambda user, rows, context: made)
    with pytest.raises(UserFunctionError, match=message):
        bench.step(("ann", 1, 0))


def test_a_state_that_does_not_fit_is_refused_with_its_name_and_the_key():
    bench = Bench(lambda user, rows, context: context.value("n").set("x"), states=COUNT)
    with pytest.raises(UserFunctionError, match=r"state 'n', as .* left it for key 'ann'.*bigint"):
        bench.step(("ann", 1, 0))


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda c: c.value("m"), r"there is no state 'm' \(declared: n, recent, seen\)"),
        (lambda c: c.value("recent"), r"'recent' is a list state, not a value state"),
        (
            lambda c: c.list("n"),
            r"'n' is a value state, not a list state; use context.value\('n'\)",
        ),
        (lambda c: c.map("n"), "'n' is a value state, not a map state"),
        (lambda c: c.set_timer("t", EPOCH), r"there is no timer 't' \(declared: none\)"),
        (lambda c: c.side_output("s", 1), r"there is no side output 's' \(declared: none\)"),
        (lambda c: c.value("n").set(None), "cannot be set to None; use clear"),
        (lambda c: c.list("recent").append(None), "cannot have None for an element"),
        (lambda c: c.map("seen").__setitem__("x", None), "cannot have None for a key or a value"),
        (lambda c: c.list("recent").popleft(), "state 'recent' is empty"),
        (lambda c: c.map("seen").pop("x"), "KeyError: 'x'"),
    ],
)
def test_what_is_not_declared_or_not_there_is_told(use, message):
    bench = Bench(lambda user, rows, context: use(context), states=ALL)
    with pytest.raises(UserFunctionError, match=message):
        bench.step(("ann", 1, 0))


# Lists and maps ---------------------------------------------------------------------------------------------

ALL = {
    **COUNT,
    "recent": rc.states.list_state("v BIGINT"),
    "seen": rc.states.map_state("v BIGINT", "n BIGINT, last TIMESTAMP"),
}


def last_three(user, rows, context):
    recent, seen = context.list("recent"), context.map("seen")
    for row in rows:
        recent.append(row.v)
        if len(recent) > 3:
            recent.popleft()
        n = seen[row.v].n if row.v in seen else 0
        seen[row.v] = n + 1, row.at
    return [("recent", v) for v in recent] + [("seen", v) for v in seen]


def test_a_list_keeps_its_order_and_a_map_is_read_in_the_order_of_its_keys():
    bench = Bench(last_three, states=ALL, tasks=1)
    bench.step(("ann", 3, 1), ("ann", 1, 2))
    assert bench.harness.outputs("out")[1].column("v").to_pylist() == [3, 1, 1, 3]
    bench.step(("ann", 2, 3), ("ann", 1, 4))
    assert bench.harness.outputs("out")[2].column("v").to_pylist() == [1, 2, 1, 1, 2, 3]
    assert bench.state("recent") == {"ann": [{"v": 1}, {"v": 2}, {"v": 1}]}
    assert sorted(bench.state("seen")["ann"], key=repr) == [
        ("1", {"n": 2, "last": moment(4)}),
        ("2", {"n": 1, "last": moment(3)}),
        ("3", {"n": 1, "last": moment(1)}),
    ]


def test_appending_and_setting_writes_one_row_each_however_many_there_are():
    def grow(user, rows, context):
        context.list("recent").extend(rows["v"])
        for v in rows["v"]:
            context.map("seen")[v] = 1, rows[0].at

    bench = Bench(grow, states=ALL, tasks=1)
    bench.step(*[("ann", v, 0) for v in range(1_000)])
    for v in (5_000, 5_001):
        bench.step(("ann", v, 0))

    runs = bench.harness.journal_state().versions[3].manifests["process"].state
    assert {run.rows for run in runs if run.seq == 3} == {2}
    assert sum(run.rows for run in runs) == 2_004


def test_what_is_taken_out_is_gone_and_may_come_back():
    def change(user, rows, context):
        recent, seen = context.list("recent"), context.map("seen")
        for v in rows["v"]:
            if v == 0:
                recent.clear()
                seen.clear()
            elif v < 0:
                del seen[-v]
            else:
                recent.append(v)
                seen[v] = 1, EPOCH
        return [("list", len(recent)), ("map", len(seen))]

    bench = Bench(change, states=ALL)
    assert bench.step(("ann", 1, 0), ("ann", 2, 0)) == [("ann", "list", 2), ("ann", "map", 2)]
    assert bench.step(("ann", -1, 0), ("ann", 3, 0)) == [("ann", "list", 3), ("ann", "map", 2)]
    assert bench.step(("ann", 0, 0), ("ann", 2, 0)) == [("ann", "list", 1), ("ann", "map", 1)]
    assert bench.state("recent") == {"ann": [{"v": 2}]}
    assert bench.step(("ann", 4, 0), ("ann", -4, 0)) == [("ann", "list", 2), ("ann", "map", 1)]
    assert bench.step(("ann", 0, 0)) == [("ann", "list", 0), ("ann", "map", 0)]
    assert bench.harness.state("process").num_rows == 0


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("STRING", ["", "a:b", "é\n:"]),
        ("TINYINT", [-128, 0, 127]),
        ("BIGINT", [-(2**63), 2**63 - 1]),
        ("BOOLEAN", [False, True]),
        ("DATE", [date(1969, 12, 31), date(9999, 1, 1)]),
        ("TIMESTAMP", [moment(-1), moment(1)]),
        ("TIMESTAMP_NTZ", [moment(-1).replace(tzinfo=None), moment(7).replace(tzinfo=None)]),
    ],
)
def test_keys_of_maps_come_back_as_they_were(kind, keys):
    def follow(user, rows, context):
        seen = context.map("seen")
        for number, key in enumerate(keys):
            seen[key] = seen.get(key, 0) + number + 1
        return [(repr(key), n) for key, n in seen.items()]

    bench = Bench(follow, states={"seen": rc.states.map_state(f"k {kind}", "n BIGINT")})
    bench.step(("ann", 0, 0))
    got = bench.step(("ann", 0, 0))

    assert got == sorted(("ann", repr(key), 2 * n) for n, key in enumerate(keys, 1))


# Time to live -----------------------------------------------------------------------------------------------


def test_each_state_has_a_time_to_live_from_when_it_was_written_last():
    def follow(user, rows, context):
        n, recent, seen = context.value("n"), context.list("recent"), context.map("seen")
        found = [("n", n.get(-1)), ("recent", len(recent)), ("seen", len(seen))]
        for v in rows["v"]:
            recent.append(v)
            seen[v] = 1
        if v == 1:
            n.set(v)
        return found

    states = {
        "n": rc.states.value_state("n BIGINT", ttl="2 seconds"),
        "recent": rc.states.list_state("v BIGINT", ttl="3 seconds"),
        "seen": rc.states.map_state("v BIGINT", "n BIGINT", ttl=3_000),
    }
    bench = Bench(follow, states=states)

    def told(v, now):
        return [n for _, _, n in sorted(bench.step(("ann", v, 0), now=now))]

    assert told(1, 1_000) == [-1, 0, 0]
    assert told(2, 2_999) == [1, 1, 1]
    assert told(2, 3_000) == [-1, 2, 2]
    assert told(1, 4_000) == [-1, 2, 1]  # the first element and entry are gone
    assert told(2, 6_500) == [-1, 1, 1]
    bench.now = 20_000
    bench.rows.push([{"user": "bob", "v": 1, "at": EPOCH}])
    bench.harness.process.run()
    assert set(bench.harness.state("process").column("user").to_pylist()) == {"bob"}


# Timers -----------------------------------------------------------------------------------------------------


def remind(user, rows, context):
    for row in rows:
        if row.v < 0:
            context.clear_timer("soon")
        else:
            context.set_timer("soon", row.at + timedelta(milliseconds=row.v))
            if context.timer("late") is None:
                context.set_timer("late", row.at + timedelta(seconds=10))
    yield "rows", len(rows)


def ring(user, timer, context):
    n = context.value("n")
    n.set(n.get(0) + 1)
    yield timer.name, (timer.at - EPOCH) // timedelta(milliseconds=1)
    if timer.name == "soon" and n.get() == 2:
        context.set_timer("soon", timer.at + timedelta(milliseconds=5))


NAMED = {
    "states": COUNT,
    "timers": {"soon": "event", "late": "event"},
    "on_timer": ring,
}


def test_named_timers_of_event_time_go_off_in_their_order_after_the_rows():
    bench = Bench(remind, event=True, **NAMED)

    assert bench.step(("ann", 50, 100)) == [("ann", "rows", 1)]
    assert bench.step(("bob", 1, 149)) == [("bob", "rows", 1)]
    assert bench.step(("cid", 1, 150)) == [
        ("ann", "soon", 150),
        ("bob", "soon", 150),
        ("cid", "rows", 1),
    ]
    # A timer that is set anew is set to the new time only; one that is taken back does not go off.
    bench.step(("ann", 20, 200), ("cid", -1, 200))
    assert bench.step(("ann", 90, 210)) == [("ann", "rows", 1)]
    assert bench.step(("dan", 1, 299)) == [("dan", "rows", 1)]
    assert bench.step(("dan", 7, 300)) == [("ann", "soon", 300), ("dan", "rows", 1)]
    # The second one sets another.
    assert bench.step(("eve", 1, 306)) == [("ann", "soon", 305), ("eve", "rows", 1)]


def test_timers_of_processing_time_go_off_when_nothing_comes_in():
    def follow(user, rows, context):
        context.set_timer("soon", context.processing_time + timedelta(seconds=1))
        assert context.watermark is None

    def end(user, timer, context):
        yield "over", (timer.at - EPOCH) // timedelta(milliseconds=1)

    bench = Bench(follow, timers={"soon": "processing"}, on_timer=end)
    assert bench.step(("ann", 1, 0), now=1_000) == []
    assert bench.step(("bob", 1, 0), now=1_500) == []
    assert bench.step(now=1_999) == []
    assert bench.step(now=2_000) == [("ann", "over", 2_000)]
    assert bench.step(now=9_000) == [("bob", "over", 2_500)]
    assert bench.harness.state("process").num_rows == 0


BOTH = {"quiet": "event", "forget": "processing"}


def both_timers(user, rows, context):
    """`quiet` goes off `v` ms after a row, `forget` a second after the timestep."""
    for row in rows:
        context.set_timer("quiet", row.at + timedelta(milliseconds=row.v))
    context.set_timer("forget", context.processing_time + timedelta(seconds=1))
    yield "rows", len(rows)


def tell(user, timer, context):
    yield timer.name, (timer.at - EPOCH) // timedelta(milliseconds=1)


def test_timers_of_event_time_and_of_processing_time_go_off_beside_each_other():
    bench = Bench(both_timers, event=True, timers=BOTH, on_timer=tell)
    assert bench.step(("ann", 50, 0), now=1_000) == [("ann", "rows", 1)]
    assert bench.step(("bob", 1, 0), now=1_500) == [("bob", "rows", 1)]
    assert bench.step(now=1_999) == []
    # A timestep without rows is started for a timer of processing time, and event time stays where it is.
    assert bench.step(now=2_000) == [("ann", "forget", 2_000)]
    assert bench.step(now=2_400) == []
    assert bench.step(("cid", 1, 60), now=2_400) == [
        ("ann", "quiet", 50),
        ("bob", "quiet", 1),
        ("cid", "rows", 1),
    ]
    bench.harness.start()  # another driver
    assert bench.step(now=9_000) == [("bob", "forget", 2_500), ("cid", "forget", 3_400)]
    assert bench.step(now=99_000) == []
    assert [row["_entry"] for row in bench.harness.state("process").to_pylist()] == ["quiet"]
    assert bench.step(("dan", 1, 61), now=99_000) == [("cid", "quiet", 61), ("dan", "rows", 1)]


def test_a_timestep_reads_the_runs_with_timers_that_are_due_by_their_own_time():
    bench = Bench(both_timers, event=True, timers=BOTH, on_timer=tell, tasks=1)
    bench.step(("ann", 50, 100), now=1_000)
    (run,) = bench.harness.journal_state().versions[1].manifests["process"].state
    assert (run.due[0], run.processing) == (150_000, (2_000_000, 2_000_000))
    assert not run.rings(0, 1_999_999)
    assert run.rings(1_999_999, 2_000_000)
    assert not run.rings(2_000_000, 3_000_000)
    assert not run.waits(0, 149_999)
    steps = bench.harness.journal_state().last_committed
    bench.step(now=1_900)
    assert bench.harness.journal_state().last_committed == steps


def test_of_a_key_timers_of_event_time_go_off_before_those_of_processing_time():
    def follow(user, rows, context):
        for name, ms in (("b", 9), ("a", 20), ("y", 3), ("x", 5)):
            context.set_timer(name, moment(ms))

    def ring(user, timer, context):
        order.append(timer.name)
        if timer == ("y", moment(3)):
            context.set_timer("a", moment(1))
            context.set_timer("y", moment(4))
            context.set_timer("b", moment(999))
        return []

    order = []
    timers = {"x": "processing", "a": "event", "y": "processing", "b": "event"}
    bench = Bench(follow, event=True, timers=timers, on_timer=ring)
    bench.step(("ann", 1, 50))
    assert order == ["b", "a", "y", "a", "y", "x"]


def test_in_the_order_of_event_time_timers_of_processing_time_follow_all_rows_of_the_timestep():
    def follow(user, rows, context):
        context.set_timer("quiet", rows[0].at + timedelta(milliseconds=5))
        context.set_timer("forget", EPOCH)
        return [("row", v) for v in rows["v"]]

    def ring(user, timer, context):
        return [(timer.name, len(shown))]

    shown = []
    bench = Bench(follow, time_column="at", timers=BOTH, on_timer=ring, tasks=1)
    bench.rows.push([{"user": "ann", "v": v, "at": moment(10 * v)} for v in range(4)])
    bench.harness.process.run()
    whats = [row["what"] for row in bench.harness.outputs("out")[1].to_pylist()]
    assert whats == [
        "row",
        "quiet",
        "row",
        "quiet",
        "row",
        "quiet",
        "forget",
    ]  # one row still waits


def test_in_a_batch_timers_of_both_times_go_off():
    rows = script(COLUMNS)
    keyed = rc.read().memory(rows, name="rows").event_time("at").key_by("user")
    made = keyed.process(both_timers, schema="what STRING, v BIGINT", timers=BOTH, on_timer=tell)
    ats = pa.array([EPOCH], pa.timestamp("us", tz="UTC"))
    given = {"rows": pa.table({"user": ["ann"], "v": [1], "at": ats})}
    with rc.run_batch(made.write.noop(), inputs=given, in_process=InProcess()) as result:
        assert [row["what"] for row in result.output().to_pylist()] == ["rows", "quiet", "forget"]


def test_a_timer_goes_by_the_time_that_it_was_set_by():
    def flow(timers):
        stream = rc.read().memory(rows, name="rows").event_time("at").key_by("user")
        made = stream.process(
            both_timers,
            schema="what STRING, v BIGINT",
            timers=timers,
            on_timer=tell,
            name="process",
        )
        return made.write.memory("out", name="out")

    rows, store = script(COLUMNS, [[{"user": "ann", "v": 1, "at": EPOCH}]]), MemoryStore()
    first = Harness(flow(BOTH), store=store)
    first.start().run()
    for timers in (
        {"quiet": "processing", "forget": "event"},
        dict.fromkeys(BOTH, "event"),
        dict.fromkeys(BOTH, "processing"),
    ):
        for options in ({}, {"upgrade": True}):
            with pytest.raises(RefusedError, match="forget by processing time"):
                Harness(flow(timers), store=store).start(**options)
    Harness(flow({**BOTH, "another": "event"}), store=store).start(upgrade=True)


def test_a_timer_that_has_passed_goes_off_at_once_and_one_that_never_ends_is_told(monkeypatch):
    def follow(user, rows, context):
        context.set_timer("soon", EPOCH)

    def again(user, timer, context):
        context.set_timer("soon", timer.at)

    monkeypatch.setattr(module, "MOST_TIMERS", 100)
    bench = Bench(follow, event=True, timers={"soon": "event"}, on_timer=again)
    with pytest.raises(UserFunctionError, match="key 'ann': 100 timers went off in one timestep"):
        bench.step(("ann", 1, 100))


# Side outputs -----------------------------------------------------------------------------------------------


def split(user, rows, context):
    for row in rows:
        context.side_output("odd" if row.v % 2 else "even", row.v)
    yield "rows", len(rows)


SIDES = {"odd": "odd BIGINT", "even": "even BIGINT"}


def test_side_outputs_are_streams_of_their_own():
    def counted(made):
        return made.side_output("odd").key_by("user").aggregate(n=rc.aggregates.count(), name="n")

    more = {"even": lambda made: made.side_output("even"), "counted": counted}
    bench = Bench(split, side_outputs=SIDES, more=more)

    assert bench.step(("ann", 1, 0), ("ann", 2, 0), ("bob", 3, 0)) == [
        ("ann", "rows", 2),
        ("bob", "rows", 1),
    ]
    bench.step(("ann", 5, 0))
    assert bench.read("even") == [("ann", 2)]
    assert bench.read("counted") == [("ann", 1), ("bob", 1), ("ann", 2)]
    assert bench.made.side_output("odd").schema.names == ["user", "odd"]


def test_a_side_output_that_is_not_declared_is_refused():
    bench = Bench(split, side_outputs=SIDES)
    with pytest.raises(DataflowError, match=r"no side output 'add' \(known: 'odd', 'even'\)"):
        bench.made.side_output("add")
    with pytest.raises(DataflowError, match=r"map .* has no side output 'x' \(known: none\)"):
        bench.made.filter(keep).side_output("x")


# Functions that fail ----------------------------------------------------------------------------------------


def test_a_key_that_fails_is_put_back_and_its_rows_are_dead_letters():
    def follow(user, rows, context):
        n = context.value("n")
        for row in rows:
            n.set(n.get(0) + 1)
            context.list("recent").append(row.v)
            context.map("seen")[row.v] = 1, row.at
            context.side_output("odd", row.v)
            context.set_timer("soon", row.at + timedelta(milliseconds=100))
            yield "row", row.v
            if row.v == 13:
                msg = "unlucky"
                raise ValueError(msg)
            if row.v == 14:
                yield "row", "fourteen"

    def end(user, timer, context):
        yield "timer", context.value("n").get(0)

    bench = Bench(
        follow,
        event=True,
        states=ALL,
        timers={"soon": "event"},
        on_timer=end,
        side_outputs={"odd": "v BIGINT"},
        on_error="dead_letter",
        more={"dead": lambda made: made.dead_letters, "odd": lambda made: made.side_output("odd")},
    )
    assert bench.step(("ann", 1, 50), ("bob", 2, 60), ("cid", 0, 10)) == [
        ("ann", "row", 1),
        ("bob", "row", 2),
        ("cid", "row", 0),
    ]
    # The timer of a key goes off as if the rows had not come.
    assert bench.step(("ann", 3, 70), ("ann", 13, 70), ("bob", 14, 70), ("cid", 5, 155)) == [
        ("ann", "timer", 1),
        ("cid", "row", 5),
    ]
    dead = bench.harness.outputs("dead")[2].to_pylist()
    assert sorted(row["row"][:24] for row in dead) == [
        '{"user": "ann", "v": 13,',
        '{"user": "ann", "v": 3, ',
        '{"user": "bob", "v": 14,',
    ]
    assert {row["error"].partition(":")[0] for row in dead} >= {"ValueError"}
    assert bench.read("odd") == [("ann", 1), ("bob", 2), ("cid", 0), ("cid", 5)]
    assert bench.state("n") == {"ann": [{"n": 1}], "bob": [{"n": 1}], "cid": [{"n": 2}]}
    assert bench.state("recent")["ann"] == [{"v": 1}]


def test_whatever_a_function_made_that_does_not_fit_is_found_by_key():
    def make(user, rows, context):
        number = int(user)
        context.value("n").set(number if number % 3 else "a text")
        context.side_output("odd", number if number % 5 else "a text")
        yield "row", number if number % 7 else "a text"

    bench = Bench(
        make,
        states={"n": rc.states.value_state("n BIGINT")},
        side_outputs={"odd": "v BIGINT"},
        on_error="dead_letter",
        more={"dead": lambda made: made.dead_letters, "odd": lambda made: made.side_output("odd")},
    )
    good = [number for number in range(200) if number % 3 and number % 5 and number % 7]
    made = bench.step(*[(str(number), number, 0) for number in range(200)])
    assert sorted(v for _, _, v in made) == good
    assert sorted(v for _, v in bench.read("odd")) == good
    assert sorted(int(user) for user in bench.state("n")) == good
    assert len(bench.read("dead")) == 200 - len(good)


def test_on_timer_that_fails_names_the_timer_and_the_key():
    def fail(user, timer, context):
        raise ValueError(timer.name)

    bench = Bench(
        remind,
        event=True,
        on_error="dead_letter",
        more={"d": lambda m: m.dead_letters},
        **{**NAMED, "on_timer": fail},
    )
    with pytest.raises(UserFunctionError, match=r"for timer 'soon' of key 'ann' raised ValueError"):
        bench.step(("ann", 0, 100))


# In the order of event time: a stream is a batch ------------------------------------------------------------


def sessions(user, rows, context):
    for row in rows:
        context.value("n").set(context.value("n").get(0) + row.v)
        context.list("recent").append(row.v)
        context.set_timer("gap", row.at + timedelta(milliseconds=30))
        if context.timer("limit") is None:
            context.set_timer("limit", row.at + timedelta(milliseconds=100))


def close(user, timer, context):
    yield f"{timer.name}:{','.join(map(str, context.list('recent')))}", context.value("n").get()
    for state in (context.value("n"), context.list("recent")):
        state.clear()
    for name in ("gap", "limit"):
        context.clear_timer(name)


ORDERED = {
    "states": {name: ALL[name] for name in ("n", "recent")},
    "timers": {"gap": "event", "limit": "event"},
    "on_timer": close,
    "time_column": "at",
}


def naive(rows):
    """Sessions with a gap of 30 ms and a limit of 100 ms, one user and row after the other."""
    out = []
    for user in {user for user, _, _ in rows}:
        session: list[Any] = []
        for v, at in sorted(((v, at) for u, v, at in rows if u == user), key=lambda row: row[1]):
            if session:
                out_of = min((session[-1][1] + 30, "gap"), (session[0][1] + 100, "limit"))
                if out_of[0] <= at:
                    out.append(ended(user, session, out_of[1]))
                    session = []
            session.append((v, at))
        out_of = min((session[-1][1] + 30, "gap"), (session[0][1] + 100, "limit"))
        out.append(ended(user, session, out_of[1]))
    return sorted(out)


def ended(user, session, name):
    return user, f"{name}:{','.join(str(v) for v, _ in session)}", sum(v for v, _ in session)


@pytest.mark.parametrize("seed", range(5))
def test_in_the_order_of_event_time_a_stream_emits_what_a_batch_does(seed):
    rng = Random(seed)
    rows = [(rng.choice("ab"), v, rng.randrange(600)) for v in range(40)]
    # Each time once, so that there is one order; rows come up to 50 ms late.
    rows = list({(user, at): (user, v, at) for user, v, at in rows}.values())
    came = sorted(rows, key=lambda row: row[2] + rng.randrange(50))
    bench = Bench(sessions, delay=50, more={"late": lambda made: made.late}, **ORDERED)
    shown = []
    while came:
        count = rng.randint(1, 6)
        shown += bench.step(*came[:count])
        came = came[count:]
    shown += bench.step(("z", 0, 10_000))
    assert bench.read("late") == []
    assert sorted(row for row in shown if row[0] != "z") == naive(rows)
    given = pa.table(
        {
            "user": [user for user, _, _ in rows],
            "v": [v for _, v, _ in rows],
            "at": pa.array([moment(at) for *_, at in rows], pa.timestamp("us", tz="UTC")),
        }
    )
    flow = bench.made.write.noop()
    with rc.run_batch(flow, inputs={"rows": given}, in_process=InProcess()) as result:
        assert plain(result.output()) == naive(rows)
        assert result.state("process").num_rows == 0


def test_in_a_batch_all_timers_go_off():
    def follow(user, rows, context):
        context.set_timer("soon", context.processing_time + timedelta(days=9))
        yield "rows", len(rows)

    def end(user, timer, context):
        yield timer.name, 0

    rows = script(COLUMNS)
    stream = rc.read().memory(rows, name="rows").key_by("user")
    made = stream.process(
        follow, schema="what STRING, v BIGINT", timers={"soon": "processing"}, on_timer=end
    )
    given = pa.table(
        {"user": ["ann"], "v": [1], "at": pa.array([EPOCH], pa.timestamp("us", tz="UTC"))}
    )
    with rc.run_batch(made.write.noop(), inputs={"rows": given}, in_process=InProcess()) as result:
        assert plain(result.output()) == [("ann", "rows", 1), ("ann", "soon", 0)]


# Declarations -----------------------------------------------------------------------------------------------


def keep(user, rows, context):
    return []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"timers": {"t": "event"}},
            "timers need both timers= and on_timer=, and on_timer= is missing",
        ),
        ({"on_timer": keep}, "and timers= is missing"),
        (
            {"timers": {"t": "wall"}, "on_timer": keep},
            "'t' goes by 'event' or 'processing' time, not 'wall'",
        ),
        (
            {"timers": {"t": "event", "u": "processing"}, "on_timer": keep},
            "needs to know how far event time has come",
        ),
        ({"timers": {"t": "event"}, "on_timer": keep}, "needs to know how far event time has come"),
        ({"states": {"n": "n BIGINT"}}, "state 'n' is made by rc.states.value_state"),
        ({"states": {"a b": COUNT["n"]}}, "states have names of letters, digits"),
        ({"states": {"user": COUNT["n"]}}, "key column 'user' also names a state"),
        ({"schema": "user STRING"}, "schema= has a column 'user': keys are put in front"),
        ({"side_outputs": {"s": "user STRING"}}, "side output 's' has a column 'user'"),
        ({"on_error": "x"}, "on_error must be 'fail' or 'dead_letter'"),
        ({"time_column": "at"}, "needs to know how far event time has come"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_runs(options, message):
    rows = rc.read().memory(script(COLUMNS), name="rows").key_by("user")
    with pytest.raises(DataflowError, match=message):
        rows.process(keep, **{"schema": "v BIGINT", **options})


@pytest.mark.parametrize(
    ("key", "columns", "message"),
    [
        ("k DOUBLE", "n BIGINT", "the key of a map state is one column: a string, .*not k double"),
        ("a INT, b INT", "n BIGINT", "Make a string of several columns"),
        ("k INT", pa.schema([]), "a map state needs at least one column"),
    ],
)
def test_a_state_that_cannot_be_kept_is_refused(key, columns, message):
    with pytest.raises(DataflowError, match=message):
        rc.states.map_state(key, columns)


def test_a_process_has_no_late_rows_unless_it_goes_by_event_time():
    bench = Bench(remind, event=True, **NAMED)
    with pytest.raises(DataflowError, match="has no late rows"):
        _ = bench.made.late


# Changes ----------------------------------------------------------------------------------------------------


def test_another_function_goes_on_with_the_states_and_others_need_a_migration():
    bench = Bench(double, states=COUNT)
    bench.step(("ann", 1, 0))
    harness = bench.harness

    def triple(user, rows, context):
        yield "n", context.value("n").get() * 3

    harness.process.reconfigure(rc.changes.change_logic("process", triple))
    bench.step()
    assert bench.step(("ann", 1, 0)) == [("ann", "n", 3)]
    with pytest.raises(RefusedError, match="all rows of a key have to meet in one task"):
        harness.process.reconfigure(rc.changes.spread("process", key=["ann"], over=2))


def test_a_state_is_added_and_another_one_dropped():
    bench = Bench(double, states={**COUNT, "recent": ALL["recent"]})
    bench.step(("ann", 1, 0))
    stream = rc.read().memory(script(COLUMNS), name="rows").key_by("user")

    def count(user, rows, context):
        seen = context.map("seen")
        for v in rows["v"]:
            seen[v] = seen.get(v, 0) + 1
        yield "n", context.value("n").get() + len(seen)

    states = {**COUNT, "seen": rc.states.map_state("v BIGINT", "n BIGINT")}
    other = stream.process(count, schema="what STRING, v BIGINT", states=states).node.spec
    migrate = rc.changes.migrate(add={"seen": None}, drop=["recent"])
    change = rc.changes.change_logic("process", other, migrate=migrate)
    bench.harness.process.reconfigure(change)
    bench.step()
    assert bench.step(("ann", 7, 0), ("ann", 8, 0)) == [("ann", "n", 3)]
    assert bench.state("n") == {"ann": [{"n": 1}]}


def test_another_text_takes_over_with_a_state_more():
    """An upgrade: lists and timers stay, the new state starts empty."""

    def flows(rows, more):
        def follow(user, rows, context):
            context.list("recent").extend(rows["v"])
            context.set_timer("soon", rows[0].at + timedelta(milliseconds=100))
            if more:
                context.map("seen")[rows[0].v] = len(rows)
            yield "recent", len(context.list("recent"))

        def end(user, timer, context):
            yield "seen" if more else "none", len(context.map("seen")) if more else 0

        states = {name: ALL[name] for name in ("recent",)}
        states |= {"seen": rc.states.map_state("v BIGINT", "n BIGINT")} if more else {}
        stream = rc.read().memory(rows, name="rows").event_time("at").key_by("user")
        made = stream.process(
            follow,
            schema="what STRING, v BIGINT",
            states=states,
            timers={"soon": "event"},
            on_timer=end,
            name="process",
        )
        return [made.write.memory("out", name="out")]

    rows, store = script(COLUMNS), MemoryStore()
    rows.push([{"user": "ann", "v": 1, "at": moment(0)}, {"user": "bob", "v": 2, "at": moment(50)}])
    first = Harness(flows(rows, more=False), store=store)
    first.start().run()
    second = Harness(flows(rows, more=True), store=store)
    with pytest.raises(RefusedError, match="seen"):
        second.start(upgrade=True)
    migrate = {"process": rc.changes.migrate(add={"seen": None})}
    second.start(upgrade=True, migrate=migrate)
    rows.push(
        [{"user": "ann", "v": 3, "at": moment(90)}, {"user": "cid", "v": 9, "at": moment(160)}]
    )
    second.process.run()

    assert plain(second.outputs("out")[2]) == [
        ("ann", "recent", 2),
        ("bob", "seen", 0),
        ("cid", "recent", 1),
    ]


def test_what_is_stored_keeps_its_meaning_over_changes():
    """Rows bear the names of their states, so a state is neither renamed, nor filled, nor made of another kind."""
    bench = Bench(double, states={**COUNT, "recent": ALL["recent"]})
    bench.step(("ann", 1, 0))
    stream = rc.read().memory(script(COLUMNS), name="rows").key_by("user")

    def refused(states, message, migrate=None):
        other = stream.process(double, schema="what STRING, v BIGINT", states=states).node.spec
        with pytest.raises(RefusedError, match=message):
            bench.harness.process.reconfigure(
                rc.changes.change_logic("process", other, migrate=migrate)
            )

    more = {**COUNT, "recent": ALL["recent"], "m": rc.states.value_state("m BIGINT")}
    renamed = {"count": COUNT["n"], "recent": ALL["recent"]}
    as_list = {"n": rc.states.list_state("n BIGINT"), "recent": ALL["recent"]}
    migrate = rc.changes.migrate
    refused(renamed, "'n' cannot be renamed to 'count'", migrate(rename={"n": "count"}))
    refused(more, r"'m' of process begins empty: say migrate\(add", migrate(add={"m": {"m": 1}}))
    refused(more, "using=.* cannot convert the states of process", migrate(using=lambda old: old))
    refused(as_list, "'n' is stored as a value and would be a list")
    text = {"n": rc.states.value_state("n STRING"), "recent": ALL["recent"]}
    refused(
        text, r"'n' holds n bigint and would hold n string, .* with migrate\(drop=\['n'\], add="
    )
    assert bench.step(("ann", 1, 0)) == [("ann", "row", 1)]
    assert bench.state("n") == {"ann": [{"n": 2}]}


def test_a_state_gets_more_columns_and_wider_ones():
    def states(n, more=""):
        return {
            "one": rc.states.value_state(f"n {n}{more}"),
            "some": rc.states.list_state(f"n {n}{more}"),
            "all": rc.states.map_state("v STRING", f"n {n}{more}", ttl="1 day"),
        }

    def keep(user, rows, context):
        for v in rows["v"]:
            context.value("one").set(v)
            context.list("some").append(v)
            context.map("all")[str(v)] = v

    def tell(user, rows, context):
        one, some, known = context.value("one"), context.list("some"), context.map("all")
        told = [tuple(each) for each in (one.get(), *some, *known.values())]
        for v in rows["v"]:
            one.set((v, "new"))
            some.append((v, "new"))
            known[str(v)] = (v, "new")
        yield str(told), len(told)

    bench = Bench(keep, states=states("INT"))
    bench.step(("ann", 1, 0))
    stream = rc.read().memory(script(COLUMNS), name="rows").key_by("user")
    wider = states("BIGINT", ", word STRING")
    spec = stream.process(tell, schema="what STRING, v BIGINT", states=wider).node.spec
    struct = "STRUCT<n: BIGINT, word: STRING>"
    with pytest.raises(RefusedError, match=r"if that is intended, use migrate\(retype="):
        bench.harness.process.reconfigure(rc.changes.change_logic("process", spec))
    migrate = rc.changes.migrate(retype=dict.fromkeys(wider, struct))
    bench.harness.process.reconfigure(rc.changes.change_logic("process", spec, migrate=migrate))
    bench.step()
    old, new = (1, None), (2**40, "new")
    assert bench.step(("ann", 2**40, 0)) == [("ann", str([old] * 3), 3)]
    assert bench.step(("ann", 2**40, 0)) == [("ann", str([new, old, new, old, new]), 5)]


def test_a_map_with_keys_of_another_type_is_another_map():
    def count(user, rows, context):
        for v in rows["v"]:
            context.map("seen")[str(v)] = 1

    states = {"seen": rc.states.map_state("v STRING", "n BIGINT")}
    bench = Bench(count, states=states)
    bench.step(("ann", 1, 0))
    stream = rc.read().memory(script(COLUMNS), name="rows").key_by("user")
    other = {"seen": rc.states.map_state("v BIGINT", "n BIGINT")}
    spec = stream.process(count, schema="what STRING, v BIGINT", states=other).node.spec
    with pytest.raises(
        RefusedError, match="'seen' is stored as a map by v string and would be a map by v bigint"
    ):
        bench.harness.process.reconfigure(rc.changes.change_logic("process", spec))


def test_rows_of_a_state_that_was_dropped_are_neither_timers_nor_shown():
    fired = []

    def keep(user, rows, context):
        context.value("n").set(1)
        for v in rows["v"]:
            context.map("seen")[v] = 1
        context.set_timer("soon", context.processing_time + timedelta(hours=1))

    def soon(user, timer, context):
        fired.append(timer.name)

    seen = rc.states.map_state("v BIGINT", "n BIGINT", ttl="1 second")
    timed = {"timers": {"soon": "processing"}, "on_timer": soon}
    bench = Bench(keep, states={**COUNT, "seen": seen}, **timed)
    bench.step(("ann", 1, 0), ("ann", 2, 0))
    stream = rc.read().memory(script(COLUMNS), name="rows").key_by("user")

    def count(user, rows, context):
        yield "n", context.value("n").get()

    spec = stream.process(count, schema="what STRING, v BIGINT", states=COUNT, **timed).node.spec
    migrate = rc.changes.migrate(drop=["seen"])
    bench.harness.process.reconfigure(rc.changes.change_logic("process", spec, migrate=migrate))
    bench.step()
    assert bench.step(("ann", 1, 0), now=60_000) == [("ann", "n", 1)]
    assert fired == []
    shown = bench.harness.state("process").to_pylist()
    assert sorted((row["_state"] or "timer") for row in shown) == ["n", "timer"]
    bench.step(("ann", 1, 0), now=2 * 3_600_000)
    assert fired == ["soon"]


def test_without_event_timers_rows_come_in_the_order_of_event_time_too():
    def sizes(user, rows, context):
        yield "rows", len(rows)

    bench = Bench(sizes, time_column="at")
    shown = bench.step(("ann", 1, 20), ("ann", 2, 10), ("ann", 3, 20))
    shown += bench.step(("ann", 9, 1_000))
    assert [n for _, _, n in shown[:2]] == [1, 2]


def test_keys_of_entries_are_read_back_as_they_were_written_or_refused():
    def count(user, rows, context):
        by_time, by_day = context.map("times"), context.map("days")
        naive = datetime(2026, 1, 1)  # noqa: DTZ001 - it stands for UTC
        by_time[naive] = by_time.get(naive, 0) + 1
        by_time[naive.replace(tzinfo=UTC)] += 1
        by_day[date(2026, 1, 1)] = by_day.get(date(2026, 1, 1), 0) + 1
        with pytest.raises(
            TypeError, match=r"'days': the key of an entry is date, and .* another type"
        ):
            by_day[naive] = 1
        yield "times", by_time[naive]
        yield "days", by_day[date(2026, 1, 1)]

    states = {
        "times": rc.states.map_state("t TIMESTAMP", "n BIGINT"),
        "days": rc.states.map_state("d DATE", "n BIGINT"),
    }
    bench = Bench(count, states=states)
    assert bench.step(("ann", 1, 0)) == [("ann", "days", 1), ("ann", "times", 2)]
    assert bench.step(("ann", 1, 0)) == [("ann", "days", 2), ("ann", "times", 4)]


def test_a_timer_that_fails_between_two_rows_fails_the_timestep():
    def remember(user, rows, context):
        for row in rows:
            context.set_timer("soon", row.at + timedelta(milliseconds=5))

    def fails(user, timer, context):
        raise ValueError("not that one")

    timed = {"timers": {"soon": "event"}, "on_timer": fails, "on_error": "dead_letter"}
    letters = {"letters": lambda made: made.dead_letters}
    bench = Bench(remember, time_column="at", more=letters, **timed)
    with pytest.raises(
        UserFunctionError, match="for timer 'soon' of key 'ann' raised ValueError: not that one"
    ):
        bench.step(("ann", 1, 0), ("ann", 2, 50))


def test_a_value_may_be_an_array():
    def keep(user, rows, context):
        context.value("many").set(np.array([1, 2]))
        yield "n", len(context.value("many").get())

    bench = Bench(keep, states={"many": rc.states.value_state("many ARRAY<BIGINT>")})
    assert bench.step(("ann", 1, 0), ("bob", 1, 0)) == [("ann", "n", 2), ("bob", "n", 2)]
    assert bench.state("many") == {"ann": [{"many": [1, 2]}], "bob": [{"many": [1, 2]}]}


def test_a_value_that_is_changed_in_place_and_set_again_is_written():
    def grow(user, rows, context):
        handle = context.value("many")
        many = handle.get([])
        many += rows["v"]
        handle.set(many)
        return [("n", len(many))]

    bench = Bench(grow, states={"many": rc.states.value_state("many ARRAY<BIGINT>")})
    assert bench.step(("ann", 1, 0)) == [("ann", "n", 1)]
    assert bench.step(("ann", 2, 0), ("bob", 3, 0)) == [("ann", "n", 2), ("bob", "n", 1)]
    assert bench.state("many") == {"ann": [{"many": [1, 2]}], "bob": [{"many": [3]}]}


def test_a_value_that_is_set_to_what_it_was_lives_as_long_as_another_one():
    def again(user, rows, context):
        handle = context.value("n")
        found = handle.get(1)
        handle.set(found)
        if rows[0].v == 9:  # a key without a value has none afterwards, either
            handle.clear()
        return [("found", found)]

    bench = Bench(again, states={"n": rc.states.value_state("n BIGINT", ttl="2 seconds")})
    bench.step(("ann", 1, 0), now=1_000)
    bench.step(("ann", 1, 0), ("bob", 9, 0), now=2_500)
    bench.step(("cid", 1, 0), now=4_000)
    assert set(bench.state("n")) == {"ann", "cid"}
    bench.step(("dan", 1, 0), now=4_500)
    assert set(bench.state("n")) == {"cid", "dan"}


def test_a_value_that_is_changed_and_changed_back_lives_as_long_as_in_two_timesteps():
    def flips(user, rows, context):
        for row in rows:
            context.value("flag").set(bool(row.v))
        return []

    bench = Bench(flips, states={"flag": rc.states.value_state("flag BOOLEAN", ttl="2 seconds")})
    bench.step(("ann", 1, 0), ("bob", 1, 0), now=1_000)
    bench.step(("ann", 0, 0), ("ann", 1, 0), now=2_500)
    bench.step(("cid", 1, 0), now=4_000)
    assert set(bench.state("flag")) == {"ann", "cid"}


@pytest.mark.parametrize(
    ("state", "value"),
    [
        ("a ARRAY<BIGINT>", [1, 1.9]),
        ("a STRUCT<x: INT, y: STRING>", {"x": 2.7, "y": "t"}),
        ("a STRUCT<x: INT, y: STRING>", (2.7, "t")),
        ("a MAP<STRING, BIGINT>", {"k": 1.5}),
        ("a MAP<BIGINT, STRING>", [(1.5, "k")]),
        ("a ARRAY<STRUCT<x: ARRAY<BIGINT>>>", [{"x": [1]}, None, {"x": [0.5]}]),
    ],
)
def test_a_fraction_in_whole_numbers_is_refused_at_every_level(state, value):
    def sets(user, rows, context):
        context.value("a").set(value)
        return []

    bench = Bench(sets, states={"a": rc.states.value_state(state)})
    with pytest.raises(UserFunctionError):
        bench.step(("ann", 1, 0))


def test_whole_numbers_at_every_level_are_kept():
    value = [{"x": [1, None, 2]}, None, {"x": None}]

    def sets(user, rows, context):
        context.value("a").set(value)
        return []

    kind = "a ARRAY<STRUCT<x: ARRAY<BIGINT>>>"
    bench = Bench(sets, states={"a": rc.states.value_state(kind)})
    bench.step(("ann", 1, 0))
    assert bench.state("a") == {"ann": [{"a": value}]}


def test_a_list_is_drained_and_read_by_position_as_a_list_is():
    seen = []

    def drains(user, rows, context):
        found, twin = context.list("many"), list(context.list("many"))
        random = Random(len(twin))
        for row in rows:
            found.append(row.v)
            twin.append(row.v)
            while twin and random.random() < 0.6:
                assert found.popleft() == twin.pop(0)
            assert (len(found), list(found)) == (len(twin), twin)
            for at in range(-len(twin), len(twin)):
                assert found[at] == twin[at]
            for at in (len(twin), -len(twin) - 1):
                with pytest.raises(IndexError):
                    found[at]
        seen.append(twin)
        return []

    bench = Bench(drains, tasks=1, states={"many": rc.states.list_state("v BIGINT")})
    for first in range(0, 30, 6):
        bench.step(*(("ann", first + n, 0) for n in range(6)))
        assert bench.state("many").get("ann", []) == seen[-1]
    assert len(seen) == 5


def test_a_map_knows_its_size():
    def counts(user, rows, context):
        seen, twin = context.map("seen"), dict(context.map("seen"))
        for row in rows:
            if row.v in seen and row.v % 2:
                del seen[row.v]
                del twin[row.v]
            else:
                seen[row.v] = twin[row.v] = row.v
            assert (len(seen), bool(seen)) == (len(twin), bool(twin))
        return []

    states = {"seen": rc.states.map_state("v BIGINT", "n BIGINT")}
    bench = Bench(counts, tasks=1, states=states)
    for numbers in ((1, 2, 1), (3, 2, 3, 3), (1, 1, 1), (2, 5)):
        bench.step(*(("ann", n, 0) for n in numbers))


def test_two_instants_that_are_equal_in_their_zone_are_two_entries():
    berlin = ZoneInfo("Europe/Berlin")
    twice = [datetime(2024, 10, 27, 2, 30, fold=fold, tzinfo=berlin) for fold in (0, 1)]

    def both(user, rows, context):
        seen = context.map("seen")
        for at in twice:
            seen[at] = seen.get(at, 0) + 1
        return [("size", len(seen))]

    states = {"seen": rc.states.map_state("at TIMESTAMP", "n BIGINT")}
    bench = Bench(both, states=states)
    assert bench.step(("ann", 1, 0)) == [("ann", "size", 2)]
    assert bench.step(("ann", 1, 0)) == [("ann", "size", 2)]
