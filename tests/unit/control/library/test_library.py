"""What all controllers of the library have in common."""

import inspect
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import rechannel as rc
from rechannel.control.loading import Wanted
from rechannel.errors import RefusedError
from rechannel.model.codec import decode, encode
from rechannel.testing import Crash, Fault, FaultKind
from tests.unit.control.library import models
from tests.unit.control.library.skewed import counting, keys_of

NAMES = rc.control.library.__all__
NEEDED: dict[str, dict[str, Any]] = {
    "ModelUpdate": {
        "operator": "score",
        "labelled": "cases",
        "factory": f"{models.__name__}:over",
        "train": f"{models.__name__}:learn",
    }
}
"""Arguments without a default."""
OF_ONE_TASK = keys_of(lambda _, task: task == 0, bins=8, count=100)


def find(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_made_from_its_import_path_with_checked_parameters(name):
    path = f"rechannel.control.library:{name}"
    made = Wanted(path=path, parameters=NEEDED.get(name, {})).made(find)
    assert isinstance(made.controller, find(path))
    parameters = list(inspect.signature(find(path)).parameters)
    wrong = {each: {"no": "number"} for each in parameters}
    with pytest.raises(RefusedError) as refused:
        Wanted(path=path, parameters=wrong).made(find)
    assert all(f"{each}: " in str(refused.value) for each in parameters)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_a_page(name):
    file = inspect.getsourcefile(find(f"rechannel.control.library:{name}"))
    assert file is not None
    assert len(Path(file).read_text("utf-8").splitlines()) <= 110


@pytest.mark.parametrize("name", NAMES)
def test_its_state_is_a_value_that_comes_back_from_json(name):
    first = find(f"rechannel.control.library:{name}")(**NEEDED.get(name, {})).on_init()
    assert decode(type(first), encode(first)) == first


GIVEN: dict[str, dict[str, Any]] = {
    "AutoScale": {"latency_ms": 1_000},
    "Balance": {"cool_down": 3},
    "Guard": {"window": 2},
    "Monitor": {"timesteps": 2},
    "SkewJoin": {"looks": 1, "cool_down": 3},
}
"""Arguments with which they act soon, or on any stream."""


def controllers() -> list[rc.control.Controller]:
    """All that can watch any stream."""
    kinds = {name: getattr(rc.control.library, name) for name in NAMES if name not in NEEDED}
    return [kind(**GIVEN.get(name, {})) for name, kind in kinds.items()]


def test_they_go_on_where_they_were_after_a_crash():
    """One key is hot, so Balance asks tasks for it; the other keys have bins that can move."""
    under_way: Counter[str] = Counter()
    batch = [*OF_ONE_TASK, *OF_ONE_TASK[:1] * 300]
    for stop in range(30, 130, 10):
        stream = counting([batch] * 24, bins=8)
        fault = Fault(kind=(FaultKind.BEFORE, FaultKind.AFTER)[stop // 10 % 2])
        crashing = stream.start(controllers=controllers(), faults=[*[None] * stop, fault])
        with pytest.raises(Crash):
            crashing.run()
        seats = crashing.controllers.board.seats
        under_way.update(name for name, seat in seats.items() if seat.operation is not None)
        process = stream.start(controllers=controllers())
        process.run()
        seats = process.controllers.board.seats
        assert set(seats) == {name.lower() for name in NAMES if name not in NEEDED}
        assert {name: seat.failed for name, seat in seats.items() if seat.failed} == {}
        assert not [
            line.text for seat in seats.values() for line in seat.log if "failed" in line.text
        ]
        records = process.changes.coordination.records
        causes = {record.cause.partition(":")[0] for record in records}
        assert causes <= {f"controller {name!r}" for name in seats}
        origins = [record.origin for record in records]
        assert len(origins) == len(set(origins)) >= 1
        rows = sum(table.num_rows for table in stream.outputs().values())
        assert rows == len(set(batch)) * 24
    assert under_way.keys() >= {"balance", "monitor", "skewjoin"}
