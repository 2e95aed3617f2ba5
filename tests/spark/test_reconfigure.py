"""Live reconfigurations on Spark: whatever is changed, state and output are those of a stream left alone."""

import time

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import OldProgramError, RefusedError
from rechannel.telemetry.reading import read_events
from rechannel.telemetry.task_finished import TaskFinished
from tests.spark.programs import (
    OPERATORS,
    PATIENCE,
    PER_TIMESTEP,
    TIMESTEPS,
    as_bytes,
    journal_of,
    ledger,
    outputs,
    published,
    start,
    states,
    tell,
    until,
)

SLOW = {"interval_ms": 60}
"""Timesteps far enough apart that a change can be asked for before they are over."""


def finish(job):
    """Read the input to its end and stop; what became of every reconfiguration."""
    try:
        job.process_all_available(PATIENCE)
    finally:
        job.stop(PATIENCE)
    return [one.to_dict() for one in job.history()]


def same(job, out, undisturbed, operators=OPERATORS):
    """Nobody downstream can tell from the data that anything happened."""
    expected_states, expected_outputs = undisturbed
    found = states(job, operators)
    assert found == {name: expected_states[name] for name in operators}
    assert outputs(out) == expected_outputs


def moved(facts):
    """Phases, timesteps and bins of a reconfiguration that was done."""
    assert facts["phase"] == "done", facts
    return facts["bins"], facts["first_timestep"], facts["last_timestep"]


STRATEGIES = {
    "all_at_once": rc.strategies.all_at_once(),
    "batched": rc.strategies.batched(5),
    "fluid": rc.strategies.fluid(3, gap=1),
    "optimized": rc.strategies.optimized(2),
    "budget": rc.strategies.fluid(4, budget_bytes=2_000),
}
OFTEN = ("budget",)
"""Tried whenever tests run; the others take long, and the simulation has them all."""


@pytest.mark.parametrize(
    "name",
    [name if name in OFTEN else pytest.param(name, marks=pytest.mark.slow) for name in STRATEGIES],
)
def test_rescaling_up_and_down(spark, state, out, undisturbed, name):
    job = start(spark, ledger(out), state, bins=16, **SLOW)
    first = job.reconfigure(rc.changes.rescale("balances", 5), STRATEGIES[name], at=6)
    first.wait(PATIENCE)
    second = job.reconfigure(rc.changes.rescale("balances", 1), STRATEGIES[name])
    history = finish(job)
    assert [body["id"] for body in history] == [first.id, second.id]
    up, down = map(moved, history)
    assert up[:2] == (9, 6)  # of two tasks with 8 bins each, one keeps 4 and the other 3
    assert down[0] == 12
    assert down[1] > up[2]
    if name != "all_at_once":
        assert up[2] > up[1]
    assert job.configuration.operators["balances"].tasks == 1
    same(job, out, undisturbed)


@pytest.mark.slow
def test_rebalancing_by_measured_load(spark, state, out, undisturbed):
    job = start(spark, ledger(out), state, bins=16, **SLOW)
    everything = rc.changes.move("balances", list(range(16)), 0)
    job.reconfigure(everything, at=4)
    until(lambda: job.status.timestep >= 6, "some timesteps")
    job.reconfigure(rc.changes.rebalance("balances"), rc.strategies.batched(4)).wait(PATIENCE)
    owners = job.configuration.operators["balances"].routing.owners
    finish(job)
    assert set(owners) == {0, 1}
    same(job, out, undisturbed)


@pytest.mark.slow  # the simulation has moves at any moment
def test_moving_and_planning(spark, state, out, undisturbed, tmp_path):
    job = start(spark, ledger(out), state, bins=8, **SLOW)
    until(lambda: job.status.timestep >= 3, "some timesteps")
    plan = job.plan(rc.changes.move("balances", [0, 1, 2], 1), rc.strategies.fluid())
    assert plan.bins == 3
    assert len(plan.steps) == 3
    assert plan.size > 0
    assert job.history() == []
    plan.save(tmp_path / "plan.json")
    handle = job.reconfigure(rc.changes.Plan.load(tmp_path / "plan.json")).wait(PATIENCE)
    assert handle.summary().bins == 3
    with pytest.raises(RefusedError, match="plan again"):
        job.reconfigure(plan)
    finish(job)
    same(job, out, undisturbed)


