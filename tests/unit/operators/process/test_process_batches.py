"""`process_batches`: tables in and out, against the same written for one key at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.errors import UserFunctionError
from rechannel.operators.process import process_batches as module
from rechannel.testing import Harness, script

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COLUMNS = "user STRING, v BIGINT, at TIMESTAMP"
STATES = {
    "n": rc.states.value_state("n BIGINT, sum BIGINT", ttl=700),
    "last": rc.states.list_state("v BIGINT", ttl=500),
    "seen": rc.states.map_state("v BIGINT", "n BIGINT", ttl=300),
}
DECLARED = {
    "schema": "what STRING, v BIGINT",
    "states": STATES,
    "timers": {"soon": "event", "late": "event"},
    "side_outputs": {"odd": "odd BIGINT"},
    "name": "process",
}


def one(user, rows, context):
    """What `many` does, for one key."""
    n, last, seen = context.value("n"), context.list("last"), context.map("seen")
    vs = rows["v"]
    count, total = n.get((0, 0))
    count, total = count + len(vs), total + sum(vs)
    n.set((count, total))
    last.extend(vs)
    while len(last) > 4:
        last.popleft()
    for v in vs:
        seen[v % 5] = v
    if total % 7 == 0:
        n.clear()
    if count % 5 == 0:
        seen.clear()
    if 3 in vs and 0 in seen:
        del seen[0]
    latest = max(rows["at"])
    context.set_timer("soon", latest + timedelta(milliseconds=vs[-1] % 50))
    if context.timer("late") is None:
        context.set_timer("late", latest + timedelta(milliseconds=120))
    if total % 11 == 0:
        context.clear_timer("soon")
    for v in vs:
        if v % 2:
            context.side_output("odd", v)
    return [("last", v) for v in last]


def one_timer(user, timer, context):
    n, _ = context.value("n").get((0, 0))
    if timer.name == "late":
        context.list("last").clear()
    elif n == 3:
        context.set_timer("soon", timer.at + timedelta(milliseconds=30))
    return [(timer.name, n + sum(v for _, v in context.map("seen").items()))]


def many(frame):
    """What `one` does, for all keys."""
    keys = np.arange(len(frame))
    count = frame.previous("n", "n", 0) + frame.count()
    total = frame.previous("n", "sum", 0) + frame.sum("v")
    frame.set_value("n", {"n": count, "sum": total})
    v = frame.rows.column("v").to_numpy()
    frame.append("last", {"_key": frame.ids, "v": v})
    sizes = np.bincount(frame.list("last").column("_key"), minlength=len(frame))
    frame.popleft("last", np.maximum(sizes - 4, 0))
    frame.put("seen", {"_key": frame.ids, "v": v % 5, "n": v})
    frame.clear("n", total % 7 == 0)
    frame.clear("seen", count % 5 == 0)
    three = np.bincount(frame.ids, v == 3, minlength=len(frame)) > 0
    frame.remove("seen", {"_key": keys[three], "v": np.zeros(three.sum(), dtype=np.int64)})
    ats = frame.rows.column("at").cast(pa.int64()).to_numpy()
    latest = np.maximum.reduceat(ats, frame.starts)
    frame.set_timer("soon", as_times(latest + frame.last("v") % 50 * 1_000))
    unset = frame.timer("late").is_null()
    frame.set_timer("late", as_times(latest + 120_000).filter(unset), unset)
    frame.clear_timer("soon", total % 11 == 0)
    odd = v % 2 == 1
    frame.side_output("odd", {"_key": frame.ids[odd], "odd": v[odd]})
    last = frame.list("last")
    return {"_key": last["_key"], "what": ["last"] * last.num_rows, "v": last["v"]}


def many_timers(frame):
    n = frame.previous("n", "n", 0)
    seen = frame.map("seen")
    sums = np.bincount(seen["_key"], seen["n"], minlength=len(frame)).astype(np.int64)
    timers = frame.timers.to_pylist()
    late = [timer["_key"] for timer in timers if timer["name"] == "late"]
    frame.clear("last", np.array(late, dtype=np.int64))
    again = [t for t in timers if t["name"] == "soon" and n[t["_key"]] == 3]
    later = [timer["at"] + timedelta(milliseconds=30) for timer in again]
    frame.set_timer("soon", pa.array(later, pa.timestamp("us", "UTC")), [t["_key"] for t in again])
    return {
        "_key": frame.timers["_key"],
        "what": frame.timers["name"],
        "v": [int(n[t["_key"]] + sums[t["_key"]]) for t in timers],
    }


def as_times(micros):
    return pa.array(micros).cast(pa.timestamp("us", "UTC"))


def run(kind, batches, *, tasks=2, **options):
    """What is emitted, what is put aside, what fails, and the state at the end."""
    rows, now = script(COLUMNS), [0]
    keyed = rc.read().memory(rows, name="rows").event_time("at", 40).key_by("user")
    if kind == "one":
        made = keyed.process(**{"function": one, "on_timer": one_timer, **DECLARED, **options})
    else:
        given = {"function": many, "on_timer": many_timers, **DECLARED, **options}
        made = keyed.process_batches(**given)
    flows = [made.write.memory("out", name="out")]
    flows.append(made.side_output("odd").write.memory("odd", name="odd"))
    if options.get("on_error"):
        flows.append(made.dead_letters.write.memory("dead", name="dead"))
    settings = rc.Settings(tasks=tasks, bins=4)
    harness = Harness(flows, settings=settings, clock=lambda: now[0])
    harness.start()
    for number, batch in enumerate(batches):
        now[0] = 1_000 + number * 100
        rows.push([{"user": user, "v": v, "at": at} for user, v, at in batch])
        harness.process.run()
    sinks = [name for name in ("out", "odd") for _ in [harness.outputs(name)]]
    shown = {
        name: {t: table.to_pylist() for t, table in harness.outputs(name).items()} for name in sinks
    }
    dead = (
        [r["row"] for t in harness.outputs("dead").values() for r in t.to_pylist()]
        if options.get("on_error")
        else []
    )
    state = sorted(map(repr, harness.state("process").to_pylist()))
    return shown, sorted(dead), state, harness


def batches_of(seed, *, count=8):
    rng = Random(seed)
    users = ["a", "b", "c", "d", None]
    return [
        [
            (
                rng.choice(users),
                rng.randrange(40),
                EPOCH + timedelta(milliseconds=100 * t + rng.randrange(60)),
            )
            for _ in range(rng.randint(1, 8))
        ]
        for t in range(count)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_both_flavours_do_the_same(seed):
    batches = batches_of(seed)
    shown, _, state, _ = run("one", batches)
    apart = run("many", batches, tasks=1 + seed % 3)

    assert {n: {t: by_key(r) for t, r in of.items()} for n, of in apart[0].items()} == {
        n: {t: by_key(r) for t, r in of.items()} for n, of in shown.items()
    }
    assert apart[2] == state


@pytest.mark.parametrize("seed", range(3))
def test_both_flavours_do_the_same_if_timers_go_by_both_times(seed):
    second = timedelta(seconds=1)
    batches = [[(u, v, at + second) for u, v, at in batch] for batch in batches_of(seed)]
    timers = {"soon": "event", "late": "processing"}
    shown, _, state, _ = run("one", batches, timers=timers)
    apart = run("many", batches, tasks=1 + seed % 3, timers=timers)

    assert {row["what"] for rows in shown["out"].values() for row in rows} == {"last", *timers}
    assert {n: {t: by_key(r) for t, r in of.items()} for n, of in apart[0].items()} == {
        n: {t: by_key(r) for t, r in of.items()} for n, of in shown.items()
    }
    assert apart[2] == state


def test_of_a_key_timers_of_event_time_go_off_in_an_earlier_call():
    calls = []

    def follow(frame):
        frame.set_timer("soon", as_times([0] * len(frame)))
        frame.set_timer("late", as_times([0]), frame.first("v") > 1)

    def ring(frame):
        calls.append([tuple(row.values()) for row in frame.timers.to_pylist()])
        assert frame.watermark == EPOCH + timedelta(milliseconds=60)
        if len(calls) == 2:
            frame.set_timer("soon", as_times([0]))

    at = EPOCH + timedelta(milliseconds=100)
    timers = {"late": "processing", "soon": "event"}
    more = {"function": follow, "on_timer": ring, "timers": timers}
    run("many", [[("a", 1, at), ("b", 2, at)]], tasks=1, **more)
    named = [sorted(name for _, name, _ in call) for call in calls]
    assert named == [["soon", "soon"], ["late"], ["soon"]]


def by_key(rows):
    """Rows of the list by key, in the order of each key, and those of timers, which go off together in one flavour."""
    found: dict = {}
    for row in rows:
        found.setdefault(row["user"], []).append(row)
    timers = sorted(repr(row) for row in rows if row.get("what") in ("soon", "late"))
    return timers, {k: [r for r in v if repr(r) not in timers] for k, v in found.items()}


def test_they_understand_each_other_s_state():
    _, _, state, harness = run("one", batches_of(1))
    keyed = rc.read().memory(script(COLUMNS), name="rows").event_time("at", 40).key_by("user")
    spec = keyed.process_batches(many, on_timer=many_timers, **DECLARED).node.spec
    harness.process.reconfigure(rc.changes.change_logic("process", spec))
    harness.process.run()
    assert sorted(map(repr, harness.state("process").to_pylist())) == state


def test_keys_for_which_a_function_fails_are_left_out():
    def fails(frame):
        if pa.compute.any(pa.compute.equal(frame.rows["v"], 13)).as_py():
            msg = "unlucky"
            raise ValueError(msg)
        return many(frame)

    def failing(user, rows, context):
        if 13 in rows["v"]:
            msg = "unlucky"
            raise ValueError(msg)
        return one(user, rows, context)

    batches = batches_of(3)
    batches[2].append(("a", 13, EPOCH + timedelta(milliseconds=200)))
    expected = run("one", batches, function=failing, on_error="dead_letter")
    got = run("many", batches, function=fails, on_error="dead_letter")
    assert len(got[1]) > 0
    assert got[1] == expected[1]
    assert got[2] == expected[2]


def test_frames_read_and_take_polars():
    def follow(frame):
        rows = frame.to_polars().group_by("_key", maintain_order=True).agg(pl.col("v").max())
        frame.append("last", rows)
        assert frame.value("n").num_rows == len(frame)
        assert (
            repr(frame) == f"<ProcessFrame: {len(frame)} keys, {frame.rows.num_rows} rows of v, at>"
        )
        return rows.with_columns(what=pl.lit("max"))

    shown, _, _, harness = run(
        "many", [[("a", 3, EPOCH), ("a", 9, EPOCH), ("b", 4, EPOCH)]], function=follow
    )
    assert sorted(row["v"] for row in shown["out"][1]) == [4, 9]
    assert harness.state("process").num_rows == 2


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda f: f.value("m"), r"there is no state 'm' \(declared: n, last, seen\)"),
        (lambda f: f.list("n"), "'n' is a value state, not a list state"),
        (lambda f: f.timer("t"), r"there is no timer 't' \(declared: soon, late\)"),
        (lambda f: f.side_output("s", {}), r"there is no side output 's' \(declared: odd\)"),
        (lambda f: f.set_value("n", {"n": [1]}), r"set_value\('n'\) in .*'sum' is missing"),
        (lambda f: f.append("last", {"_key": [5], "v": [1]}), r"append\('last'\).*number of a key"),
        (lambda f: f.put("seen", {"_key": [0], "v": [None], "n": [1]}), "cannot be null"),
        (lambda f: f.clear("n", [0, 0]), "numbers of keys from 0 to 0, each once"),
        (lambda f: f.clear("n", [True, False]), "a mask of 1 keys"),
        (lambda f: f.set_timer("soon", []), "0 times for 1 keys"),
    ],
)
def test_what_does_not_fit_is_told(use, message):
    with pytest.raises(UserFunctionError, match=message):
        run("many", [[("a", 1, EPOCH)]], function=use, tasks=1)


def test_timers_that_never_end_are_told(monkeypatch):
    def again(frame):
        frame.set_timer("soon", EPOCH)

    monkeypatch.setattr(module, "MOST_ROUNDS", 20)
    rows = [[("a", 1, EPOCH + timedelta(seconds=1))]]
    with pytest.raises(UserFunctionError, match="timers went off 20 times in one timestep"):
        run("many", rows, function=again, on_timer=again)


LARGE = (1 << 60) + 1


def remembered(frame):
    before = frame.previous("n", "n").tolist()
    frame.set_value("n", {"n": frame.last("x")})
    return {"before": [None if each is None or np.isnan(each) else int(each) for each in before]}


def test_a_large_number_stays_exact_beside_a_key_that_has_none():
    rows = script(
        "k STRING, x BIGINT", [[{"k": "a", "x": LARGE}], [{"k": "a", "x": 1}, {"k": "b", "x": 1}]]
    )
    states = {"n": rc.states.value_state("n BIGINT")}
    keyed = rc.read().memory(rows).key_by("k")
    made = keyed.process_batches(remembered, schema="before BIGINT", states=states, name="seen")
    harness = Harness(made.write.memory("out"), settings=rc.Settings(tasks=1))
    harness.start().run()
    found = {(row["k"], row["before"]) for row in harness.output().to_pylist()}
    assert found == {("a", None), ("a", LARGE), ("b", None)}
