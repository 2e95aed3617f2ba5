"""What can be replayed follows from what the journal keeps, and a refusal says what is possible."""

from __future__ import annotations

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.journal.entries import Intent
from rechannel.engine.journal.reading import kept_entries, read_only
from rechannel.engine.replay.selecting import Selection, select
from rechannel.errors import NotReadyError, RefusedError
from rechannel.settings import Settings
from rechannel.testing import Harness, script

SCHEMA = "k string, v bigint"


def bench(timesteps: int, **settings: int) -> Harness:
    rows = script(SCHEMA, [[{"k": "a", "v": n}] for n in range(timesteps)])
    stream = rc.read().memory(rows, name="rows").filter(lambda row: row.v >= 0, name="positive")
    counts = stream.key_by("k").aggregate(n=agg.count(), name="counts")
    return Harness(counts.write.memory("out", name="out"), settings=Settings(**settings))


def ran(timesteps: int, **settings: int) -> Harness:
    made = bench(timesteps, **settings)
    made.start().run()
    return made


def selected(harness: Harness, asked: range) -> Selection:
    return select(read_only(harness.store), kept_entries(harness.store), asked)


def test_what_a_replay_needs_is_found():
    found = selected(ran(6, keep_versions=10), range(3, 6))
    assert (found.first, found.last, found.program) == (3, 5, 1)
    assert found.started == (2,)
    assert [intent.timestep for intent in found.intents] == [3, 4, 5]
    assert sorted(found.committed) == [3, 4, 5]
    assert [c.version for c in found.configurations] == [
        intent.configuration_version for intent in found.intents
    ]


def test_the_first_timestep_begins_with_no_state():
    found = selected(ran(3, keep_versions=10), range(1, 3))
    assert (found.started, dict(found.start.manifests)) == ((), {})


@pytest.mark.parametrize("asked", [range(2), range(2, 2), range(1, 5, 2), range(3, 1, -1)])
def test_only_timesteps_without_gaps_from_the_first_on(asked):
    with pytest.raises(RefusedError, match=r"without gaps from 1 on, such as range\(5, 8\)"):
        selected(ran(5, keep_versions=10), asked)


def test_a_timestep_has_to_be_committed():
    with pytest.raises(NotReadyError, match="timestep 4 cannot be replayed: the last committed"):
        selected(ran(3), range(3, 5))
    made = bench(3)
    made.start()
    with pytest.raises(NotReadyError, match="none is committed yet"):
        selected(made, range(1, 2))


def test_the_state_that_it_begins_with_has_to_be_kept():
    made = ran(9, keep_versions=3)
    assert sorted(read_only(made.store).versions) == [7, 8, 9]
    with pytest.raises(RefusedError) as caught:
        selected(made, range(5, 7))
    assert str(caught.value) == (
        "timestep 5 cannot be replayed: it begins with that of 4, and state and output are kept of"
        " timesteps 7, 8, 9. Now the oldest timestep that can be replayed is 8; a larger"
        " Settings(keep_versions=...) keeps more from the next start on"
    )
    with pytest.raises(RefusedError, match="the oldest timestep that can be replayed is 8"):
        selected(made, range(7, 10))
    assert selected(made, range(8, 10)).started == (7,)


def test_the_output_of_the_first_timestep_has_to_be_kept():
    with pytest.raises(
        RefusedError, match=r"its output is compared, and .* kept of timesteps 4, 5"
    ):
        selected(ran(5, keep_versions=2), range(1, 3))


def test_with_one_version_nothing_can_be_replayed():
    with pytest.raises(RefusedError, match="Now no committed timestep can be replayed"):
        selected(ran(5, keep_versions=1), range(5, 6))


def test_the_journal_has_to_reach_back():
    made = ran(12, keep_versions=64, snapshot_every=2)
    state, entries = read_only(made.store), kept_entries(made.store)
    kept = [entry.body.timestep for entry in entries if isinstance(entry.body, Intent)]
    assert entries[0].number > 1
    assert kept[0] > 2
    with pytest.raises(RefusedError) as caught:
        select(state, entries, range(2, 13))
    oldest = int(str(caught.value).partition("can be replayed is ")[2].partition(";")[0])
    assert "no entry any more of what timestep 2 read" in str(caught.value)
    assert "Settings(snapshot_every=...)" in str(caught.value)
    assert select(state, entries, range(oldest, 13)).first == oldest


def test_entries_after_the_state_do_not_count():
    made = ran(4, keep_versions=10)
    before = read_only(made.store)
    made.start(replan=True)
    entries = kept_entries(made.store)
    assert entries[-1].number > before.number
    assert select(before, entries, range(2, 5)).last == 4


def test_timesteps_of_two_programs_are_replayed_apart():
    made = bench(6, keep_versions=10)
    process = made.start()
    while (process.journal.state.last_committed or 0) < 3:
        assert process.step()
    process.reconfigure(rc.changes.change_logic("positive", lambda row: row.v >= 1))
    process.run()
    state = read_only(made.store)
    switch = next(since for since, c in state.configurations if c.dataflow == 2)
    with pytest.raises(RefusedError) as caught:
        selected(made, range(2, 7))
    assert f"version 2 of the dataflow took over from version 1 at timestep {switch}" in str(
        caught.value
    )
    assert f"Replay range(2, {switch}) and range({switch}, 7) on their own" in str(caught.value)
    assert selected(made, range(2, switch)).program == 1
    assert selected(made, range(switch, 7)).program == 2


def test_state_that_was_loaded_is_not_no_state():
    rows = script(SCHEMA, [[{"k": "a", "v": 1}], [{"k": "a", "v": 1}]])
    loaded = pa.table({"k": ["a"], "n": pa.array([41], pa.int64())})
    counts = (
        rc.read()
        .memory(rows, name="rows")
        .key_by("k")
        .aggregate(n=agg.count(), name="counts", preload=lambda: loaded)
    )
    made = Harness(counts.write.memory("out", name="out"), settings=Settings(keep_versions=10))
    made.start().run()
    found = selected(made, range(1, 3))
    assert found.started == (0,)
    assert found.start.manifests["counts"].runs