@pytest.mark.slow
def test_splitting_and_merging_bins(spark, state, out, undisturbed):
    job = start(spark, ledger(out), state, bins=4, **SLOW)
    job.reconfigure(rc.changes.split("balances", 1, into=3), at=5)
    job.reconfigure(rc.changes.merge("branches", [0, 1]), at=6)
    job.reconfigure([rc.changes.split("followed", 0), rc.changes.merge("followed", [2, 3])], at=7)
    history = finish(job)
    assert [body["phase"] for body in history] == ["done"] * 3
    routings = {n: o.routing.bins for n, o in job.configuration.operators.items() if o.routing}
    assert routings == {"balances": 6, "branches": 3, "followed": 4}
    same(job, out, undisturbed)


@pytest.mark.slow
def test_several_changes_at_once_and_side_by_side(spark, state, out, undisturbed):
    job = start(spark, ledger(out), state, bins=12, in_flight=2, **SLOW)
    job.reconfigure(
        [
            rc.changes.rescale("balances", 3),
            rc.changes.combine("branches", "off"),
            rc.changes.set_in_flight(3),
        ],
        rc.strategies.fluid(2),
        at=5,
    )
    job.reconfigure(rc.changes.rescale("followed", 4), rc.strategies.fluid(1), at=5)
    history = finish(job)
    spans = [moved(body)[1:] for body in history]
    assert spans[0][0] == spans[1][0] == 5
    assert spans[1][1] > spans[0][0]
    same(job, out, undisturbed)


@pytest.mark.slow  # the simulation has aborts at any moment
def test_an_aborted_change_leads_back(spark, state, out, undisturbed):
    job = start(spark, ledger(out), state, bins=32, **SLOW)
    before = job.configuration.operators["balances"]
    handle = job.reconfigure(rc.changes.rescale("balances", 4), rc.strategies.fluid(1, gap=1), at=4)
    until(lambda: handle.phase == "moving" and len(handle.record.taken) > 1, "it moves")
    handle.abort()
    with pytest.raises(RefusedError, match="undone"):
        handle.wait(PATIENCE)
    finish(job)
    after = job.configuration.operators["balances"]
    assert (after.tasks, after.routing) == (before.tasks, before.routing)
    same(job, out, undisturbed)


def follow_otherwise(key, state, rows):
    """What `programs.follow` does, in other words."""
    del key
    before = 0 if state is None else state[0]
    return (before + len(rows), list(rows["number"])[-1])


@pytest.mark.slow
def test_other_logic_with_the_same_state(spark, state, out, undisturbed):
    job = start(spark, ledger(out), state, **SLOW)
    handle = job.reconfigure(rc.changes.change_logic("followed", follow_otherwise), at=8)
    finish(job)
    assert handle.phase == "done"
    assert job.configuration.dataflow == 2
    same(job, out, undisturbed)
    with pytest.raises(OldProgramError, match="change_logic"):
        start(spark, ledger(out), state)
    again = start(spark, ledger(out, update=follow_otherwise), state)
    finish(again)
    same(again, out, undisturbed)


def since(key, state, rows):
    """`programs.follow` with one more column: bookings since it is kept."""
    del key
    seen, more = (0, 0) if state is None else (state.seen, state.more)
    return (seen + len(rows), rows["number"][-1], more + len(rows))


@pytest.mark.slow  # the simulation has migrations at any moment, test_upgrade.py one on Spark
def test_logic_with_other_state_takes_it_over(spark, state, out, undisturbed):
    from rechannel.model.ddl import schema_of
    from rechannel.operators.process.track_spec import TrackSpec

    job = start(spark, ledger(out), state, **SLOW)
    spec = TrackSpec(update=since, state=schema_of("seen BIGINT, latest BIGINT, more BIGINT"))
    job.reconfigure(
        rc.changes.change_logic(
            "followed", spec, migrate=rc.changes.migrate(add={"more": "seen * 0"})
        ),
        at=9,
    )
    history = finish(job)
    assert moved(history[0])[1] == 9
    table = job.state_table("followed")
    old = table.drop_columns(["more"])
    assert as_bytes(old) == undisturbed[0]["followed"]
    seen, more = (table.column(name).to_pylist() for name in ("seen", "more"))
    rows = 300 * (TIMESTEPS - 8)
    assert sum(more) == rows
    assert sum(seen) == 300 * TIMESTEPS
    same(job, out, undisturbed, ["balances", "branches"])


