"""State is written anew by a timestep only: while a stream is idle, such a change is not done."""

from __future__ import annotations

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.testing import Harness, script


class Users:
    """A running job with some state, and an idle source."""

    def __init__(self):
        self.calls = script("user STRING, ms BIGINT")
        keyed = rc.read().memory(self.calls, name="calls").key_by("user")
        users = keyed.aggregate(n=agg.count(), worst=agg.max("ms"), name="users")
        settings = rc.Settings(tasks=2, bins=4)
        self.harness = Harness(users.write.memory("out", name="out"), settings=settings)
        self.process = self.harness.start()
        self.call(*(f"u{i}" for i in range(20)))

    def call(self, *users):
        self.calls.push([{"user": user, "ms": 1} for user in users])
        self.process.run()

    @property
    def segments(self):
        return {run.segment for run in self.harness.journal_state().manifests["users"].runs}

    def phase(self, id_):
        return str(self.process.changes.coordination.find(id_).phase)


def without_worst():
    kept = {"n": agg.count()}
    return rc.changes.change_logic("users", kept, migrate=rc.changes.migrate(drop=["worst"]))


@pytest.mark.parametrize("strategy", [None, rc.strategies.fluid(1)])
@pytest.mark.parametrize("with_logic", [False, True])
def test_a_rewrite_is_done_once_a_timestep_has_written_the_state(with_logic, strategy):
    users = Users()
    before = users.segments
    change = [without_worst(), rc.changes.rewrite("users")]
    id_ = users.process.reconfigure(change if with_logic else change[1], strategy)
    users.process.run()
    assert users.phase(id_) == "moving"
    assert users.segments == before
    for user in ("ann", "bob", "cem", "dan", "eve", "fay"):
        users.call(user)
    assert users.phase(id_) == "done"
    assert not users.segments & before
    assert users.harness.state("users").num_rows == 26


def test_a_change_that_is_aborted_before_its_first_step_was_not_superseded():
    users = Users()
    id_ = users.process.reconfigure(rc.changes.rewrite("users"))
    users.process.run()
    assert not users.process.changes.coordination.find(id_).taken
    users.process.abort(id_)
    users.process.run()
    assert users.phase(id_) == "aborted"
