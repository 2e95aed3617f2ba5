"""State edited by hand: what the function may return, what the journal keeps, and drivers that die at any write."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.journal.acts import acts_of
from rechannel.engine.journal.reading import read_only
from rechannel.engine.loop.housekeeping import sweep
from rechannel.engine.repair import editing
from rechannel.errors import (
    NotReadyError,
    OtherDataflowError,
    RefusedError,
    StateInUseError,
    UnknownOperatorError,
    UserFunctionError,
)
from rechannel.state.keys import LEASE
from rechannel.state.stores.local import Durability, LocalStore
from rechannel.testing import Crash, Fault, FaultKind, FaultyStore, script

HERE = rc.InProcess()
WHY: Any = {"reason": "ticket 7", "in_process": HERE}


def doubled(rows: pa.Table) -> pa.Table:
    at = rows.schema.get_field_index("total.sum")
    twice = pc.multiply(rows.column(at), 2).cast(rows.schema.field(at).type)
    return rows.set_column(at, rows.schema.field(at), twice)


def without_b(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.not_equal(rows["k"], "b"))


def with_z(rows: pa.Table) -> pa.Table:
    row = {"k": "z", "n.count": 7, "total.sum": 70}
    return pa.concat_tables([rows, pa.Table.from_pylist([row], schema=rows.schema)])


class Sums:
    """A job of sums by key. keys: that come at first, each with its number."""

    def __init__(self, place: Path, keys: str = "abc") -> None:
        self.place, self.source = place, script("k STRING, v BIGINT")
        self.push(**{key: number for number, key in enumerate(keys, 1)})

    def push(self, **values: int) -> None:
        self.source.push([{"k": k, "v": v} for k, v in values.items()])

    def job(self, name: str = "op", store: Any = None) -> rc.Job:
        rows = rc.read().memory(self.source, name="in").key_by("k")
        op = rows.aggregate(n=agg.count(), total=agg.sum("v"), name=name)
        state = self.place / "state" if store is None else store
        return rc.Job("sums", op.write.memory("out", name="out"), state=state)

    def run(self, **values: int) -> dict[str, tuple[int, int]]:
        """Run over what is there, and more; return the state."""
        if values:
            self.push(**values)
        running = self.job().start(in_process=HERE)
        running.process_all_available()
        self.seen = running.memory("out").to_pylist()
        rows = running.state("op").to_pylist()
        running.stop()
        return {row["k"]: (row["n"], row["total"]) for row in rows}


@pytest.fixture
def sums(tmp_path: Path) -> Sums:
    made = Sums(tmp_path)
    assert made.run() == {"a": (1, 1), "b": (1, 2), "c": (1, 3)}
    return made


def test_rows_are_changed_added_and_removed_and_the_stream_goes_on(sums):
    job = sums.job()
    planned = job.edit_state("op", doubled, plan=True, **WHY)
    assert (planned.changed, planned.added, planned.removed, planned.same) == (3, 0, 0, 0)
    assert not planned.done
    assert sums.run() == {"a": (1, 1), "b": (1, 2), "c": (1, 3)}
    done = job.edit_state("op", doubled, **WHY)
    assert (done.changed, done.done, done.timestep) == (3, True, 1)
    assert str(job.edit_state("op", without_b, **WHY)) == (
        "State of 'op' as of timestep 1 is edited: 0 rows changed, 0 added, 1 removed, 2 as before"
    )
    assert job.edit_state("op", with_z, **WHY).added == 1
    assert sums.run(a=10, b=20, z=30) == {"a": (2, 12), "b": (1, 20), "c": (1, 6), "z": (8, 100)}


def test_downstream_sees_an_edited_key_when_a_row_of_it_comes(sums):
    sums.job().edit_state("op", doubled, **WHY)
    sums.run()
    assert sums.seen == []
    sums.run(c=1)
    assert sums.seen == [{"k": "c", "n": 2, "total": 7}]


def test_the_history_says_who_what_and_why(sums):
    job = sums.job()
    job.edit_state("op", doubled, **WHY)
    act = acts_of(read_only(job._store).notes)[-1]
    assert (act["kind"], act["cause"], act["timestep"]) == ("edit", "ticket 7", 1)
    assert act["what"].startswith(
        f"state of 'op' with {__name__}:doubled: 3 rows changed, 0 added, 0 removed, by "
    )
    assert "@" in act["what"]


def test_an_edit_is_made_once_unless_it_is_said(sums):
    job = sums.job()
    job.edit_state("op", doubled, **WHY)
    with pytest.raises(RefusedError, match="this edit was made already"):
        job.edit_state("op", doubled, **WHY)
    job.edit_state("op", doubled, again=True, **WHY)
    assert sums.run(a=1)["a"] == (2, 5)
    job.edit_state("op", doubled, **WHY)
    assert sums.run()["a"] == (2, 10)


def test_what_changes_nothing_writes_nothing(sums):
    job = sums.job()
    number = read_only(job._store).number
    found = job.edit_state("op", lambda rows: rows.take(list(range(len(rows)))[::-1]), **WHY)
    assert (found.same, found.done) == (3, False)
    assert "does not change" in str(found)
    assert read_only(job._store).number == number


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda rows: rows.select(["k"]), r"returned the columns k string, but they are k string"),
        (lambda rows: rows.to_pylist(), "returned list, not an Arrow table"),
        (lambda rows: pa.concat_tables([rows, rows]), r"returned two rows with the key \['"),
        (lambda rows: rows["none"], "raised KeyError"),
        (
            lambda rows: rows.set_column(1, "n.count", rows["n.count"].cast(pa.string())),
            "returned the columns .*n.count string",
        ),
    ],
)
def test_what_a_function_must_not_do(sums, function, said):
    job = sums.job()
    number = read_only(job._store).number
    with pytest.raises(UserFunctionError, match=said):
        job.edit_state("op", function, **WHY)
    assert read_only(job._store).number == number
    assert sums.run() == {"a": (1, 1), "b": (1, 2), "c": (1, 3)}


def test_what_is_refused_before_the_function_runs(sums, tmp_path):
    with pytest.raises(UnknownOperatorError, match=r"no operator 'ops' with state.*op"):
        sums.job().edit_state("ops", doubled, **WHY)
    with pytest.raises(OtherDataflowError):
        sums.job("other").edit_state("other", doubled, **WHY)
    new = Sums(tmp_path / "new")
    with pytest.raises(NotReadyError, match="no timestep is committed yet"):
        new.job().edit_state("op", doubled, **WHY)
    running = sums.job().start(in_process=HERE)
    with pytest.raises(StateInUseError):
        sums.job().edit_state("op", doubled, **WHY)
    running.stop()


def test_a_large_state_is_given_in_pieces(tmp_path, monkeypatch):
    sums = Sums(tmp_path, "abcdefghij")
    sums.run()
    made = editing.StateEdit
    monkeypatch.setattr("rechannel.job.job.StateEdit", lambda **given: made(piece_rows=2, **given))
    sizes = []

    def seen(rows: pa.Table) -> pa.Table:
        sizes.append(len(rows))
        return doubled(rows)

    assert sums.job().edit_state("op", seen, **WHY).changed == 10
    assert len(sizes) == 6
    assert sum(sizes) == 10
    found = sums.run(a=1)
    assert found == {"a": (2, 3), **{k: (1, 2 * n) for n, k in enumerate("bcdefghij", 2)}}
    with pytest.raises(UserFunctionError, match=r"the key \['z'\].*belongs to another piece"):
        sums.job().edit_state("op", with_z, **WHY)


def test_a_state_of_large_rows_is_given_in_pieces(tmp_path, monkeypatch):
    sums = Sums(tmp_path, "abcdefghij")
    sums.run()
    runs = read_only(sums.job()._store).manifests["op"].state
    made = editing.StateEdit
    given = {"piece_bytes": sum(run.size for run in runs) // 4}
    monkeypatch.setattr("rechannel.job.job.StateEdit", lambda **said: made(**said, **given))
    sizes = []

    def seen(rows: pa.Table) -> pa.Table:
        sizes.append(len(rows))
        return rows

    assert not sums.job().edit_state("op", seen, **WHY).changed
    assert (len(sizes), sum(sizes)) == (5, 10)


def test_a_savepoint_keeps_the_state_of_before(sums):
    running = sums.job().start(in_process=HERE)
    running.savepoint("before", cause="a test")
    running.stop()
    job = sums.job()
    job.edit_state("op", without_b, **WHY)
    state = read_only(job._store)
    kept = state.savepoints["before"].version.manifests["op"]
    assert kept != state.manifests["op"]
    sums.run(c=1)
    assert all(job._store.size(run.segment) for run in kept.runs)


def minutes(source: Any, place: Path) -> rc.Job:
    rows = rc.read().memory(source, name="in").event_time("t").key_by("k")
    op = rows.window(rc.windows.tumbling("1 minute")).aggregate(n=agg.count(), name="op")
    return rc.Job("minutes", op.write.memory("out", name="out"), state=place)


def test_windows_that_are_edited_close_with_what_they_are(tmp_path):
    source = script("k STRING, t TIMESTAMP")

    def push(key: str, minute: int) -> None:
        source.push([{"k": key, "t": datetime(2026, 1, 1, 0, minute, tzinfo=UTC)}])

    def run() -> list[tuple[str, int]]:
        running = minutes(source, tmp_path).start(in_process=HERE)
        running.process_all_available()
        rows = running.memory("out").to_pylist()
        running.stop()
        return [(row["k"], row["n"]) for row in rows]

    for key in "aab":
        push(key, 1)
    assert run() == []

    def more(rows: pa.Table) -> pa.Table:
        assert rows.column_names == ["k", "window_start", "n.count"]
        kept = rows.filter(pc.equal(rows["k"], "a"))
        return kept.set_column(2, kept.schema.field(2), pc.add(kept["n.count"], 10))

    found = minutes(source, tmp_path).edit_state("op", more, **WHY)
    assert (found.changed, found.removed) == (1, 1)
    push("c", 9)
    assert run() == [("a", 12)]


@pytest.mark.parametrize("kind", [FaultKind.BEFORE, FaultKind.AFTER])
def test_an_edit_that_dies_at_any_write_is_made_once_by_the_same_call(tmp_path, kind):
    for writes in count():
        sums = Sums(tmp_path / f"{kind}-{writes}")
        sums.run()
        store = sums.job()._store

        def faults(writes: int = writes) -> Iterator[Fault | None]:
            yield from [None] * writes
            yield Fault(kind=kind)

        job = sums.job(store=FaultyStore(store, faults()))
        try:
            job.edit_state("op", doubled, **WHY)
            ended = True
        except Crash:
            ended = False
            store.delete(LEASE)  # its process is gone
            if not acts_of(read_only(store).notes):
                sums.job().edit_state("op", doubled, **WHY)
            else:
                with pytest.raises(RefusedError, match="was made already"):
                    sums.job().edit_state("op", doubled, **WHY)
        assert sums.run(b=1) == {"a": (1, 2), "b": (2, 5), "c": (1, 6)}
        if ended:
            break
    assert writes > 3


def test_an_edit_that_another_one_came_before_changes_nothing(sums):
    job = sums.job()

    def interrupted(rows: pa.Table) -> pa.Table:
        job._store.delete(LEASE)  # as if it had given no sign for too long
        sums.job().edit_state("op", without_b, **WHY)
        return doubled(rows)

    with pytest.raises(StateInUseError, match="another process has written to the state directory"):
        job.edit_state("op", interrupted, **WHY)
    assert read_only(job._store).closed
    assert sums.run() == {"a": (1, 1), "c": (1, 3)}


def test_an_edit_is_known_behind_other_ones(sums):
    job = sums.job()
    job.edit_state("op", doubled, **WHY)
    job.edit_state("op", without_b, **WHY)
    with pytest.raises(RefusedError, match="made already"):
        job.edit_state("op", doubled, **WHY)
    assert sums.run() == {"a": (1, 2), "c": (1, 6)}


def test_a_driver_that_was_replaced_and_still_sweeps_leaves_the_files_of_an_edit(tmp_path):
    sums = Sums(tmp_path)
    sums.run()
    store = LocalStore(tmp_path / "state", Durability.PROCESS)
    before = read_only(store)
    sums.job().edit_state("op", doubled, **WHY)
    sweep(store, lambda: before, lambda: None)
    assert sums.run() == {"a": (1, 2), "b": (1, 4), "c": (1, 6)}


def test_a_driver_that_was_replaced_and_still_sweeps_leaves_the_state_that_an_upgrade_loads(
    tmp_path,
):
    sums = Sums(tmp_path)
    sums.run()
    store = LocalStore(tmp_path / "state", Durability.PROCESS)
    before = read_only(store)
    rows = rc.read().memory(sums.source, name="in").key_by("k")
    op = rows.aggregate(n=agg.count(), total=agg.sum("v"), name="op")
    given = pa.table({"k": ["z"], "m": pa.array([7], pa.int64())})
    more = rows.aggregate(m=agg.count(), name="more", preload=lambda: given)
    flows = [op.write.memory("out", name="out"), more.write.memory("more", name="to-more")]
    job = rc.Job("sums", flows, state=tmp_path / "state")
    running = job.start(upgrade=True, in_process=HERE)
    running.process_all_available()
    sweep(store, lambda: before, lambda: None)
    assert running.state("more").to_pylist() == [{"k": "z", "m": 7}]
    running.stop()