@pytest.mark.slow  # in process, the simulation has them in every run
def test_branches_come_and_go(spark, state, out, undisturbed):
    job = start(spark, ledger(out), state, **SLOW)
    late = job.stream("balances").write.parquet(f"{out}/late", name="late")
    counts = job.stream("front").key_by("account").aggregate(
        n=agg.count(), name="counts", preload=lambda: spark.sql("SELECT -1L AS account, 40L AS n")
    )  # fmt: skip
    added = job.reconfigure(rc.changes.add(late, counts), at=7)
    added.wait(PATIENCE)
    removed = job.reconfigure(rc.changes.remove("to-branches"))
    finish(job)
    assert removed.phase == "done"
    expected = undisturbed[1]
    balances = published(f"{out}/balances")
    assert balances == expected["balances"]
    shown = published(f"{out}/late")
    assert shown
    assert shown == {name: balances[name] for name in shown}
    assert min(shown) == "timestep=7" or len(shown) == TIMESTEPS - 6
    branches = published(f"{out}/branches")
    assert branches
    assert len(branches) < TIMESTEPS
    assert branches == {name: expected["branches"][name] for name in branches}
    counted = {row.account: row.n for row in job.state("counts").collect()}
    assert counted.pop(-1) == 40  # what it was given to begin with
    assert sum(counted.values()) == 300 * len(shown)
    assert added.record.change.loaded == {"counts": 1}


def work(state):
    """What every task of the stateful operators read and wrote, by operator, timestep and task.

    Not how many rows came in: what senders combine depends on which of them has which keys.
    """
    return {
        (event.operator, event.timestep, event.task): (
            *(event.rows_out, event.keys, event.keys_found),
            *(event.runs, event.rows_merged, event.bytes_fetched),
            tuple((each.level, each.rows) for each in event.segments),
        )
        for event in read_events(state / "telemetry")
        if isinstance(event, TaskFinished) and event.operator in OPERATORS
    }


@pytest.mark.slow  # the property tests of topologies have it for random dataflows
def test_only_affected_tasks_do_anything_more(spark, tmp_path, undisturbed):
    """Beside the two tasks that give and take, all read and write what they do in a stream left alone."""
    timesteps, done, held = 8, {}, {}
    for name in ("calm", "moved"):
        place = tmp_path / name
        flows = ledger(place / "out", rows=timesteps * PER_TIMESTEP)
        job = start(spark, flows, place / "state", bins=16, tasks=4, **SLOW)
        if name == "moved":
            job.reconfigure(rc.changes.move("balances", [0, 1], 3), at=5)
        history = finish(job)
        held[name] = states(job)
        for sink, shown in outputs(place / "out").items():
            assert shown == dict(list(undisturbed[1][sink].items())[:timesteps])
            assert len(shown) == timesteps
        done[name] = work(place / "state")
    assert held["calm"] == held["moved"]
    assert moved(history[0]) == (2, 5, 5)
    assert done["calm"].keys() == done["moved"].keys()
    differ = {unit for unit, facts in done["calm"].items() if done["moved"][unit] != facts}
    assert {(operator, task) for operator, _, task in differ} == {("balances", 0), ("balances", 3)}
    assert min(timestep for _, timestep, _ in differ) == 5


# A driver that dies ------------------------------------------------------------------------------


def moving_driver(state, out, place):
    """A process that begins a long move, and says so."""
    from tests.spark.programs import session

    job = start(session(place), ledger(out), state, bins=64, interval_ms=100)
    handle = job.reconfigure(rc.changes.rescale("balances", 6), rc.strategies.fluid(1), at=4)
    until(lambda: len(handle.record.taken) >= 3, "some steps are made")
    tell(moving=handle.id)
    time.sleep(PATIENCE)


@pytest.mark.slow
def test_a_killed_driver_goes_on_moving(spark, state, out, undisturbed, child, tmp_path):
    process = child(moving_driver, state=str(state), out=str(out), place=str(tmp_path / "child"))
    id_ = process.hear("moving")
    process.kill()
    before = journal_of(state).coordination.find(id_)
    assert before.phase == "moving"
    assert before.left
    job = start(spark, ledger(out), state)
    facts = finish(job)[0]
    assert facts["phase"] == "done"
    assert facts["drivers"] == 1
    assert facts["steps"]["made"] == len(before.steps)
    assert job.configuration.operators["balances"].tasks == 6
    same(job, out, undisturbed)


def test_what_is_refused_is_refused_before_anything_happens(spark, state, out):
    job = start(spark, ledger(out, rows=600), state, bins=8)
    asked = [
        (rc.changes.rescale("balances", 9), "8 bins"),
        (rc.changes.move("balances", 8, 0), "bins 0 to 7"),
        (rc.changes.executors(4), "local"),
        (rc.changes.place("balances", 0, "7"), "one executor"),
        (rc.changes.assign_resources("balances", cpus=2), "local"),
        (rc.changes.rescale("front", 2), "balances"),
    ]
    for change, reason in asked:
        with pytest.raises((RefusedError, rc.RechannelError), match=reason):
            job.reconfigure(change)
    finish(job)
    assert job.history() == []
