"""Broadcast inputs of `process` and `process_batches`: the table of another operator, as of the timestep."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.evolution.evolution import stream_of
from rechannel.errors import (
    BroadcastTooLargeError,
    DataflowError,
    RefusedError,
    UserFunctionError,
)
from rechannel.job import InProcess
from rechannel.kernels.lsm import broadcast as module
from rechannel.model.patience import Patience
from rechannel.testing import Harness, MemoryStore, script

RULES, PAYMENTS = "rule STRING, most BIGINT, active BOOLEAN", "card STRING, amount BIGINT"
SHOWN = "rule STRING, amount BIGINT"


def newest(rule, before, rows):
    """The last row of a rule; None ends it."""
    return rows[-1].most if rows[-1].active else None


def exceeded(card, rows, context):
    for amount in rows["amount"]:
        for name, rule in context.broadcast("rules").items():
            if amount > rule.most:
                yield name, amount


def exceeded_by_batches(frame):
    """Do the same for all keys at once."""
    rules, amounts = frame.broadcast("rules"), frame.rows["amount"]
    found: dict[str, list[Any]] = {"_key": [], "rule": [], "amount": []}
    for number, owner in enumerate(frame.ids.tolist()):
        over = rules.filter(pc.less(rules["most"], amounts[number])).column("rule")
        found["_key"] += [owner] * len(over)
        found["rule"] += over.to_pylist()
        found["amount"] += [amounts[number].as_py()] * len(over)
    types = {"_key": pa.int64(), "rule": pa.string(), "amount": pa.int64()}
    return {name: pa.array(values, types[name]) for name, values in found.items()}


def tracked(keyed):
    return keyed.track(newest, state="most BIGINT", name="rules")


class Bench:
    """Payments through a `process` that reads a table of rules. table: makes its stream."""

    def __init__(self, function=exceeded, *, table=tracked, batches=False, store=None, **options):
        self.rules, self.payments = script(RULES), script(PAYMENTS)
        self.now, self.store = 1_000, store or MemoryStore()
        self.options = {"schema": SHOWN, "name": "alerts"} | options
        self.function, self.table, self.batches = function, table, batches
        self.settings = rc.Settings(tasks=2, bins=4, keep_versions=8)
        self.harness = self.bench()
        self.harness.start()

    def bench(self):
        return Harness(
            self.flow(), store=self.store, settings=self.settings, clock=lambda: self.now
        )

    def flow(self):
        changes = rc.read().memory(self.rules, name="changes")
        self.made_table = self.table(changes.key_by("rule"))
        cards = rc.read().memory(self.payments, name="payments").key_by("card")
        process = cards.process_batches if self.batches else cards.process
        made = process(self.function, broadcast={"rules": self.made_table}, **self.options)
        return made.write.memory("out", name="out")

    def step(self, *payments, rules=()):
        """What is emitted by one timestep."""
        before = len(self.harness.outputs("out"))
        if rules:
            names = [each.partition(" ")[0] for each in RULES.split(", ")]
            self.rules.push([dict(zip(names, rule, strict=True)) for rule in rules])
        if payments:
            self.payments.push([{"card": card, "amount": amount} for card, amount in payments])
        self.harness.process.run()
        shown = self.harness.outputs("out")
        return [row for t in sorted(shown)[before:] for row in plain(shown[t])]


def plain(table):
    return sorted(tuple(row.values()) for row in table.to_pylist())


# What a function sees ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("batches", [False, True])
def test_a_function_sees_the_rules_as_they_are_after_the_timesteps_rows(batches):
    function = exceeded_by_batches if batches else exceeded
    bench = Bench(function, batches=batches)

    assert bench.step(("A", 10)) == []
    assert bench.step(("A", 10), ("B", 99), rules=[("few", 5, True), ("many", 50, True)]) == [
        ("A", "few", 10),
        ("B", "few", 99),
        ("B", "many", 99),
    ]
    # A change that comes with rows holds for all of them; one without rows for those that come later.
    assert bench.step(("A", 10), rules=[("few", 20, True)]) == []
    assert bench.step(rules=[("many", 0, True)]) == []
    assert bench.step(("A", 10)) == [("A", "many", 10)]
    assert bench.step(("B", 99), rules=[("many", 0, False)]) == [("B", "few", 99)]


def test_a_table_is_a_mapping_in_the_order_of_its_keys():
    seen = []

    def look(card, rows, context):
        rules = context.broadcast("rules")
        seen.append((list(rules), rules["b"], rules.get("x"), "a" in rules, len(rules)))

    bench = Bench(look, table=lambda keyed: keyed.latest(name="rules"))
    bench.step(("A", 1), rules=[("b", 1, True), (None, 2, True), ("a", 3, None)])

    ((names, found, missing, there, count),) = seen
    assert (names, missing, there, count) == (["a", "b", None], None, True, 3)
    assert (found.rule, found.most, found.active) == ("b", 1, True)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (lambda k: k.latest(name="rules"), {"a": ("a", 2, False), "b": ("b", 9, True)}),
        (lambda k: k.latest("most", name="rules"), {"a": ("a", 7, True), "b": ("b", 9, True)}),
        (lambda k: k.aggregate(most=agg.sum("most"), name="rules"), {"a": ("a", 9), "b": ("b", 9)}),
        (
            lambda k: k.running_reduce(lambda one, two: two, rowwise=True, name="rules"),
            {"a": ("a", 2, False), "b": ("b", 9, True)},
        ),
        (tracked, {"b": ("b", 9)}),
        (
            lambda k: k.track_batches(
                lambda frame: {"most": frame.last("most"), "_drop": ~frame.last("active")},
                state="most BIGINT",
                name="rules",
            ),
            {"b": ("b", 9)},
        ),
    ],
)
def test_any_operator_with_one_row_per_key_can_be_the_table(table, expected):
    seen = []

    def look(card, rows, context):
        seen.append({key: tuple(row) for key, row in context.broadcast("rules").items()})

    bench = Bench(look, table=table)
    bench.step(rules=[("a", 7, True), ("b", 9, True)])
    bench.step(("A", 1), rules=[("a", 2, False)])
    assert seen == [expected]


def test_rules_that_are_not_renewed_end():
    bench = Bench(
        table=lambda k: k.track(newest, state="most BIGINT", timeout="2 seconds", name="rules")
    )
    assert bench.step(("A", 9), rules=[("a", 1, True), ("b", 2, True)]) == [
        ("A", "a", 9),
        ("A", "b", 9),
    ]
    bench.now = 3_000
    assert bench.step(("A", 9), rules=[("b", 2, True)]) == [("A", "a", 9), ("A", "b", 9)]
    bench.now = 3_001
    assert bench.step(("A", 9)) == [("A", "b", 9)]
    bench.now = 9_000
    assert bench.step(("A", 9)) == []


def test_rules_end_by_their_own_event_time():
    """The reader has no event time."""
    changes, rows = script(f"{RULES}, at TIMESTAMP"), script(PAYMENTS)
    timed = rc.read().memory(changes, name="changes").event_time("at").key_by("rule")
    table = timed.track(
        newest, state="most BIGINT", time="event", timeout="10 seconds", name="rules"
    )
    cards = rc.read().memory(rows, name="payments").key_by("card")
    made = cards.process(exceeded, schema=SHOWN, broadcast={"rules": table}, name="alerts")
    harness = Harness(made.write.memory("out", name="out"))
    harness.start()

    def step(rule, second):
        at = datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)
        changes.push([{"rule": rule, "most": 1, "active": True, "at": at}])
        rows.push([{"card": "A", "amount": 9}])
        harness.process.run()
        shown = harness.outputs("out")
        return [rule for _, rule, _ in plain(shown[max(shown)])]

    assert [step("a", 0), step("b", 9), step("c", 12), step("d", 25)] == [
        ["a"],
        ["a", "b"],
        ["b", "c"],
        ["d"],
    ]


def test_a_timer_sees_the_table_of_the_timestep_in_which_it_goes_off():
    def wait(card, rows, context):
        context.set_timer("soon", context.processing_time + timedelta(seconds=1))

    def ring(card, timer, context):
        yield from ((name, rule.most) for name, rule in context.broadcast("rules").items())

    bench = Bench(wait, timers={"soon": "processing"}, on_timer=ring)
    assert bench.step(("A", 1), rules=[("old", 1, True)]) == []
    assert bench.step(rules=[("new", 2, True), ("old", 0, False)]) == []
    bench.now = 2_000
    assert bench.step() == [("A", "new", 2)]


def test_rows_in_the_order_of_event_time_see_the_table_when_the_function_is_called():
    rows, changes = script("card STRING, amount BIGINT, at TIMESTAMP"), script(RULES)
    table = tracked(rc.read().memory(changes, name="changes").key_by("rule"))
    stream = rc.read().memory(rows, name="payments").event_time("at", delay="1 second")
    made = stream.key_by("card").process(
        exceeded, schema=SHOWN, time_column="at", broadcast={"rules": table}, name="alerts"
    )
    harness = Harness(made.write.memory("out", name="out"))
    harness.start()

    def step(second, rule):
        at = f"2026-01-01T00:00:{second:02}Z"
        time = pa.array([at]).cast(pa.timestamp("us", tz="UTC"))[0].as_py()
        rows.push([{"card": "A", "amount": second, "at": time}])
        changes.push([{"rule": "r", "most": rule, "active": True}])
        harness.process.run()
        return [row for t in harness.outputs("out").values() for row in plain(t)]

    assert step(10, 0) == []  # it waits
    assert step(12, 100) == []  # the row of second 10 is checked, with this rule
    assert step(14, 11) == [("A", "r", 12)]


def test_the_output_of_a_stream_is_that_of_a_batch_at_the_same_cuts():
    bench = Bench()
    rules = [("few", 5, True), ("many", 50, True), ("few", 7, True)]
    shown = bench.step(("A", 6), ("B", 99), rules=rules)
    inputs = {
        "changes": pa.Table.from_pylist(
            [dict(zip(("rule", "most", "active"), r, strict=True)) for r in rules]
        ),
        "payments": pa.table({"card": ["A", "B"], "amount": [6, 99]}),
    }
    with rc.run_batch(bench.flow(), inputs=inputs, in_process=InProcess()) as result:
        assert plain(result.output()) == shown == [("B", "few", 99), ("B", "many", 99)]


def test_two_inputs_and_two_readers():
    changes, rows = script(RULES), script(PAYMENTS)
    keyed = rc.read().memory(changes, name="changes").key_by("rule")
    latest, counts = keyed.latest(name="latest"), keyed.aggregate(n=agg.count(), name="counts")

    def look(card, rows, context):
        found = context.broadcast("counts")
        yield from ((name, found[name].n) for name in context.broadcast("rules"))

    cards = rc.read().memory(rows, name="payments").key_by("card")
    both = {"rules": latest, "counts": counts}
    ends = [
        cards.process(look, schema=SHOWN, broadcast=both, name=name).write.memory(
            name, name=f"to-{name}"
        )
        for name in ("one", "two")
    ]
    harness = Harness(ends)
    harness.start()
    changes.push([{"rule": rule, "most": 1, "active": True} for rule in "aab"])
    rows.push([{"card": "A", "amount": 1}])
    harness.process.run()
    for name in ("one", "two"):
        assert plain(harness.outputs(f"to-{name}")[1]) == [("A", "a", 2), ("A", "b", 1)]


def test_a_table_may_be_made_of_the_rows_themselves():
    rows = script(PAYMENTS)
    stream = rc.read().memory(rows, name="payments")
    most = stream.key_by("card").aggregate(most=agg.max("amount"), name="most")

    def compare(card, rows, context):
        everyone = [row.most for row in context.broadcast("most").values()]
        yield "rank", sum(max(rows["amount"]) <= most for most in everyone)

    made = stream.key_by("card").process(
        compare, schema=SHOWN, broadcast={"most": most}, name="ranks"
    )
    harness = Harness([made.write.memory("out", name="out"), most.write.memory("most", name="m")])
    harness.start()
    rows.push([{"card": card, "amount": amount} for card, amount in (("A", 5), ("B", 9), ("C", 7))])
    harness.process.run()
    assert plain(harness.outputs("out")[1]) == [
        ("A", "rank", 3),
        ("B", "rank", 1),
        ("C", "rank", 2),
    ]


# Timesteps in flight, replays, changes ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_timesteps_in_flight_see_no_later_table(seed):
    """The table runs ahead of a reader whose rows come through two more operators."""
    rules, rows = script(RULES), script(PAYMENTS)
    table = tracked(rc.read().memory(rules, name="changes").key_by("rule"))
    far = rc.read().memory(rows, name="payments").key_by("card").latest(name="near")
    far = far.key_by("card", "amount").latest(name="far")

    def look(card, rows, context):
        yield "now", context.broadcast("rules")["r"].most

    made = far.key_by("card").process(look, schema=SHOWN, broadcast={"rules": table}, name="alerts")
    settings = rc.Settings(tasks=2, bins=4, in_flight=4)
    flow, choose = made.write.memory("out", name="out"), Random(seed).randrange
    harness = Harness(flow, settings=settings, choose=choose)
    for number in range(12):
        rules.push([{"rule": "r", "most": number, "active": True}])
        rows.push([{"card": "A", "amount": number}])
    harness.start().run()
    shown = harness.outputs("out")
    assert [plain(shown[t]) for t in sorted(shown)] == [[("A", "now", n)] for n in range(12)]


def test_a_timestep_that_fails_sees_the_same_table_when_it_runs_again():
    bench = Bench()
    bench.step(rules=[("a", 1, True)])
    bench.harness.process.stop()
    died = []

    def fault(operator, timestep, task, attempt):
        # All attempts of the reader, after the table's operator is done with the timestep.
        if operator == "alerts" and timestep == 2 and not died[4:]:
            died.append(attempt)
            return "before"
        return None

    bench.harness.start(
        task_faults=fault,
        settings=replace(bench.settings, patience=Patience(first_seconds=0)),
    )
    assert bench.step(("A", 9), rules=[("b", 2, True)]) == [("A", "a", 9), ("A", "b", 9)]
    assert len(died) > 3


def test_tasks_of_both_operators_change():
    bench = Bench()
    bench.step(("A", 9), rules=[(f"r{n}", n, True) for n in range(9)])
    process = bench.harness.process
    process.reconfigure(rc.changes.rescale("rules", tasks=3))
    process.reconfigure(rc.changes.rescale("alerts", tasks=4))
    process.reconfigure(rc.changes.split("rules", bin=0, into=2))
    bench.step()
    assert bench.step(("A", 2), ("B", 1)) == [("A", "r0", 2), ("A", "r1", 2), ("B", "r0", 1)]


def test_the_tables_function_and_the_readers_change_while_they_run():
    bench = Bench()
    bench.step(rules=[("a", 1, True)])

    def doubled(rule, before, rows):
        return rows[-1].most * 2

    def named(card, rows, context):
        yield from ((name.upper(), rule.most) for name, rule in context.broadcast("rules").items())

    process = bench.harness.process
    process.reconfigure(rc.changes.change_logic("rules", doubled))
    bench.step()
    assert bench.step(("A", 9), rules=[("b", 2, True)]) == [("A", "a", 9), ("A", "b", 9)]
    process.reconfigure(rc.changes.change_logic("alerts", named))
    bench.step()
    assert bench.step(("A", 9)) == [("A", "A", 1), ("A", "B", 4)]


def test_columns_of_the_table_change_while_it_runs():
    bench = Bench(table=lambda k: k.aggregate(most=agg.max("most"), name="rules"))
    bench.step(rules=[("a", 1, True)])

    def wider(card, rows, context):
        yield from ((name, rule.n) for name, rule in context.broadcast("rules").items())

    wanted = {"most": agg.max("most"), "n": agg.count()}
    both = [
        rc.changes.change_logic("rules", wanted, migrate=rc.changes.migrate(add={"n": 40})),
        rc.changes.change_logic("alerts", wider),
    ]
    bench.harness.process.reconfigure(both)
    bench.step()
    assert bench.step(("A", 9), rules=[("a", 1, True)]) == [("A", "a", 41)]


def test_the_table_alone_is_migrated():
    bench = Bench(table=lambda k: k.aggregate(most=agg.max("most"), name="rules"))
    bench.step(rules=[("a", 1, True)])
    wanted = {"n": agg.count(), "most": agg.max("most")}
    migrate = rc.changes.migrate(add={"n": 0})
    change = rc.changes.change_logic("rules", wanted, migrate=migrate)
    bench.harness.process.reconfigure(change)
    bench.step()
    assert bench.step(("A", 9), rules=[("b", 5, True)]) == [("A", "a", 9), ("A", "b", 9)]


def test_a_reader_that_is_added_to_a_running_stream_has_the_whole_table():
    bench = Bench()
    bench.step(rules=[("a", 1, True)])
    process = bench.harness.process
    dataflow = process.switch.current.program.dataflow
    cards = stream_of(dataflow, "payments").key_by("card")
    added = cards.process(
        exceeded, schema=SHOWN, broadcast={"rules": stream_of(dataflow, "rules")}, name="more"
    )
    process.reconfigure(rc.changes.add(added.write.memory("more", name="to-more")))
    bench.step()
    assert bench.step(("A", 9), rules=[("b", 2, True)]) == [("A", "a", 9), ("A", "b", 9)]
    shown = bench.harness.outputs("to-more")
    assert plain(shown[max(shown)]) == [("A", "a", 9), ("A", "b", 9)]


def test_timesteps_that_run_again_in_a_replay_see_the_tables_of_then(tmp_path):
    rules, rows = script(RULES), script(PAYMENTS)
    table = tracked(rc.read().memory(rules, name="changes").key_by("rule"))
    made = (
        rc.read()
        .memory(rows, name="payments")
        .key_by("card")
        .process(exceeded, schema=SHOWN, broadcast={"rules": table}, name="alerts")
    )
    settings = rc.Settings(keep_versions=50)
    flow = made.write.memory("out", name="out")
    for most in (5, 50, 7, 0):
        rules.push([{"rule": "r", "most": most, "active": True}])
        rows.push([{"card": "A", "amount": 9}])
    job = rc.Job("cards", flow, state=tmp_path / "state", settings=settings)
    job = job.start(in_process=InProcess())
    job.process_all_available(60)
    found = job.replay(range(2, 5))
    assert found.equal
    assert [(part.timestep, part.equal) for part in found.output] == [(3, 1), (4, 1)]
    job.stop()


def test_rows_of_the_table_are_no_source_of_dead_letters_and_hold_no_time_back():
    rules, rows = script(RULES), script("card STRING, amount BIGINT, at TIMESTAMP")
    table = tracked(rc.read().memory(rules, name="changes").key_by("rule"))

    def fail(card, rows, context):
        raise ValueError(len(context.broadcast("rules")))

    timed = rc.read().memory(rows, name="payments").event_time("at").key_by("card")
    made = timed.process(
        fail,
        schema=SHOWN,
        timers={"t": "event"},
        on_timer=no_rows,
        broadcast={"rules": table},
        on_error="dead_letter",
        name="alerts",
    )
    letters = rc.dead_letters(made.write.noop(name="none")).write.memory("dead", name="dead")
    harness = Harness([made.write.noop(name="none"), letters])
    harness.start()
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows.push([{"card": "A", "amount": 1, "at": at}])
    harness.process.run()
    (letter,) = harness.outputs("dead")[1].to_pylist()
    assert (letter["source"], letter["error"]) == ("payments", "ValueError: 0")
    times = harness.journal_state().versions[1].times
    assert times["alerts"].watermark == int(at.timestamp()) * 1_000_000


def test_a_running_reader_gets_a_broadcast_input_by_an_upgrade_with_all_that_the_table_has():
    rules, rows = script(RULES), script(PAYMENTS)
    store = MemoryStore()

    def flows(function, *, reads):
        table = tracked(rc.read().memory(rules, name="changes").key_by("rule"))
        made = (
            rc.read()
            .memory(rows, name="payments")
            .key_by("card")
            .process(
                function,
                schema=SHOWN,
                states={"n": rc.states.value_state("n BIGINT")},
                broadcast={"rules": table} if reads else None,
                name="alerts",
            )
        )
        return [made.write.memory("out", name="out"), table.write.memory("t", name="t")]

    def count(card, rows, context):
        context.value("n").set(context.value("n").get(0) + len(rows))

    def use(card, rows, context):
        yield from ((name, context.value("n").get()) for name in context.broadcast("rules"))

    first = Harness(flows(count, reads=False), store=store)
    rules.push([{"rule": "a", "most": 1, "active": True}])
    rows.push([{"card": "A", "amount": 1}])
    first.start().run()
    first.process.stop()
    second = Harness(flows(use, reads=True), store=store)
    rows.push([{"card": "A", "amount": 1}])
    second.start(upgrade=True).run()
    assert plain(second.outputs("out")[2]) == [("A", "a", 1)]


# Limits and refusals ----------------------------------------------------------------------------------------


def test_a_table_that_is_too_large_is_told_with_the_operator(monkeypatch):
    monkeypatch.setattr(module, "BROADCAST_BYTES", 200)
    bench = Bench()
    bench.step(("A", 9), rules=[("a", 1, True)])
    message = r"(?s)operator 'rules' keeps has .* MiB as a table, .* keep fewer keys .* lookup\("
    with pytest.raises(BroadcastTooLargeError, match=message):
        bench.step(("A", 9), rules=[(f"r{n}", n, True) for n in range(99)])


def test_a_state_that_is_too_large_is_not_read(monkeypatch):
    monkeypatch.setattr(module, "STORED_BYTES", 200)
    bench = Bench()
    with pytest.raises(BroadcastTooLargeError, match=r"operator 'rules' keeps has .* MiB in state"):
        bench.step(("A", 9), rules=[(f"r{n}", n, True) for n in range(99)])


@pytest.mark.parametrize("batches", [False, True])
def test_an_input_that_is_not_declared_is_told(batches):
    def look(first, *more):
        (more[1] if more else first).broadcast("rule")

    bench = Bench(look, batches=batches)
    with pytest.raises(UserFunctionError, match=r"no broadcast input 'rule' \(declared: rules\)"):
        bench.step(("A", 9))


def test_a_table_cannot_be_changed():
    def change(card, rows, context):
        context.broadcast("rules")["a"] = 1

    with pytest.raises(UserFunctionError, match="does not support item assignment"):
        Bench(change).step(("A", 9))


def no_rows(*given):
    return None


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda s: s, "broadcast input 'x' is source 'changes' .* keeps no table with one row per"),
        (lambda s: s.key_by("rule"), "is <KeyedStream .*rules.key_by"),
        (lambda s: s.key_by("rule").latest().filter(no_rows), "is map .*before other functions"),
        (lambda s: s.key_by("rule").top(2, "most"), "is top .* keeps no table"),
        (lambda s: s.deduplicate("rule"), "is deduplicate .* keeps no table"),
        (lambda s: {"a": 1}, "is {'a': 1}, which keeps no table"),
    ],
)
def test_what_is_no_table_is_refused_before_anything_runs(made, message):
    changes = rc.read().memory(script(RULES), name="changes")
    cards = rc.read().memory(script(PAYMENTS), name="payments").key_by("card")
    with pytest.raises(DataflowError, match=message):
        cards.process(exceeded, schema=SHOWN, broadcast={"x": made(changes)})


def test_inputs_have_names():
    table = tracked(rc.read().memory(script(RULES), name="changes").key_by("rule"))
    cards = rc.read().memory(script(PAYMENTS), name="payments").key_by("card")
    with pytest.raises(DataflowError, match=r"takes streams by name, as in broadcast=\{'rules'"):
        cards.process(exceeded, schema=SHOWN, broadcast=table)


def test_names_are_checked():
    table = tracked(rc.read().memory(script(RULES), name="changes").key_by("rule"))
    cards = rc.read().memory(script(PAYMENTS), name="payments").key_by("card")
    with pytest.raises(DataflowError, match="broadcast inputs have names of letters"):
        cards.process(exceeded, schema=SHOWN, broadcast={"the rules": table})


def test_the_table_of_a_reader_is_not_removed_before_it():
    bench = Bench()
    with pytest.raises(RefusedError, match=r"'alerts' .* reads the rows of 'rules': remove it too"):
        bench.harness.process.reconfigure(rc.changes.remove("rules"))


def test_other_logic_has_the_same_broadcast_inputs():
    bench = Bench()
    cards = rc.read().memory(script(PAYMENTS), name="payments").key_by("card")
    other = cards.process(no_rows, schema=SHOWN).node.spec
    with pytest.raises(DataflowError, match="has 1 broadcast inputs, and its logic 0"):
        bench.harness.process.reconfigure(rc.changes.change_logic("alerts", other))


def test_a_plan_shows_the_input(tmp_path):
    shown = rc.Job("cards", Bench().flow(), state=tmp_path / "state").explain()
    assert "  reads        the table of rules, as 'rules'" in shown.splitlines()
