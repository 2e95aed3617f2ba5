"""A start that is refused, or that fails on an outage, leaves the journal meaning what it meant."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.journal import incarnations
from rechannel.engine.journal.entries import Notes, Opened
from rechannel.engine.journal.log import Journal
from rechannel.engine.journal.reading import read_only
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program import versions
from rechannel.errors import DataflowError, OtherDataflowError, RefusedError, StorageError
from rechannel.job import InProcess, Job
from rechannel.settings import Settings
from rechannel.sinks import files
from rechannel.state.stores.local import LocalStore
from rechannel.testing import script

QUIET = Settings(tasks=1, bins=4, telemetry=False)


def state_of(place: Path) -> JournalState:
    return read_only(LocalStore(place / "state"))


def meaning(state: JournalState) -> Any:
    """What does not change by opening alone."""
    return (
        state.offsets,
        state.manifests,
        state.notes,
        state.configurations,
        state.unpublished,
        state.open_intents,
        state.coordination,
    )


def sums(place: Path, sources: list[Any], *sinks: str) -> Job:
    """Sums of one or several sources, to a path per sink."""
    first, *more = [rc.read().memory(s, name=f"in{i}") for i, s in enumerate(sources)]
    total = first.union(*more) if more else first
    total = total.key_by("k").aggregate(total=agg.sum("v"), name="sums")
    ends = [total.write.parquet(str(place / name), name=name) for name in sinks]
    return Job("j", ends, state=str(place / "state"), settings=QUIET)


def rows(*values: int) -> list[dict[str, int]]:
    return [{"k": 1, "v": value} for value in values]


def fed(*batches: list[dict[str, int]]) -> Any:
    return script("k long, v long", list(batches))


def ran(job: Job, **how: Any) -> list[dict[str, Any]]:
    running = job.start(in_process=InProcess(), **how)
    try:
        running.process_all_available(60)
        return running.state("sums").to_pylist()
    finally:
        running.stop()


def taken(place: Path) -> str:
    (place / "taken" / "timestep=000000000001").mkdir(parents=True)
    return "taken"


@pytest.mark.parametrize("at", ["claim", "word"])
def test_an_outage_of_a_sink_during_a_revert_loses_no_state(tmp_path, monkeypatch, at):
    source = fed(rows(1))

    def ends(counted: bool) -> list[Any]:
        keyed = rc.read().memory(source, name="in").key_by("k")
        made = [keyed.aggregate(total=agg.sum("v"), name="sums").write.json(out, name="o")]
        if counted:
            counts = keyed.aggregate(n=agg.count(), name="counts")
            made.append(counts.write.json(f"{out}2", name="o2"))
        return made

    def job(counted: bool) -> Job:
        return Job("j", ends(counted), state=str(tmp_path / "state"), settings=QUIET)

    out, failed = str(tmp_path / "out"), []
    running = job(False).start(in_process=InProcess())
    running.process_all_available(60)
    running.reconfigure(rc.changes.change_dataflow(*ends(True))).wait(60)
    source.push(rows(2))
    running.process_all_available(60)
    running.stop()
    before = state_of(tmp_path)
    check = files.check

    def away(folder: Any, root: str, own: str, ledger: Any, **more: Any) -> None:
        if at == "claim" or ledger().opening:
            failed.append(root)
            raise StorageError("connection refused")
        check(folder, root, own, ledger, **more)

    with monkeypatch.context() as patch:
        patch.setattr(files, "check", away)
        with pytest.raises(StorageError, match="connection refused"):
            job(False).start(in_process=InProcess(), revert=True)
    after = state_of(tmp_path)
    assert failed
    assert after.epoch == before.epoch + (at == "word")
    assert meaning(after) == meaning(before)
    assert set(after.manifests) == {"sums", "counts"}
    ran(job(True))
    ran(job(False), revert=True)
    assert set(state_of(tmp_path).manifests) == {"sums"}


def test_a_source_keeps_its_offset_when_the_program_without_it_is_refused(tmp_path):
    one, two = fed(rows(1)), fed(rows(10))
    ran(sums(tmp_path, [one, two], "out"))
    before = state_of(tmp_path)
    with pytest.raises(RefusedError, match="already holds timesteps"):
        ran(sums(tmp_path, [one], taken(tmp_path)), without=["in1"])
    assert meaning(state_of(tmp_path)) == meaning(before)
    assert ran(sums(tmp_path, [one, two], "out")) == [{"k": 1, "total": 11}]


def test_a_takeover_that_is_refused_does_not_fence_the_driver_that_runs(tmp_path):
    source = fed(rows(1))
    running = sums(tmp_path, [source], "out").start(in_process=InProcess())
    running.process_all_available(60)
    with pytest.raises(RefusedError, match="already holds timesteps"):
        ran(sums(tmp_path, [source], taken(tmp_path)), takeover=True)
    source.push(rows(2))
    running.process_all_available(60)
    assert running.state("sums").to_pylist() == [{"k": 1, "total": 3}]
    running.stop()
    assert state_of(tmp_path).epoch == 1


def test_a_takeover_knows_what_the_driver_before_shows_until_it_is_fenced(tmp_path, monkeypatch):
    source = fed(rows(1))
    first = sums(tmp_path, [source], "out").start(in_process=InProcess())
    first.process_all_available(60)
    claim, before = files.claim, []

    def meanwhile(*given: Any) -> str:
        if not before:
            before.append(read_only(LocalStore(tmp_path / "state")).last_committed)
            source.push(rows(2))
            first.process_all_available(60)
        return claim(*given)

    monkeypatch.setattr(files, "claim", meanwhile)
    assert ran(sums(tmp_path, [source], "out"), takeover=True) == [{"k": 1, "total": 3}]
    assert before == [1]
    assert state_of(tmp_path).last_committed == 2
    with suppress(Exception):
        first.stop()


def test_a_sink_in_quarantine_keeps_its_rows_whatever_start_is_refused(tmp_path):
    source, broken = fed(rows(1)), [True]
    shown = []

    def write(frame: Any, timestep: int) -> None:
        if broken[0]:
            raise ValueError("away")
        shown.append(timestep)

    total = rc.read().memory(source, name="in").key_by("k").aggregate(n=agg.count(), name="sums")
    owes = total.write.on_failure("skip", attempts=1).for_each_batch(write, name="o")

    def job(*ends: Any) -> Job:
        return Job("j", list(ends), state=str(tmp_path / "state"), settings=QUIET)

    ran(job(owes))
    before = state_of(tmp_path)
    assert before.notes["quarantine"]
    other = total.write.json(str(tmp_path / taken(tmp_path)), name="t")
    with pytest.raises(OtherDataflowError, match=r"sink 'o', which is in quarantine .*release"):
        ran(job(other))
    with pytest.raises(RefusedError, match="already holds timesteps"):
        ran(job(other), without=["o"])
    assert meaning(state_of(tmp_path)) == meaning(before)
    broken[0] = False
    running = job(owes).start(in_process=InProcess())
    running.release("o")
    running.process_all_available(60)
    running.stop()
    assert shown == [1]


def test_initial_state_is_looked_at_before_anything_is_journalled(tmp_path):
    def job(column: str, total: str) -> Job:
        given = pa.table({"k": pa.array([1], pa.int64()), column: pa.array([5], pa.int64())})
        keyed = rc.read().memory(fed(rows(1)), name="in").key_by("k")
        made = keyed.track(
            lambda key, state, rows: (state or 0) + 1,
            state=total,
            name="sums",
            preload=lambda: given,
        )
        end = made.write.json(str(tmp_path / "out"), name="o")
        return Job("j", [end], state=str(tmp_path / "state"), settings=QUIET)

    refused = job("wrong", "total long")
    with pytest.raises(DataflowError, match="wrong"):
        ran(refused)
    assert state_of(tmp_path).number == 0
    assert ran(job("other", "other long")) == [{"k": 1, "other": 6}]


def test_what_a_program_means_is_one_entry(tmp_path, monkeypatch):
    said: list[Any] = []
    append = Journal.append

    def listened(journal: Journal, body: Any) -> JournalState:
        said.append(body)
        return append(journal, body)

    monkeypatch.setattr(Journal, "append", listened)
    ran(sums(tmp_path, [fed()], "out"))
    told = [body for body in said if isinstance(body, Notes)]
    assert [set(body.bodies) for body in told] == [{versions.NOTE, incarnations.NOTE}]
    said.clear()
    ran(sums(tmp_path, [fed()], "out"))
    assert isinstance(said[0], Opened)
    assert not [body for body in said if isinstance(body, Notes)]  # it says so already
