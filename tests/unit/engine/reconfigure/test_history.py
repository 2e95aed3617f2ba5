"""The history of reconfigurations: what its files say, and that none is missing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel import changes
from rechannel.engine.journal.entries import Reconfiguring
from rechannel.engine.reconfigure.history import (
    AROUND,
    FORMAT,
    History,
    number_of,
    phases,
    read_history,
    read_one,
    summary,
)
from rechannel.engine.reconfigure.latencies import Latencies
from rechannel.engine.reconfigure.measured import Measured
from rechannel.errors import DamagedStateError, NewerFormatError, NotReadyError
from rechannel.reconfigure import strategies
from rechannel.reconfigure.record import Phase, Record, TakenStep
from rechannel.settings import Settings
from rechannel.state.keys import RECONFIGURATIONS
from rechannel.state.sealed import seal
from rechannel.state.stores.faulty import Crash
from rechannel.testing import Harness, MemoryStore, script

DONE = Record(
    id="r1",
    change=changes.move("counts", [0, 1], 1),
    strategy=strategies.fluid(gap=1),
    cause="a test",
    phase=Phase.DONE,
    taken=(
        TakenStep(timestep=100, time_ms=1_500, bins=1, size=10.4),
        TakenStep(timestep=102, time_ms=1_700, bins=1, size=10.4),
    ),
    times={"waiting": 1_000, "ready": 1_200, "moving": 1_490, "done": 1_800},
    prepared={"bytes": 5},
    drivers=1,
)


def measured_of(latencies: Iterable[tuple[int, float]] = ()) -> Measured:
    measured = Measured(dict)
    measured.latencies = Latencies(latencies)
    return measured


def files(store: MemoryStore) -> list[str]:
    return sorted(store.list(RECONFIGURATIONS))


# What is told --------------------------------------------------------------------------------------


def test_a_summary_says_what_was_asked_what_happened_and_what_it_cost():
    told = summary(DONE)
    assert json.loads(json.dumps(told)) == told
    assert told == {
        "id": "r1",
        "change": "move(operator='counts', bins=[0, 1], task=1)",
        "strategy": "fluid(gap=1)",
        "cause": "a test",
        "phase": "done",
        "reason": "",
        "steps": {"made": 2, "left": 0},
        "bins": 2,
        "bytes": 21,
        "first_timestep": 100,
        "last_timestep": 102,
        "phases_ms": {"prepare": 200, "synchronize": 300, "update": 300},
        "times": DONE.times,
        "prepared": {"bytes": 5},
        "drivers": 1,
        "latency_ms": {},
    }


def test_latencies_are_told_before_during_and_after():
    latencies = [(t, 10.0) for t in range(60, 100)]
    latencies += [(100, 50.0), (101, 20.0), (102, 30.0)]
    latencies += [(t, 12.0) for t in range(103, 150)]
    latencies[5] = (65, 1_000.0)  # too long before
    latencies[-1] = (149, 1_000.0)  # and too long after
    told = summary(DONE, Latencies(latencies))["latency_ms"]
    assert told == {
        "before": {"p50": 10.0, "p99": 10.0, "max": 10.0, "timesteps": AROUND},
        "during": {"p50": 30.0, "p99": 49.6, "max": 50.0, "timesteps": 3},
        "after": {"p50": 12.0, "p99": 12.0, "max": 12.0, "timesteps": AROUND},
    }


def test_what_was_not_measured_is_not_told():
    assert set(summary(DONE, Latencies([(101, 5.0)]))["latency_ms"]) == {"during"}
    assert summary(replace(DONE, taken=()), Latencies([(101, 5.0)]))["latency_ms"] == {}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        # For a timestep: it began without being ready.
        (
            replace(DONE, times={"waiting": 1_000, "moving": 1_490, "done": 1_800}),
            {"prepare": None, "synchronize": 500, "update": 300},
        ),
        # Made by a driver whose clock was behind.
        (
            replace(DONE, times={"waiting": 1_000, "ready": 1_600, "superseded": 1_400}),
            {"prepare": 600, "synchronize": 0, "update": 0},
        ),
        (
            replace(DONE, taken=(), times={"waiting": 1_000, "failed": 1_100}),
            {"prepare": None, "synchronize": None, "update": None},
        ),
        (
            replace(DONE, times={"waiting": 1_000, "ready": 1_000, "undone": 2_000}),
            {"prepare": 0, "synchronize": 500, "update": 500},
        ),
    ],
)
def test_phases_are_those_of_trisk(record, expected):
    assert phases(record) == expected


def test_one_that_has_not_begun_has_no_timesteps():
    told = summary(replace(DONE, taken=(), phase=Phase.ABORTED, reason="no more"))
    assert (told["first_timestep"], told["last_timestep"], told["bins"]) == (None, None, 0)
    assert (told["phase"], told["reason"]) == ("aborted", "no more")


# Files ---------------------------------------------------------------------------------------------


def test_one_that_is_over_is_written_at_once_and_again_when_what_followed_is_known():
    store, measured = MemoryStore(), measured_of([(100, 5.0)])
    history = History(store, measured)
    history.over(DONE)
    assert set(read_history(store)[0]["latency_ms"]) == {"during"}
    for timestep in range(103, 103 + AROUND):
        measured.latencies.add(timestep, 7.0)
    history.committed(102 + AROUND - 1)
    assert set(read_history(store)[0]["latency_ms"]) == {"during"}
    history.committed(102 + AROUND)
    assert read_history(store)[0]["latency_ms"]["after"]["timesteps"] == AROUND
    # And then it is left alone.
    store.delete(files(store)[0])
    history.committed(102 + AROUND + 1)
    assert files(store) == []


def test_one_that_made_no_step_waits_for_no_timesteps():
    store = MemoryStore()
    history = History(store, measured_of())
    history.over(replace(DONE, taken=(), phase=Phase.ABORTED))
    store.delete(files(store)[0])
    history.committed(1)
    assert len(files(store)) == 1
    store.delete(files(store)[0])
    history.committed(2)
    assert files(store) == []


def test_a_driver_that_ends_writes_what_it_knows():
    store, measured = MemoryStore(), measured_of()
    history = History(store, measured)
    history.over(DONE)
    measured.latencies.add(103, 7.0)
    history.finish()
    assert read_history(store)[0]["latency_ms"]["after"]["timesteps"] == 1
    store.delete(files(store)[0])
    history.finish()
    assert files(store) == []


def test_what_a_driver_could_not_write_its_successor_writes():
    store = MemoryStore()
    there = replace(DONE, cause="written before")
    History(store, measured_of()).over(there)
    open_ = replace(DONE, id="r3", phase=Phase.MOVING)
    History(store, measured_of()).repair([DONE, replace(DONE, id="r2"), open_])
    told = read_history(store)
    assert [(body["id"], body["cause"]) for body in told] == [
        ("r1", "written before"), ("r2", "a test"),
    ]  # fmt: skip


def test_the_newest_are_kept():
    store = MemoryStore()
    history = History(store, measured_of(), kept=2)
    for number in range(1, 6):
        history.over(replace(DONE, id=f"r{number}", taken=()))
    history.finish()
    assert [body["id"] for body in read_history(store)] == ["r4", "r5"]


def test_reading_gives_all_in_their_order_and_those_under_way():
    store = MemoryStore()
    history = History(store, measured_of())
    for number in (10, 9, 1):
        history.over(replace(DONE, id=f"r{number}"))
    open_ = [
        replace(DONE, id="r9", phase=Phase.MOVING, cause="the file knows better"),
        replace(DONE, id="r2", phase=Phase.WAITING, taken=()),
    ]
    told = read_history(store, open_)
    assert [body["id"] for body in told] == ["r1", "r2", "r9", "r10"]
    assert [body["phase"] for body in told] == ["done", "waiting", "done", "done"]
    assert "format" not in told[0]
    assert read_history(MemoryStore()) == []


def test_of_the_last_ones_no_other_file_is_read():
    store = MemoryStore()
    history = History(store, measured_of())
    for number in (9, 10, 11):
        history.over(replace(DONE, id=f"r{number}"))
    store.put(f"{RECONFIGURATIONS}r9.json", b"damaged")
    open_ = [replace(DONE, id="r12", phase=Phase.MOVING)]
    assert [body["id"] for body in read_history(store, open_, 3)] == ["r10", "r11", "r12"]
    assert [body["id"] for body in read_history(store, open_, 1)] == ["r12"]
    with pytest.raises(DamagedStateError, match=r"r9\.json"):
        read_history(store, open_, 4)


def test_one_that_is_over_is_told_of_before_its_file_is_there():
    store = MemoryStore()
    assert [body["phase"] for body in read_history(store, [DONE])] == ["done"]
    assert read_one(store, "r1", [DONE])["phase"] == "done"


def test_one_is_read_from_its_own_file():
    store = MemoryStore()
    History(store, measured_of()).over(DONE)
    assert (
        read_one(store, "r1", [replace(DONE, cause="the file knows better")])["cause"] == "a test"
    )
    assert "format" not in read_one(store, "r1")


@pytest.mark.parametrize("id_", ["r2", "x", "", "../journal/1"])
def test_one_that_there_is_not_is_not_found(id_):
    store = MemoryStore()
    History(store, measured_of()).over(DONE)
    with pytest.raises(NotReadyError, match="there is no reconfiguration"):
        read_one(store, id_)


def test_files_that_are_damaged_or_newer_are_not_guessed_at():
    store = MemoryStore()
    key = f"{RECONFIGURATIONS}r1.json"
    store.put(key, seal({"format": FORMAT + 1}))
    with pytest.raises(NewerFormatError, match=r"r1\.json"):
        read_history(store)
    store.put(key, seal({"format": FORMAT, "id": "r1"})[:-3])
    with pytest.raises(DamagedStateError, match=r"r1\.json"):
        read_history(store)


@pytest.mark.parametrize("id_", ["x1", "r", "r1x", "r-1", ""])
def test_an_id_is_a_number(id_):
    assert number_of("r12") == 12
    with pytest.raises(DamagedStateError, match="is not the id of a reconfiguration"):
        number_of(id_)


# In a driver ---------------------------------------------------------------------------------------


def counted(timesteps: int = 3) -> Harness:
    rows = [[{"k": k} for k in range(9)]] * timesteps
    stream = rc.read().memory(script("k long", rows), name="in")
    counts = stream.key_by("k").aggregate(n=agg.count(), name="counts")
    return Harness(counts.write.memory("out"), settings=Settings(bins=8))


def test_a_driver_that_dies_between_the_journal_and_the_history_leaves_no_gap():
    harness = counted()
    process = harness.start()
    process.reconfigure(changes.move("counts", 0, 1))
    append = process.journal.append

    def dies(body: object) -> None:
        append(body)  # type: ignore[arg-type]
        if isinstance(body, Reconfiguring) and body.event.kind == "finished":
            raise Crash

    process.journal.append = dies  # type: ignore[method-assign, assignment]
    with pytest.raises(Crash):
        process.run()
    assert list(harness.store.list(RECONFIGURATIONS)) == []
    harness.start()
    (body,) = read_history(harness.store)
    assert (body["id"], body["phase"], body["bins"]) == ("r1", "done", 1)


def test_a_driver_writes_what_became_of_everything():
    harness = counted(4 + AROUND)
    process = harness.start()
    process.reconfigure(changes.move("counts", [0, 1], 1), strategies.fluid(), at=2)
    process.reconfigure(changes.set_interval(3), at=5_000)
    process.abort("r2")
    process.run()
    first, second = read_history(harness.store)
    assert (first["phase"], first["first_timestep"], first["last_timestep"]) == ("done", 2, 3)
    assert {name: part["timesteps"] for name, part in first["latency_ms"].items()} == {
        "before": 1, "during": 2, "after": AROUND,
    }  # fmt: skip
    assert (second["phase"], second["reason"]) == ("aborted", "aborted by a test")
