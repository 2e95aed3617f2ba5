"""A migration that a text declares counts as carried out while it is the latest of its operator, whoever made it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import OtherDataflowError
from rechannel.testing import script


def minutes(key, state, rows):
    return (state or 0.0) + sum(rows["min"])


def hours(key, state, rows):
    return (state or 0.0) + sum(rows["min"]) / 60.0


def to_hours(state):
    return pa.record_batch({"total": pc.divide(state["total"], 60.0)})


def to_minutes(state):
    return pa.record_batch({"total": pc.multiply(state["total"], 60.0)})


DECLARED = {"people": rc.changes.migrate(using=to_hours, back=to_minutes)}


class Watched:
    """A job that adds up minutes by user, and its texts."""

    def __init__(self, state):
        self.minutes = script("user STRING, min BIGINT", [[{"user": "ann", "min": 120}]])
        self.state = state
        self.job = self.text(minutes).start(in_process=rc.InProcess())
        self.job.process_all_available()

    def text(self, function, **declared):
        keyed = rc.read().memory(self.minutes, name="minutes").key_by("user")
        people = keyed.track(function, state="total DOUBLE", name="people")
        written = people.write.memory("out", name="out")
        known = [to_hours, to_minutes]
        return rc.Job("watched", written, state=self.state, migrations=known, **declared)

    def live(self, function, using):
        migrate = rc.changes.migrate(using=using)
        change = rc.changes.change_logic("people", function, migrate=migrate)
        assert self.job.reconfigure(change).wait(60).phase == "done"

    @property
    def total(self):
        (row,) = self.job.state("people").to_pylist()
        return row["total"]


@pytest.fixture
def watched(tmp_path):
    made = Watched(tmp_path / "state")
    yield made
    made.job.stop()


def test_a_declared_migration_that_was_led_back_live_is_made_again(watched):
    text = watched.text(hours, migrate=DECLARED)
    watched.job.deploy(text).wait(60)
    assert watched.total == 2.0
    watched.live(minutes, to_minutes)
    assert watched.total == 120.0
    watched.job.deploy(text).wait(60)
    assert watched.total == 2.0


@pytest.mark.parametrize("how", ["deployed", "started"])
def test_a_migration_that_was_made_live_is_not_made_again_once_the_text_declares_it(watched, how):
    watched.live(hours, to_hours)
    text = watched.text(hours, migrate={"people": rc.changes.migrate(using=to_hours)})
    if how == "deployed":
        assert watched.job.deploy(text) is None
    else:
        watched.job.stop()
        watched.job = text.start(in_process=rc.InProcess())
    assert watched.total == 2.0


def other_hours(key, state, rows):
    return (state or 0.0) + sum(rows["min"]) / 60


def to_days(state):
    return pa.record_batch({"total": pc.divide(state["total"], 24.0)})


def test_a_declared_migration_stays_done_whatever_is_added_live_since(tmp_path):
    orders = script("user STRING, ms BIGINT", [[{"user": "ann", "ms": 5}]])

    def text(aggregates, **declared):
        keyed = rc.read().memory(orders, name="orders").key_by("user")
        people = keyed.aggregate(**aggregates, name="people")
        written = people.write.memory("out", name="out")
        return rc.Job("watched", written, state=tmp_path / "state", **declared)

    def started(aggregates, **how):
        job = text(aggregates, migrate=migrate).start(in_process=rc.InProcess(), **how)
        job.process_all_available()
        return job

    migrate = {"people": rc.changes.migrate(drop=["worst"])}
    second = {"n": agg.count(), "total": agg.sum("ms")}
    third = {**second, "last": agg.last("ms")}
    first = text({"n": agg.count(), "worst": agg.max("ms")}).start(in_process=rc.InProcess())
    first.process_all_available()
    first.stop()
    job = started(second, upgrade=True)
    added = rc.changes.migrate(add={"last": None})
    job.reconfigure(rc.changes.change_logic("people", third, migrate=added)).wait(60)
    job.stop()
    started(third).stop()
    job = started({**third, "most": agg.max("ms")}, upgrade=True)
    assert job.state("people").column_names == ["user", "n", "total", "last", "most"]
    job.stop()


def test_where_two_functions_have_converted_state_a_third_text_has_to_say_what_it_means(watched):
    watched.job.deploy(watched.text(hours, migrate=DECLARED)).wait(60)
    change = rc.changes.change_logic(
        "people", other_hours, migrate=rc.changes.migrate(using=to_days)
    )
    assert watched.job.reconfigure(change).wait(60).phase == "done"
    with pytest.raises(OtherDataflowError, match="a live change has converted the state by"):
        watched.job.deploy(watched.text(minutes, migrate=DECLARED))
    watched.job.stop()
    watched.job = watched.text(other_hours, migrate=DECLARED).start(in_process=rc.InProcess())
    assert watched.total == 2.0 / 24


def test_a_column_that_came_back_live_goes_again_with_the_text_that_drops_it(tmp_path):
    orders = script("user STRING, ms BIGINT", [[{"user": "ann", "ms": 5}]])

    def text(aggregates, **declared):
        keyed = rc.read().memory(orders, name="orders").key_by("user")
        people = keyed.aggregate(**aggregates, name="people")
        written = people.write.memory("out", name="out")
        return rc.Job("watched", written, state=tmp_path / "state", **declared)

    worst = {"n": agg.count(), "worst": agg.max("ms")}
    later = text(
        {"n": agg.count(), "total": agg.sum("ms")},
        migrate={"people": rc.changes.migrate(drop=["worst"])},
    )
    job = text(worst).start(in_process=rc.InProcess())
    job.process_all_available()
    job.deploy(later).wait(60)
    back = rc.changes.migrate(drop=["total"])
    job.reconfigure(rc.changes.change_logic("people", worst, migrate=back)).wait(60)
    assert job.deploy(later).wait(60).phase == "done"
    assert job.state("people").column_names == ["user", "n", "total"]
    job.stop()
