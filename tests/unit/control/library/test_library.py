"""What all controllers of the library have in common."""

import inspect
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


def controllers() -> list[rc.control.Controller]:
    library = rc.control.library
    return [
        library.Balance(cool_down=3),
        library.Guard(window=2),
        library.Monitor(timesteps=2),
        library.SkewJoin(looks=1, cool_down=3),
    ]


@pytest.mark.parametrize("stop", [20, 45, 70, 95, 120])
@pytest.mark.parametrize("kind", [FaultKind.BEFORE, FaultKind.AFTER])
def test_they_go_on_where_they_were_after_a_crash(stop, kind):
    stream = counting([OF_ONE_TASK] * 24, bins=8)
    with pytest.raises(Crash):
        stream.start(controllers=controllers(), faults=[*[None] * stop, Fault(kind=kind)]).run()
    process = stream.start(controllers=controllers())
    process.run()
    seats = process.controllers.board.seats.values()
    assert [seat.failures for seat in seats] == [0] * 4
    records = process.changes.coordination.records
    assert {record.cause.partition(":")[0] for record in records} <= {
        "controller 'balance'",
        "controller 'guard'",
    }
    origins = [record.origin for record in records]
    assert len(origins) == len(set(origins)) >= 1
    rows = sum(table.num_rows for table in stream.outputs().values())
    assert rows == len(OF_ONE_TASK) * 24
