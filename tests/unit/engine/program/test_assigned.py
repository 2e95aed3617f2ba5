"""Functions that were made of parameters while a stream ran: they hold, also after its driver started again."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rechannel as rc
from rechannel.dataflow.identity import factories
from rechannel.engine.program import assigned
from rechannel.engine.program.versions import NOTE
from rechannel.errors import OldProgramError, OtherDataflowError, RefusedError
from rechannel.state.stores.memory import MemoryStore
from rechannel.testing import Crash, Fault, FaultKind, Harness, script
from rechannel.testing.process import Process

HERE = __name__
ELSEWHERE = "assigned_elsewhere"

SOURCE = """
import pyarrow.compute as pc

def plus(by: int):
    def add(batch):
        return batch.set_column(1, "v", pc.add(batch["v"], by))
    return add
"""


def plus(by: int, times: int = 1) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    def add(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.set_column(1, "v", pc.add(batch["v"], by * times))

    return add


def weighted(weights: list[float]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    return plus(int(sum(weights)))


def nothing(by: int) -> int:
    return by


ENDED = threading.Event()


def endless(by: int) -> Callable[..., Any]:
    try:
        while True:
            by += 1
    finally:
        ENDED.set()


def failing(by: int) -> Callable[..., Any]:
    raise LookupError(f"no model {by}")


def minus_one(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.set_column(1, "v", pc.subtract(batch["v"], 1))


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A module that no program is written in."""
    (tmp_path / f"{ELSEWHERE}.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield f"{ELSEWHERE}:plus"
    sys.modules.pop(ELSEWHERE, None)


def bench(store: MemoryStore, function: Any = None) -> tuple[Any, Harness]:
    rows = script("k bigint, v bigint")
    moved = rc.read().memory(rows, name="rows").map_batches(function or plus(0), name="moved")
    sums = moved.key_by("k").aggregate(total=rc.aggregates.sum("v"), name="sums")
    return rows, Harness(sums.write.memory("out"), store=store)


def push(rows: Any, process: Process) -> None:
    rows.push([{"k": 1, "v": 10}])
    process.run()


def change(process: Process, wanted: Any) -> None:
    process.reconfigure(wanted)
    process.run()  # until it is prepared


def total(harness: Harness) -> int:
    (row,) = harness.state("sums").to_pylist()
    return int(row["total"])


def assign(by: int, path: str = f"{HERE}:plus", **more: int) -> Any:
    return rc.changes.assign_logic("moved", path, {"by": by, **more})


def restarted(store: MemoryStore, pushed: int, function: Any = None) -> tuple[Any, Harness]:
    """The program again, whose source has what was pushed already."""
    rows, harness = bench(store, function)
    for _ in range(pushed):
        rows.push([{"k": 1, "v": 10}])
    return rows, harness


def test_a_factory_is_called_with_parameters_and_its_function_runs_from_then_on():
    rows, harness = bench(MemoryStore())
    process = harness.start()
    push(rows, process)
    change(process, assign(5))
    push(rows, process)
    assert total(harness) == 10 + 15
    change(process, assign(5, times=2))
    push(rows, process)
    assert total(harness) == 10 + 15 + 20
    text = process.journal.state.notes[NOTE]["3"]["text"]
    assert text == f"assign_logic('moved', '{HERE}:plus', parameters={{\"by\": 5, \"times\": 2}})"


def test_it_is_made_again_at_a_start_of_the_text_from_before():
    store = MemoryStore()
    rows, harness = bench(store)
    process = harness.start()
    push(rows, process)
    change(process, assign(5))
    push(rows, process)
    change(process, assign(7))
    push(rows, process)
    process.stop()
    for pushed in (3, 4):  # it holds at every later start, too
        rows, harness = restarted(store, pushed)
        process = harness.start()
        push(rows, process)
        process.stop()
    assert total(harness) == 10 + 15 + 17 * 3
    note = process.journal.state.notes[NOTE]
    assert sorted(note) == ["1", "2", "3"]
    assert note["3"]["assigned"]["moved"]["parameters"] == {"by": 7}


def test_the_text_counts_once_it_has_another_function():
    store = MemoryStore()
    rows, harness = bench(store)
    process = harness.start()
    change(process, assign(5))
    push(rows, process)
    process.stop()
    rows, harness = restarted(store, 1, minus_one)
    process = harness.start()
    push(rows, process)
    assert total(harness) == 15 + 9
    assert "assigned" not in process.journal.state.notes[NOTE]["2"]


def test_the_text_counts_after_a_change_to_a_function_of_the_program():
    store = MemoryStore()
    rows, harness = bench(store)
    process = harness.start()
    change(process, assign(5))
    push(rows, process)
    change(process, rc.changes.change_logic("moved", minus_one))
    push(rows, process)
    process.stop()
    with pytest.raises(OldProgramError, match="version 3: change_logic"):
        restarted(store, 2)[1].start()
    rows, harness = restarted(store, 2, minus_one)
    push(rows, harness.start())
    assert total(harness) == 15 + 9 + 9


def test_under_another_python_it_is_made_again_once_and_compared_from_then_on(monkeypatch):
    store = MemoryStore()
    rows, harness = bench(store)
    process = harness.start()
    change(process, assign(5))
    push(rows, process)
    process.stop()
    monkeypatch.setattr(assigned, "PYTHON", "4.0")
    rows, harness = restarted(store, 1, minus_one)  # as if this were the digest under the other one
    process = harness.start()
    push(rows, process)
    process.stop()
    assert total(harness) == 15 + 15
    note = process.journal.state.notes[NOTE]["2"]["assigned"]["moved"]
    assert note["python"] == "4.0"
    rows, harness = restarted(store, 2, plus(3))
    push(rows, harness.start())
    assert total(harness) == 15 + 15 + 13


def test_another_change_is_not_undone_beside_it():
    store = MemoryStore()
    rows, harness = bench(store)
    process = harness.start()
    both = {"total": rc.aggregates.sum("v"), "n": rc.aggregates.count()}
    change(process, rc.changes.change_logic("sums", both))
    push(rows, process)
    change(process, assign(5))
    push(rows, process)
    process.stop()
    with pytest.raises(OldProgramError, match="version 2: change_logic"):
        restarted(store, 2)[1].start()


def test_revert_goes_on_with_the_text():
    store = MemoryStore()
    rows, harness = bench(store)
    process = harness.start()
    change(process, assign(5))
    push(rows, process)
    process.stop()
    rows, harness = restarted(store, 1)
    process = harness.start(revert=True)
    push(rows, process)
    process.stop()
    assert total(harness) == 15 + 10
    rows, harness = restarted(store, 2)
    push(rows, harness.start())
    assert total(harness) == 15 + 10 + 10


def test_what_only_the_journal_names_is_imported_if_the_owner_allows_it(elsewhere):
    store = MemoryStore()
    rows, harness = bench(store)
    process = harness.start()
    change(process, assign(5, elsewhere))
    push(rows, process)
    process.stop()
    sys.modules.pop(ELSEWHERE)
    with pytest.raises(
        OtherDataflowError, match=rf"allow it with rc.Job\(allow=\['{ELSEWHERE}'\]\)"
    ):
        restarted(store, 1)[1].start()
    with pytest.raises(OtherDataflowError, match="may not be loaded"):
        restarted(store, 1)[1].start(allow=["another"])
    assert ELSEWHERE not in sys.modules
    rows, harness = restarted(store, 1)
    push(rows, harness.start(allow=[ELSEWHERE]))
    assert total(harness) == 15 + 15


def change_and_push(process: Process, rows: Any) -> None:
    change(process, assign(5))
    push(rows, process)


@pytest.mark.parametrize("kind", [FaultKind.BEFORE, FaultKind.AFTER])
@pytest.mark.parametrize("stop", range(0, 11, 2))
def test_a_crash_keeps_it_or_not_at_all(stop, kind):
    store = MemoryStore()
    rows, harness = bench(store)
    process = harness.start()
    push(rows, process)
    process.stop()
    rows, harness = restarted(store, 1)
    process = harness.start(faults=[*[None] * (stop + 3), Fault(kind=kind)])
    with pytest.raises(Crash):
        change_and_push(process, rows)
    rows, harness = restarted(store, 2)
    process = harness.start()
    process.run()
    version = process.position.configuration.dataflow
    assert total(harness) == 10 + {1: 10, 2: 15}[version]


@pytest.mark.parametrize(
    ("path", "parameters", "why"),
    [
        ("plus", {}, "by: is missing"),
        ("plus", {"by": "5"}, "by: Expected `int`, got `str`"),
        ("plus", {"by": 5, "no": 1}, "no: there is no such parameter"),
        (
            "failing",
            {"by": 5},
            "(?s)made no function of these parameters: .*LookupError: no model 5",
        ),
        ("nothing", {"by": 5}, "returned int, which is no function"),
    ],
)
def test_parameters_are_tried_before_anything_happens(path, parameters, why):
    rows, harness = bench(MemoryStore())
    process = harness.start()
    push(rows, process)
    with pytest.raises(RefusedError, match=why):
        process.reconfigure(rc.changes.assign_logic("moved", f"{HERE}:{path}", parameters))
    assert process.changes.coordination.records == ()
    assert not process.switch.busy


def test_a_factory_that_does_not_end_is_refused(monkeypatch):
    monkeypatch.setattr(factories, "FACTORY_SECONDS", 0.2)
    _, harness = bench(MemoryStore())
    process = harness.start()
    with pytest.raises(RefusedError, match=r"made no function.*it took longer than 0\.2 s"):
        process.reconfigure(assign(1, f"{HERE}:endless"))
    assert ENDED.wait(10)  # it was interrupted


def test_arrays_are_parameters_and_large_ones_are_refused():
    change = rc.changes.assign_logic("moved", f"{HERE}:weighted", {"weights": np.ones(3)})
    assert change.parameters == {"weights": [1.0, 1.0, 1.0]}
    large = {"weights": np.zeros(200_000)}
    with pytest.raises(
        RefusedError, match=r"more than 262,144 bytes as JSON.*keep a large model in a file"
    ):
        rc.changes.assign_logic("moved", f"{HERE}:weighted", large)
    with pytest.raises(RefusedError, match=r"assign_logic: parameters: Out of range float"):
        rc.changes.assign_logic("moved", f"{HERE}:weighted", {"weights": [float("nan")]})
    some = rc.changes.assign_logic("moved", f"{HERE}:weighted", {"weights": [0.5] * 1_000})
    assert "parameters=<5,013 bytes, sha256 " in str(some)


def test_without_parameters_a_request_is_written_as_before():
    change = rc.changes.assign_logic("moved", "m:f")
    assert change.to_json() == {"kind": "assign_logic", "operator": "moved", "function": "m:f"}
    assert str(change) == "assign_logic(operator='moved', function='m:f')"
